/* Log lines and the terminal bar. */
#include "runners/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

void meter_add(struct meter *m, double value, int64_t n)
{
    if (!isfinite(value))
        return;
    m->value = value;
    m->sum += value * (double)n;
    m->n += n;
}

double meter_mean(const struct meter *m)
{
    return m->n ? m->sum / (double)m->n : 0;
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

/* The fields and widths of pytorch/examples' ProgressMeter; throughput is added at the end. */
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

/* Seconds as "1:23" or "2:03:04". */
static void format_time(char *out, size_t size, double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, size, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(out, size, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static void draw_bar(struct progress *p, int64_t i)
{
    double now = (double)clock_ns() * 1e-9;
    if (now - p->drawn < 0.1 && i + 1 < p->batches)
        return; /* a terminal is slow, and eyes are slower */
    p->drawn = now;
    enum { WIDTH = 24 };
    char bar[WIDTH + 1], left[24];
    int full = (int)((i + 1) * WIDTH / p->batches);
    memset(bar, '=', (size_t)full);
    memset(bar + full, ' ', (size_t)(WIDTH - full));
    if (full > 0 && full < WIDTH)
        bar[full - 1] = '>';
    bar[WIDTH] = '\0';
    double per_batch = (now - p->begun) / (double)(i + 1 - p->first);
    format_time(left, sizeof left, per_batch * (double)(p->batches - 1 - i));
    fprintf(p->out,
            "\r%s [%s] %" PRId64 "/%" PRId64 "  loss %.3f  acc@1 %.2f  %.1f img/s  %s left\033[K",
            p->title, bar, i + 1, p->batches, meter_mean(&p->loss), meter_mean(&p->top1),
            meter_mean(&p->rate), left);
    fflush(p->out);
}

void progress_batch(struct progress *p, int64_t i)
{
    if (p->terminal)
        draw_bar(p, i);
    else if (i % p->print_freq == 0)
        print_line(p, i);
}

void progress_end(struct progress *p)
{
    if (!p->terminal)
        return;
    fprintf(p->out, "\r\033[K");
    /* The bar leaves what a log would have kept: the pass in one line. */
    print_line(p, p->batches - 1);
}

void progress_accuracy(FILE *out, double top1, double top5)
{
    fprintf(out, " *   Acc@1 %.3f Acc@5 %.3f\n", top1, top5);
    fflush(out);
}
