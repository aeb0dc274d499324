/* Writes the findings of a study: bottlenecks, the effect of the precision, and accuracy. */
#include "report/report_study.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The values of several cells, and what their intervals cover together. */
struct range {
    int64_t n;
    double least, most, low, high;
    double last_low, first_high; /* the intervals have a common part if last_low <= first_high */
    bool whole;                  /* each value has an interval */
};

static void range_add(struct range *r, double x, double low, double high)
{
    if (!isfinite(x))
        return;
    bool first = r->n++ == 0;
    r->least = first ? x : fmin(r->least, x);
    r->most = first ? x : fmax(r->most, x);
    r->low = first ? low : fmin(r->low, low);
    r->high = first ? high : fmax(r->high, high);
    r->last_low = first ? low : fmax(r->last_low, low);
    r->first_high = first ? high : fmin(r->first_high, high);
    r->whole = (first || r->whole) && isfinite(low) && isfinite(high);
}

/* Writes "16 to 20 % (95 % intervals within 5 and 28 %)", or with `unit` "x" for " %". */
static void range_say(const struct range *r, int decimals, const char *unit, char *text,
                      size_t size)
{
    char least[64], most[64];
    snprintf(least, sizeof least, "%.*f", decimals, r->least + 0.0);
    snprintf(most, sizeof most, "%.*f", decimals, r->most + 0.0);
    if (strcmp(least, most) == 0)
        text_append(text, size, "%s%s", least, unit);
    else
        text_append(text, size, "%s to %s%s", least, most, unit);
    if (r->whole)
        text_append(text, size, " (95 %% interval%s %.*f to %.*f%s)", r->n > 1 ? "s within" : "",
                    decimals, r->low, decimals, r->high, unit);
    else
        text_append(text, size, " (without an interval)");
}

/* ---- bottlenecks ---- */

/* The verdict of a cell without the number of the rank that is slow. */
static const char *kind_of(const struct analysis_cell *c)
{
    return strncmp(c->verdict, "slow rank", 9) == 0 ? "slow rank" : c->verdict;
}

/* Whether a cell has a result, and this verdict. */
static bool is_of(const struct analysis_cell *c, const char *kind)
{
    return !*c->missing && strcmp(kind_of(c), kind) == 0;
}

/* Joins the different values of a property of the cells with a verdict: "dp, ddp". */
static void join_values(char *text, size_t size, const struct analysis *a, const char *kind,
                        const char *(*value)(const struct analysis_cell *, char *))
{
    char all[1024] = "";
    for (int64_t i = 0; i < a->n_cells; i++) {
        char own[ANALYSIS_TEXT_SIZE], padded[400], seen[1100];
        const struct analysis_cell *c = &a->cell[i];
        if (!is_of(c, kind))
            continue;
        const char *name = value(c, own);
        snprintf(padded, sizeof padded, ", %s,", name);
        snprintf(seen, sizeof seen, ", %s,", all);
        if (!strstr(seen, padded))
            text_join(all, sizeof all, ", ", "%s", name);
    }
    text_join(text, size, "; ", "%s", all);
}

static const char *mode_of(const struct analysis_cell *c, char *out)
{
    (void)out;
    return c->mode;
}

static const char *data_of(const struct analysis_cell *c, char *out)
{
    (void)out;
    return c->data;
}

/* Joins the different numbers of devices of the cells with a verdict: "1, 2, 4 devices". */
static void join_devices(char *text, size_t size, const struct analysis *a, const char *kind)
{
    char all[256] = "";
    int64_t last = 0, next;
    do {
        next = INT64_MAX;
        for (int64_t i = 0; i < a->n_cells; i++) {
            const struct analysis_cell *c = &a->cell[i];
            if (is_of(c, kind) && c->devices > last && c->devices < next)
                next = c->devices;
        }
        if (next < INT64_MAX)
            text_join(all, sizeof all, ", ", "%" PRId64, next);
        last = next;
    } while (next < INT64_MAX);
    text_join(text, size, "; ", "%s device%s", all, strcmp(all, "1") == 0 ? "" : "s");
}

