/* Writes the headline of a study. */
#include "report/report_study.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void study_percent(char out[DIGITS_SIZE], double x, double low, double high)
{
    char text[DIGITS_SIZE];
    digits_interval(text, x, low, high);
    size_t n = strcspn(text, " ");
    if (text[n])
        snprintf(out, DIGITS_SIZE, "%.*s %% %.*s %%)", (int)n, text, (int)strlen(text + n) - 2,
                 text + n + 1);
    else
        snprintf(out, DIGITS_SIZE, "%.100s %%", text);
}

#define POOR "The data are poor, see their quality. "

static int rank_of_mode(const struct analysis_cell *c)
{
    static const char *const modes[] = {"ddp", "ddp2", "dp"};
    int i = 0;
    while (i < 3 && strcmp(modes[i], c->mode) != 0)
        i++;
    return i;
}

/* Whether `c` goes before `other` in the choice of the headline. */
static bool is_before(const struct analysis_cell *c, const struct analysis_cell *other)
{
    int mode = rank_of_mode(c) - rank_of_mode(other);
    int precision = (strcmp(c->precision, "fp32") != 0) - (strcmp(other->precision, "fp32") != 0);
    if (mode != 0 || precision != 0)
        return mode != 0 ? mode < 0 : precision < 0;
    if (c->devices != other->devices)
        return c->devices > other->devices;
    return c->scaling == ANALYSIS_WEAK && other->scaling == ANALYSIS_STRONG;
}

/* The cell of the headline; NULL: none has a speed-up on such data. */
static const struct analysis_cell *choose(const struct analysis *a, bool real)
{
    const struct analysis_cell *best = NULL;
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (c->real == real && isfinite(c->speedup) && analysis_base(a, c) &&
            (!best || is_before(c, best)))
            best = c;
    }
    return best;
}

/* Appends "1.92x the throughput of one (efficiency 96 %; 95 % interval 88 to 98 %)". */
static enum status say_scaling(char *text, size_t size, const struct analysis *a,
                               const struct analysis_cell *c, bool whole)
{
    char interval[DIGITS_SIZE];
    struct scaling s;
    int64_t base = analysis_base(a, c)->devices;
    TRY(analysis_scaling(a, c, false, &s));
    digits_interval(interval, s.speedup, s.low, s.high);
    text_append(text, size, "%.*sx", (int)strcspn(interval, " "), interval);
    if (whole && base == 1)
        text_append(text, size, " the throughput of one");
    else if (whole)
        text_append(text, size, " the throughput of %" PRId64, base);
    digits_interval(interval, s.efficiency, s.efficiency_low, s.efficiency_high);
    size_t n = strcspn(interval, " ");
    text_append(text, size, " (%s%.*s %%", whole ? "efficiency " : "", (int)n, interval);
    if (interval[n])
        text_append(text, size, ", %s%.*s %%", whole ? "95 % interval " : "",
                    (int)strlen(interval + n) - 3, interval + n + 2);
    text_append(text, size, ")");
    return STATUS_OK;
}

/* The headline of a study without a speed-up. */
static void say_fastest(struct writer *w, const struct analysis *a, bool poor)
{
    const struct analysis_cell *best = NULL;
    char rate[DIGITS_SIZE], precision[ANALYSIS_TEXT_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (!*c->missing && (!best || c->images_per_s.median > best->images_per_s.median))
            best = c;
    }
    if (!best) {
        writer_headline(w, "No result: all %" PRId64 " cells are missing.", a->n_cells);
        return;
    }
    const struct analysis_measure *m = &best->images_per_s;
    digits_interval(rate, m->median, m->low, m->high);
    writer_headline(w, "%s%" PRId64 " device%s: %s images/s, %s %s %s on %s: %s.", poor ? POOR : "",
                    best->devices, best->devices == 1 ? "" : "s", rate, best->mode,
                    analysis_precision_label(best, precision), best->arch, best->data,
                    analysis_verdict_label(a, best, verdict));
}

void study_headline(struct writer *w, const struct analysis *a, bool poor)
{
    const struct analysis_cell *plain = choose(a, false), *real = choose(a, true);
    const struct analysis_cell *c = plain ? plain : real;
    char text[2048] = "", precision[ANALYSIS_TEXT_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    enum status st = STATUS_OK;
    if (!c) {
        say_fastest(w, a, poor);
        return;
    }
    text_append(text, sizeof text, "%" PRId64 " devices: ", c->devices);
    CHECK(say_scaling(text, sizeof text, a, c, true));
    text_append(text, sizeof text, ", %s %s %s on %s: %s", c->mode,
                analysis_precision_label(c, precision), c->arch, c->data,
                analysis_verdict_label(a, c, verdict));
    if (plain && real) {
        text_append(text, sizeof text, ". On %s: ", real->data);
        if (real->devices != c->devices)
            text_append(text, sizeof text, "%" PRId64 " devices, ", real->devices);
        if (strcmp(real->mode, c->mode) != 0)
            text_append(text, sizeof text, "%s, ", real->mode);
        CHECK(say_scaling(text, sizeof text, a, real, false));
        text_append(text, sizeof text, ", %s", analysis_verdict_label(a, real, verdict));
    }
    writer_headline(w, "%s%s.", poor ? POOR : "", text);
done:
    w->st = w->st == STATUS_OK ? st : w->st;
}
