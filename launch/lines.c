/* Assembling lines. */
#include "launch/lines.h"

void lines_end(struct lines *l, lines_take *take, void *self)
{
    if (l->n > 0)
        take(self, l->held, l->n);
    l->n = 0;
}

/* The line is to be drawn anew: what was held is overwritten. */
static void redraw(struct lines *l, lines_take *take, void *self)
{
    if (l->live)
        lines_end(l, take, self);
    l->n = 0;
    l->drawn = true;
}

void lines_feed(struct lines *l, const char *bytes, size_t n, lines_take *take, void *self)
{
    for (size_t i = 0; i < n; i++) {
        /* A carriage return redraws, unless it belongs to the line's end. */
        if (l->n > 0 && l->held[l->n - 1] == '\r' && bytes[i] != '\n')
            redraw(l, take, self);
        l->held[l->n++] = bytes[i];
        if (bytes[i] == '\n')
            l->drawn = false;
        if (bytes[i] == '\n' || l->n == sizeof l->held)
            lines_end(l, take, self);
    }
    if (l->live && l->drawn)
        lines_end(l, take, self);
}