/* The loss of a ratio of throughputs, percent; 0 for a gain. */
static double lost(double ratio)
{
    return ratio >= 1 ? 0 : 100 - 100 * ratio;
}

/* Adds the loss of throughput of a cell, percent: of a loader-bound cell, relative to the same cell
 * with synthetic data; of another, relative to ideal scaling. */
static enum status add_loss(struct range *r, const struct analysis *a,
                            const struct analysis_cell *c, bool loader)
{
    struct scaling s;
    double low, high;
    if (loader) {
        const struct analysis_cell *p = analysis_synthetic(a, c);
        if (!p)
            return STATUS_OK;
        TRY(analysis_ratio_interval(&c->images_per_s, &p->images_per_s, &low, &high));
        range_add(r, lost(c->images_per_s.median / p->images_per_s.median), lost(high), lost(low));
        return STATUS_OK;
    }
    if (!analysis_base(a, c))
        return STATUS_OK;
    TRY(analysis_scaling(a, c, false, &s));
    range_add(r, lost(s.efficiency / 100), lost(s.efficiency_high / 100),
              lost(s.efficiency_low / 100));
    return STATUS_OK;
}

/* Adds a line on the cells with a verdict. */
static enum status say_verdict(struct table *items, const struct analysis *a, const char *kind)
{
    struct range loss = {0};
    int64_t n = 0;
    char text[1024] = "", cells[512] = "";
    bool loader = strncmp(kind, "loader", 6) == 0;
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (!is_of(c, kind))
            continue;
        n++;
        TRY(add_loss(&loss, a, c, loader));
    }
    join_values(cells, sizeof cells, a, kind, mode_of);
    join_values(cells, sizeof cells, a, kind, analysis_precision_label);
    join_values(cells, sizeof cells, a, kind, data_of);
    join_devices(cells, sizeof cells, a, kind);
    text_append(text, sizeof text, "%s: %" PRId64 " of %" PRId64 " cells (%s)", kind, n, a->n_cells,
                cells);
    if (loss.n > 0) {
        text_append(text, sizeof text, ". Lost against %s: ",
                    loader ? "the same cells on synthetic data" : "ideal scaling");
        range_say(&loss, 0, " %", text, sizeof text);
    }
    table_add(items, "%s.", text);
    return STATUS_OK;
}

static enum status bottlenecks(struct writer *w, const struct analysis *a)
{
    struct table items = {0};
    enum status st = STATUS_OK;
    for (int64_t i = 0; st == STATUS_OK && i < a->n_cells; i++) {
        const char *kind = kind_of(&a->cell[i]);
        bool first = !*a->cell[i].missing;
        for (int64_t k = 0; k < i; k++)
            first = first && !is_of(&a->cell[k], kind);
        if (first)
            st = say_verdict(&items, a, kind);
    }
    if (items.n > 0)
        writer_heading(w, 4, "Bottlenecks");
    writer_list(w, &items);
    return st;
}

/* ---- precision ---- */

/* Returns the cell that equals `c` except that it has the study's first precision; NULL if there is
 * no such cell or it has no result. */
static const struct analysis_cell *first_precision(const struct analysis *a,
                                                   const struct analysis_cell *c)
{
    const char *first = a->cell[0].precision;
    for (int64_t i = 0; i < a->n_cells && strcmp(c->precision, first) != 0; i++) {
        const struct analysis_cell *p = &a->cell[i];
        if (strcmp(p->precision, first) == 0 && strcmp(p->mode, c->mode) == 0 &&
            strcmp(p->arch, c->arch) == 0 && strcmp(p->data, c->data) == 0 &&
            p->scaling == c->scaling && p->devices == c->devices && p->batch == c->batch)
            return *p->missing ? NULL : p;
    }
    return NULL;
}

