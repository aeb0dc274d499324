/* Prints log lines, and draws the bar on a terminal. */
#include "runners/progress.h"

#include "base/bar.h"
#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void meter_add(struct meter *m, double value, double weight)
{
    if (weight <= 0)
        return;
    m->value = isnan(value) ? NAN : value; /* printed as "nan", never as "-nan" */
    m->sum += m->value * weight;
    m->weight += weight;
}

static double meter_mean(const struct meter *m)
{
    return m->weight > 0 ? m->sum / m->weight : NAN;
}

void progress_begin(struct progress *p, FILE *out, const char *title, int64_t batches,
                    int64_t first, int print_freq)
{
    *p = (struct progress){.out = out,
                           .terminal = print_freq > 0 && bar_redraws(out),
                           .batches = batches,
                           .print_freq = print_freq,
                           .begun = clock_s(),
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
 * the end. A batch without a valid image has no loss and no accuracy. */
static void print_line(const struct progress *p, int64_t i)
{
    char loss[32] = "-", top1[32] = "-", top5[32] = "-";
    if (!p->blank) {
        snprintf(loss, sizeof loss, "%.4e", p->loss.value);
        snprintf(top1, sizeof top1, "%.2f", p->top1.value);
        snprintf(top5, sizeof top5, "%.2f", p->top5.value);
    }
    fprintf(p->out,
            "%s[%*" PRId64 "/%" PRId64 "]\tTime %6.3f (%6.3f)\tData %6.3f (%6.3f)\t"
            "Loss %s (%.4e)\tAcc@1 %6s (%6.2f)\tAcc@5 %6s (%6.2f)\tImg/s %.1f (%.1f)",
            p->title, digits(p->batches), i + 1, p->batches, p->time.value, meter_mean(&p->time),
            p->data.value, meter_mean(&p->data), loss, meter_mean(&p->loss), top1,
            meter_mean(&p->top1), top5, meter_mean(&p->top5), p->rate.value, meter_mean(&p->rate));
    if (p->loss_scale > 0)
        fprintf(p->out, "\tScale %g\tSkipped %" PRId64, p->loss_scale, p->skipped);
    fputc('\n', p->out);
    fflush(p->out);
}

/* Draws the bar, with the fields after it. */
static void draw_bar(struct progress *p, int64_t i)
{
    enum { FIELDS = 5 };
    double now = clock_s();
    if (now - p->drawn < 0.1 && i + 1 < p->batches)
        return; /* at most ten times a second */
    p->drawn = now;
    char text[FIELDS][BAR_LEFT_SIZE];
    const char *const field[FIELDS] = {text[0], text[1], text[2], text[3], text[4]};
    double here = (double)(i + 1 - p->first) / (double)(p->batches - p->first);
    snprintf(text[0], sizeof text[0], " %" PRId64 "/%" PRId64, i + 1, p->batches);
    snprintf(text[1], sizeof text[1], "  loss %.3f", meter_mean(&p->loss));
    snprintf(text[2], sizeof text[2], "  acc@1 %.2f", meter_mean(&p->top1));
    snprintf(text[3], sizeof text[3], "  %.1f img/s", meter_mean(&p->rate));
    bar_left(now - p->begun, here, text[4]);
    bar_draw(p->out, p->title, (double)(i + 1) / (double)p->batches, field, FIELDS);
}

void progress_batch(struct progress *p, int64_t i, const struct progress_values *v)
{
    meter_add(&p->time, v->time_s, 1);
    meter_add(&p->data, v->data_s, 1);
    meter_add(&p->loss, v->loss, (double)v->weight);
    meter_add(&p->top1, v->top1, (double)v->weight);
    meter_add(&p->top5, v->top5, (double)v->weight);
    meter_add(&p->rate, (double)v->images / v->time_s, v->time_s); /* mean: images over time */
    p->blank = v->images == 0;
    p->last = i;
    if (v->skipped)
        p->loss.value = isnan(v->loss) ? NAN : v->loss; /* shown, but not averaged */
    if (p->terminal)
        draw_bar(p, i);
    else if (p->print_freq > 0 && i % p->print_freq == 0)
        print_line(p, i);
}

void progress_overflow(struct progress *p, double scale, bool dynamic)
{
    char number[32]; /* as Python prints a float, with ".0" after a whole number */
    snprintf(number, sizeof number, scale == floor(scale) ? "%.1f" : "%.15g", scale);
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
    if (p->time.weight > 0)
        print_line(p, p->last);
}
