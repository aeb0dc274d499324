/* Draws progress bars. */
#include "base/bar.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* BAR_MAX: limit of the bar's columns; FIELDS_MAX: limit of the bytes of the fields next to it. */
enum { BAR_MAX = 24, FIELDS_MAX = 256 };

int bar_descriptor(FILE *out)
{
    return out == stdout ? STDOUT_FILENO : out == stderr ? STDERR_FILENO : fileno(out);
}

/* Writes to `out` as many complete fields as fit into `room` columns. */
static void fields_text(const char *const *field, int n, int room, char out[FIELDS_MAX])
{
    out[0] = '\0';
    for (int k = 0, used = 0; k < n; k++) {
        int size = (int)strlen(field[k]);
        if (used + size > room || used + size >= FIELDS_MAX)
            return;
        memcpy(out + used, field[k], (size_t)size + 1);
        used += size;
    }
}

void bar_text(char *out, double share, int columns)
{
    int full = share >= 1 ? columns : share > 0 ? (int)(share * columns) : 0;
    out[0] = '[';
    memset(out + 1, '=', (size_t)full);
    memset(out + 1 + full, ' ', (size_t)(columns - full));
    if (full > 0 && full < columns)
        out[full] = '>';
    memcpy(out + 1 + columns, "]", 2);
}

void bar_draw(FILE *out, const char *title, double share, const char *const *field, int n)
{
    char bar[BAR_MAX + 4] = " ", fields[FIELDS_MAX];
    struct winsize size;
    bool known = ioctl(bar_descriptor(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    int room = (known ? size.ws_col : 80) - 1 - (int)strlen(title);
    fields_text(field, n, room, fields);
    int width = room - (int)strlen(fields) - 3;
    if (width >= 4)
        bar_text(bar + 1, share, width < BAR_MAX ? width : BAR_MAX);
    fprintf(out, "\r%s%s%s\033[K", title, width >= 4 ? bar : "", fields);
    fflush(out);
}

void bar_time(double seconds, char out[BAR_TIME_SIZE])
{
    if (!(seconds >= 0 && seconds < 3.2e9)) {
        snprintf(out, BAR_TIME_SIZE, "-");
        return;
    }
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, BAR_TIME_SIZE, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60),
                 (int)(s % 60));
    else
        snprintf(out, BAR_TIME_SIZE, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

void bar_left(double seconds, double share, char out[BAR_LEFT_SIZE])
{
    char time[BAR_TIME_SIZE];
    bar_time(seconds / share * (1 - share), time);
    snprintf(out, BAR_LEFT_SIZE, "  %s left", time);
}

bool bar_redraws(FILE *out)
{
    const char *kind = getenv("TERM");
    return isatty(bar_descriptor(out)) == 1 && kind && *kind && strcmp(kind, "dumb") != 0;
}

FILE *bar_stream(bool quiet)
{
    return !quiet && bar_redraws(stderr) ? stderr : NULL;
}

void bar_begin(struct bar *b, int64_t total)
{
    if (!b)
        return;
    b->total = total;
    b->done = 0;
    b->begun = b->drawn = clock_s();
}

void bar_erase(struct bar *b)
{
    if (!b || !b->shown)
        return;
    fputs("\r\033[K", b->out);
    fflush(b->out);
    b->shown = false;
}

void bar_step(struct bar *b)
{
    char count[48], left[BAR_LEFT_SIZE];
    const char *const field[] = {count, left};
    if (!b || !b->out || b->done >= b->total)
        return;
    b->done++;
    double now = clock_s();
    if (b->done == b->total)
        bar_erase(b);
    if (b->done == b->total || now - b->drawn < 0.1)
        return;
    double share = (double)b->done / (double)b->total;
    snprintf(count, sizeof count, " %" PRId64 "/%" PRId64, b->done, b->total);
    bar_left(now - b->begun, share, left);
    bar_draw(b->out, b->title, share, field, 2);
    b->drawn = now;
    b->shown = true;
}