/* Adds a line on the throughput of c's precision on one device, relative to the first precision. */
static enum status say_precision(struct table *items, const struct analysis *a,
                                 const struct analysis_cell *c)
{
    struct range gain = {0};
    int64_t loader = 0, disturbed = 0, alike = 0;
    double low, high;
    char text[1024] = "", precision[ANALYSIS_TEXT_SIZE];
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *x = &a->cell[i], *p = first_precision(a, x);
        if (!p || *x->missing || x->devices > 1 || strcmp(x->precision, c->precision) != 0)
            continue;
        TRY(analysis_ratio_interval(&x->images_per_s, &p->images_per_s, &low, &high));
        range_add(&gain, x->images_per_s.median / p->images_per_s.median, low, high);
        loader += strcmp(p->verdict, "loader-bound") == 0;
        alike += !(low > 1 || high < 1);
        disturbed += x->conditions.disturbed > 0 || p->conditions.disturbed > 0;
    }
    if (gain.n == 0)
        return STATUS_OK;
    range_say(&gain, 2, "x", text, sizeof text);
    if (alike + disturbed > 0)
        text_append(text, sizeof text,
                    "; %" PRId64 " of %" PRId64 " pairs cannot be told apart, %" PRId64
                    " were disturbed",
                    alike, gain.n, disturbed);
    if (c->emulated)
        text_append(text, sizeof text, "; emulated: the speed is not the type's");
    if (loader > 0)
        text_append(text, sizeof text,
                    "; %" PRId64 " of %" PRId64 " %s cells are loader-bound: a faster precision "
                    "gains little there",
                    loader, gain.n, a->cell[0].precision);
    table_add(items, "%s: images/s relative to %s on one device: %s.",
              analysis_precision_label(c, precision), a->cell[0].precision, text);
    return STATUS_OK;
}

static enum status precisions(struct writer *w, const struct analysis *a)
{
    struct table items = {0};
    enum status st = STATUS_OK;
    for (int64_t i = 1; st == STATUS_OK && i < a->n_cells; i++) {
        bool first = true;
        for (int64_t k = 0; k < i; k++)
            first = first && strcmp(a->cell[k].precision, a->cell[i].precision) != 0;
        if (first)
            st = say_precision(&items, a, &a->cell[i]);
    }
    if (items.n > 0)
        writer_heading(w, 4, "Precision");
    writer_list(w, &items);
    return st;
}

/* ---- accuracy ---- */

/* Adds a line on the top-1 of cells with the data of `c`. Accuracy on random tensors means nothing.
 */
static void say_accuracy(struct table *items, const struct analysis *a,
                         const struct analysis_cell *c)
{
    struct range top1 = {0};
    for (int64_t i = 0; i < a->n_cells; i++)
        if (strcmp(a->cell[i].data, c->data) == 0)
            range_add(&top1, a->cell[i].top1, a->cell[i].top1_runs.low, a->cell[i].top1_runs.high);
    if (top1.n == 0)
        return;
    char text[256] = "";
    bool apart = top1.whole && top1.last_low > top1.first_high;
    range_say(&top1, 1, " %", text, sizeof text);
    table_add(items, "%s: top-1 of the last validation %s, median over the runs of a cell%s.",
              c->data, text, apart || top1.n == 1 ? "" : "; the cells cannot be told apart");
}

static void accuracy(struct writer *w, const struct analysis *a)
{
    struct table items = {0};
    for (int64_t i = 0; i < a->n_cells; i++) {
        bool first = a->cell[i].real;
        for (int64_t k = 0; k < i; k++)
            first = first && strcmp(a->cell[k].data, a->cell[i].data) != 0;
        if (first)
            say_accuracy(&items, a, &a->cell[i]);
    }
    if (items.n > 0)
        writer_heading(w, 4, "Accuracy");
    writer_list(w, &items);
}

void study_findings(struct writer *w, const struct analysis *a)
{
    study_scaling_table(w, a);
    enum status st = bottlenecks(w, a);
    st = st == STATUS_OK ? precisions(w, a) : st;
    accuracy(w, a);
    w->st = w->st == STATUS_OK ? st : w->st;
}
