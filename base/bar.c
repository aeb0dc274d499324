/* Draws progress bars. */
#include "base/bar.h"

#include "base/clock.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* BAR_MAX: limit of the bar's columns; FIELDS_MAX: limit of the bytes of the fields next to it. */
enum { BAR_MAX = 24, FIELDS_MAX = 256 };

/* Number of columns of the terminal; 80 if the terminal does not report it. */
static int terminal_columns(FILE *out)
{
    struct winsize size;
    bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
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

/* " [====>    ]", at most `room` columns wide; "" if the bar would have fewer than 4 columns. */
static void bar_text(double share, int room, char out[BAR_MAX + 4])
{
    int width = room - 3 < BAR_MAX ? room - 3 : BAR_MAX;
    int full = (int)(share * width);
    out[0] = '\0';
    if (width < 4)
        return;
    memcpy(out, " [", 2);
    memset(out + 2, '=', (size_t)full);
    memset(out + 2 + full, ' ', (size_t)(width - full));
    if (full > 0 && full < width)
        out[1 + full] = '>';
    memcpy(out + 2 + width, "]", 2);
}

void bar_draw(FILE *out, const char *title, double share, const char *const *field, int n)
{
    char bar[BAR_MAX + 4], fields[FIELDS_MAX];
    int room = terminal_columns(out) - 1 - (int)strlen(title);
    fields_text(field, n, room, fields);
    bar_text(share, room - (int)strlen(fields), bar);
    fprintf(out, "\r%s%s%s\033[K", title, bar, fields);
    fflush(out);
}

void bar_left(double seconds, double share, char out[BAR_LEFT_SIZE])
{
    int64_t s = (int64_t)(seconds / share * (1 - share) + 0.5);
    if (s >= 3600)
        snprintf(out, BAR_LEFT_SIZE, "  %" PRId64 ":%02d:%02d left", s / 3600, (int)(s / 60 % 60),
                 (int)(s % 60));
    else
        snprintf(out, BAR_LEFT_SIZE, "  %d:%02d left", (int)(s / 60), (int)(s % 60));
}

FILE *bar_stream(bool quiet)
{
    return !quiet && isatty(STDERR_FILENO) == 1 ? stderr : NULL;
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
