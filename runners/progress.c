/* Prints log lines, and draws the bar on a terminal. */
#include "runners/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* BAR_MAX: limit of the bar's columns; FIELDS_MAX: limit of the bytes of the fields next to it. */
enum { BAR_MAX = 24, FIELDS_MAX = 5 * 48 };

static void meter_add(struct meter *m, double value, int64_t n)
{
    if (n == 0)
        return;
    m->value = isnan(value) ? NAN : value; /* "nan", never "-nan" */
    m->sum += m->value * (double)n;
    m->n += n;
}

static double meter_mean(const struct meter *m)
{
    return m->n ? m->sum / (double)m->n : NAN;
}

void progress_begin(struct progress *p, FILE *out, const char *title, int64_t batches,
                    int64_t first, int print_freq)
{
    *p = (struct progress){.out = out,
                           .terminal = isatty(fileno(out)) == 1,
                           .batches = batches,
                           .print_freq = print_freq,
                           .begun = (double)clock_ns() * 1e-9,
                           .first = first};
    snprintf(p->title, sizeof p->title, "%s", title);
}

static int digits(int64_t n)
{
    int d = 1;
    for (; n >= 10; n /= 10)
        d++;
    return d;
}

/* Prints the fields of pytorch/examples' ProgressMeter with their widths, and adds throughput at
 * the end. */
static void print_line(const struct progress *p, int64_t i)
{
    fprintf(p->out,
            "%s[%*" PRId64 "/%" PRId64 "]\tTime %6.3f (%6.3f)\tData %6.3f (%6.3f)\t"
            "Loss %.4e (%.4e)\tAcc@1 %6.2f (%6.2f)\tAcc@5 %6.2f (%6.2f)\tImg/s %.1f (%.1f)",
            p->title, digits(p->batches), i + 1, p->batches, p->time.value, meter_mean(&p->time),
            p->data.value, meter_mean(&p->data), p->loss.value, meter_mean(&p->loss), p->top1.value,
            meter_mean(&p->top1), p->top5.value, meter_mean(&p->top5), p->rate.value,
            meter_mean(&p->rate));
    if (p->loss_scale > 0)
        fprintf(p->out, "\tScale %g\tSkipped %" PRId64, p->loss_scale, p->skipped);
    fputc('\n', p->out);
    fflush(p->out);
}

/* Writes seconds as "1:23" or "2:03:04". */
static void format_time(char *out, size_t size, double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, size, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(out, size, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

/* Number of columns of the terminal; 80 if the terminal does not report it. */
static int terminal_columns(const struct progress *p)
{
    struct winsize size;
    bool known = ioctl(fileno(p->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

/* Writes the fields next to the bar: as many complete fields as fit into `room` columns. */
static void bar_fields(const struct progress *p, int64_t i, double now, int room,
                       char out[FIELDS_MAX])
{
    enum { FIELDS = 5 };
    char field[FIELDS][48], left[24];
    double per_batch = (now - p->begun) / (double)(i + 1 - p->first);
    format_time(left, sizeof left, per_batch * (double)(p->batches - 1 - i));
    snprintf(field[0], sizeof field[0], " %" PRId64 "/%" PRId64, i + 1, p->batches);
    snprintf(field[1], sizeof field[1], "  loss %.3f", meter_mean(&p->loss));
    snprintf(field[2], sizeof field[2], "  acc@1 %.2f", meter_mean(&p->top1));
    snprintf(field[3], sizeof field[3], "  %.1f img/s", meter_mean(&p->rate));
    snprintf(field[4], sizeof field[4], "  %s left", left);
    out[0] = '\0';
    for (int k = 0, used = 0; k < FIELDS; k++) {
        int size = (int)strlen(field[k]);
        if (used + size > room)
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

/* Draws a line that fits the terminal, because a wider line could not be redrawn in place. */
static void draw_bar(struct progress *p, int64_t i)
{
    double now = (double)clock_ns() * 1e-9;
    if (now - p->drawn < 0.1 && i + 1 < p->batches)
        return; /* at most ten times a second */
    p->drawn = now;
    char bar[BAR_MAX + 4], fields[FIELDS_MAX];
    int room = terminal_columns(p) - 1 - (int)strlen(p->title);
    bar_fields(p, i, now, room, fields);
    bar_text((double)(i + 1) / (double)p->batches, room - (int)strlen(fields), bar);
    fprintf(p->out, "\r%s%s%s\033[K", p->title, bar, fields);
    fflush(p->out);
}

void progress_batch(struct progress *p, int64_t i, const struct progress_values *v)
{
    meter_add(&p->time, v->time_s, 1);
    meter_add(&p->data, v->data_s, 1);
    meter_add(&p->loss, v->loss, v->weight);
    meter_add(&p->top1, v->top1, v->weight);
    meter_add(&p->top5, v->top5, v->weight);
    meter_add(&p->rate, (double)v->images / v->time_s, v->time_s > 0);
    if (v->skipped)
        p->loss.value = isnan(v->loss) ? NAN : v->loss; /* in no mean */
    if (p->terminal)
        draw_bar(p, i);
    else if (i % p->print_freq == 0)
        print_line(p, i);
}

/* Writes a number as Python prints a float: with the fewest digits that identify it, and with ".0"
 * after a whole number. */
static void python_float(double x, char out[32])
{
    bool whole = x == floor(x) && fabs(x) < 1e16;
    snprintf(out, 32, "%.1f", x);
    for (int digits = 1; !whole && digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, x);
        if (strtod(out, NULL) == x)
            return;
    }
}

void progress_overflow(struct progress *p, double scale, bool dynamic)
{
    char number[32];
    python_float(scale, number);
    fprintf(p->out, "%sGradient overflow.  Skipping step, loss scaler 0 %s %s\n",
            p->terminal ? "\r\033[K" : "", dynamic ? "reducing loss scale to" : "keeps loss scale",
            number);
}

void progress_end(struct progress *p)
{
    if (!p->terminal)
        return;
    fprintf(p->out, "\r\033[K");
    /* Replaces the bar with the log line of the last batch. */
    print_line(p, p->batches - 1);
}

void progress_accuracy(FILE *out, double top1, double top5)
{
    fprintf(out, " *   Acc@1 %.3f Acc@5 %.3f\n", top1, top5);
    fflush(out);
}
