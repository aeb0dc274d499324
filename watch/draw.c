/* Draws text of a given width. */
#include "watch/draw.h"

#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void draw_line(FILE *out, const struct view_options *o, const char *fmt, ...)
{
    char text[2 * DRAW_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t end = 0;
    for (int columns = 0; text[end]; end++) {
        bool begins = ((unsigned char)text[end] & 0xc0) != 0x80;
        columns += begins;
        if (columns > o->width)
            break;
    }
    while (end > 0 && text[end - 1] == ' ')
        end--;
    fprintf(out, "%.*s\n", (int)end, text);
}

void draw_lines(FILE *out, const struct view_options *o, const char *text)
{
    size_t width = (size_t)o->width;
    while (strlen(text) > width) {
        size_t n = width;
        while (n > 0 && text[n] != ' ')
            n--;
        if (n == 0)
            break;
        draw_line(out, o, "%.*s", (int)n, text);
        text += n + 1;
    }
    draw_line(out, o, "%s", text);
}

/* The mean of the finite values of x[0..n); NAN if no value is finite. */
static double mean_finite(const double *x, int64_t n)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        sum += x[i];
        count++;
    }
    return count ? sum / (double)count : NAN;
}

void draw_spark(char out[DRAW_MAX], const double *x, int64_t n, int columns, bool ascii)
{
    enum { LEVELS = 8, COLUMNS_MAX = 256 };
    static const char *const blocks[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[LEVELS] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    double column[COLUMNS_MAX], low = INFINITY, high = -INFINITY;
    columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    int shown = n < columns ? (int)n : columns;
    for (int i = 0; i < shown; i++) {
        int64_t begin = n * i / shown, end = n * (i + 1) / shown;
        column[i] = mean_finite(x + begin, end - begin);
        low = fmin(low, column[i]);
        high = fmax(high, column[i]);
    }
    out[0] = '\0';
    for (int i = 0; i < shown; i++) {
        int level =
            high > low ? (int)((column[i] - low) / (high - low) * (LEVELS - 1) + 0.5) : LEVELS / 2;
        const char *mark = !isfinite(column[i]) ? " " : ascii ? plain[level] : blocks[level];
        text_append(out, DRAW_MAX, "%s", mark);
    }
}
