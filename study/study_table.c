/* Prints a study's analysis as a table for the terminal. */
#include "study/study_collect.h"

#include "base/digits.h"

#include <math.h>
#include <string.h>

/* Writes a number, or a dash if it is not finite. */
static void number(FILE *out, int width, int decimals, double x)
{
    if (isfinite(x))
        fprintf(out, " %*.*f", width, decimals, x);
    else
        fprintf(out, " %*s", width, "-");
}

/* Writes a text of `width` columns, with a minus for the dash of a number that is not known. */
static void text(FILE *out, int width, const char *text)
{
    fprintf(out, " %*s", width, strcmp(text, "\u2013") == 0 ? "-" : text);
}

/* Writes a median with its interval. */
static void measure(FILE *out, int width, const struct analysis_measure *m)
{
    char shown[DIGITS_SIZE];
    digits_interval(shown, m->median, m->low, m->high);
    text(out, width, shown);
}

/* Writes an efficiency with its interval. */
static enum status efficiency(FILE *out, const struct analysis *a, const struct analysis_cell *c,
                              bool wall)
{
    char shown[DIGITS_SIZE];
    struct scaling s;
    TRY(analysis_scaling(a, c, wall, &s));
    digits_interval(shown, s.efficiency, s.efficiency_low, s.efficiency_high);
    text(out, 22, shown);
    return STATUS_OK;
}

static enum status print_cell(const struct analysis *a, const struct analysis_cell *c, int width,
                              FILE *out)
{
    char wall[DIGITS_SIZE], label[ANALYSIS_TEXT_SIZE];
    double step = analysis_step_s(c);
    fprintf(out, "%-*s", width, analysis_name_label(c, label));
    measure(out, 24, &c->images_per_s);
    number(out, 3, 0, (double)c->images_per_s.n);
    digits_amount(wall, c->wall.median);
    text(out, 9, wall);
    number(out, 6, 2, c->speedup);
    TRY(efficiency(out, a, c, false));
    TRY(efficiency(out, a, c, true));
    number(out, 6, 2, c->real ? c->top1 : NAN);
    number(out, 6, 1, 100 * c->split[ANALYSIS_DATA] / step);
    number(out, 6, 1, 100 * c->split[ANALYSIS_COMM] / step);
    fprintf(out, "  %s%s%s\n", analysis_verdict_label(a, c, label), *c->missing ? ": " : "",
            c->missing);
    return STATUS_OK;
}

enum status study_print(const struct analysis *a, FILE *out)
{
    int width = 4;
    const char *key;
    json_t *value;
    for (int64_t i = 0; i < a->n_cells; i++) {
        char label[ANALYSIS_TEXT_SIZE];
        width = (int)fmax(width, (double)strlen(analysis_name_label(&a->cell[i], label)));
    }
    fprintf(out, "%-*s %24s %3s %9s %6s %22s %22s %6s %6s %6s\n", width, "cell", "images/s", "n",
            "wall", "speed", "eff%", "wall%", "top1%", "data%", "comm%");
    for (int64_t i = 0; i < a->n_cells; i++)
        TRY(print_cell(a, &a->cell[i], width, out));
    fprintf(out, "in brackets: 95 %% interval; bottleneck thresholds:");
    json_object_foreach(a->thresholds, key, value)
    {
        fprintf(out, " %s %.2f", key, json_number_value(value));
    }
    fprintf(out, "\n");
    return STATUS_OK;
}
