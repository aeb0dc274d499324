/* The bottleneck of a cell.
 *
 * The verdict is the first of these that applies: more threads than cores; a straggler;
 * loader-bound (slower than the same cell on synthetic tensors); communication-bound (slower per
 * device than a single device); compute-bound (computing takes most of a step). The loader-bound
 * and communication-bound verdicts need another cell to compare with. If that cell has no result
 * and the judged cell waits longer than the threshold, the verdict is "not enough to say". */
#include "study/study_analyse.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NOT_ENOUGH "not enough to say"

/* A cell to judge, and the data that its verdict depends on. */
struct trial {
    const struct analysis *all;
    const struct study_thresholds *t;
    const struct study_result *result;
    struct analysis_cell *cell;
    double step_s;
};

static void PRINTF_LIKE(2, 3) evidence(struct analysis_cell *c, const char *fmt, ...)
{
    va_list args;
    if (c->n_evidence == ANALYSIS_MAX_EVIDENCE)
        return;
    va_start(args, fmt);
    vsnprintf(c->evidence[c->n_evidence++], ANALYSIS_TEXT_SIZE, fmt, args);
    va_end(args);
}

static void PRINTF_LIKE(2, 3) decide(struct analysis_cell *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->verdict, sizeof c->verdict, fmt, args);
    va_end(args);
}

static bool same_work(const struct analysis_cell *a, const struct analysis_cell *b)
{
    return strcmp(a->precision, b->precision) == 0 && strcmp(a->arch, b->arch) == 0;
}

/* The same cell with synthetic data; NULL: there is no such cell, or it has no result. */
static const struct analysis_cell *synthetic_partner(const struct trial *tr)
{
    const struct analysis_cell *c = tr->cell;
    for (int64_t i = 0; i < tr->all->n_cells; i++) {
        const struct analysis_cell *p = &tr->all->cell[i];
        if (!p->real && same_work(p, c) && strcmp(p->mode, c->mode) == 0 &&
            p->devices == c->devices && p->batch == c->batch && p->images_per_s.n > 0)
            return p;
    }
    return NULL;
}

/* The cell that has one device and the same batch per device as the judged cell; NULL: there is
 * no such cell, or it has no result. */
static const struct analysis_cell *single_partner(const struct trial *tr)
{
    const struct analysis_cell *c = tr->cell;
    for (int64_t i = 0; i < tr->all->n_cells; i++) {
        const struct analysis_cell *p = &tr->all->cell[i];
        if (p->devices == 1 && same_work(p, c) && strcmp(p->data, c->data) == 0 &&
            p->batch == c->batch / c->devices && p->images_per_s.n > 0)
            return p;
    }
    return NULL;
}

/* The fraction of throughput that is lost:
 *   1 - (median of `low` / low_by) / (median of `high`).
 * The result is 0 if this value is negative, or if the intervals overlap. */
static double loss(const struct analysis_measure *low, double low_by,
                   const struct analysis_measure *high)
{
    bool known = isfinite(low->high) && isfinite(high->low);
    if (known && low->high / low_by >= high->low)
        return 0;
    return fmax(0, 1 - low->median / low_by / high->median);
}

static const char *say_loss(double lost, char *out, size_t size)
{
    if (lost == 0)
        return "no loss beyond the spread of the runs";
    snprintf(out, size, "a loss of %.1f %%", 100 * lost);
    return out;
}

static bool oversubscribed(struct trial *tr)
{
    double threads = 0, cores = 0;
    for (int64_t i = 0; i < tr->result->n; i++) {
        const struct study_sample *s = &tr->result->sample[i];
        if (s->threads > s->cores && s->threads > threads) {
            threads = s->threads;
            cores = s->cores;
        }
    }
    if (threads == 0)
        return false;
    evidence(tr->cell, "%.0f threads compute on a host with %.4g usable cores", threads, cores);
    decide(tr->cell, "oversubscribed");
    return true;
}

static bool slow_rank(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    int64_t times = 0;
    double noise = 0; /* lowest value of `noise` in runs whose slowest rank is c->slowest_rank */
    const struct study_sample *last = NULL;
    for (int64_t i = 0; i < tr->result->n; i++)
        if (tr->result->sample[i].slowest_rank == c->slowest_rank) {
            times++;
            noise = last ? fmin(noise, tr->result->sample[i].noise) : tr->result->sample[i].noise;
            last = &tr->result->sample[i];
        }
    if (c->slowest_rank < 0 || !last)
        return false;
    if (c->behind < fmax(tr->t->behind, noise) || 2 * times <= tr->result->n) {
        evidence(c,
                 "no straggler: the slowest rank needs %.1f %% more than the median of the others; "
                 "noise alone may cause %.1f %%",
                 100 * c->behind, 100 * noise);
        return false;
    }
    evidence(c,
             "straggler: rank %" PRId64
             " on %s needs %.1f %% more than the median of the others, in %" PRId64 " of %" PRId64
             " runs, mostly in %s",
             c->slowest_rank, last->host, 100 * c->behind, times, tr->result->n, last->part);
    decide(c, "slow rank %" PRId64, c->slowest_rank);
    return true;
}

static bool loader_bound(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    double share = c->split[ANALYSIS_DATA] / tr->step_s;
    char text[64];
    if (!c->real)
        return false;
    const struct analysis_cell *p = synthetic_partner(tr);
    evidence(c, "the loader delays steps by %.1f %% of their time", 100 * share);
    if (!p) {
        evidence(c, "there is no cell with synthetic data to compare with");
        if (share >= tr->t->data_share)
            decide(c, NOT_ENOUGH);
        return share >= tr->t->data_share;
    }
    double lost = loss(&c->images_per_s, 1, &p->images_per_s);
    evidence(c, "%.1f images/s; with synthetic data %.1f: %s", c->images_per_s.median,
             p->images_per_s.median, say_loss(lost, text, sizeof text));
    if (lost < tr->t->loader_loss)
        return false;
    if (share < tr->t->data_share)
        evidence(c, "images arrive in time, but decoding takes cores from training");
    decide(c, "loader-bound");
    return true;
}

static bool communication_bound(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    double share = c->split[ANALYSIS_COMM] / tr->step_s;
    char text[64];
    if (c->devices == 1)
        return false;
    const struct analysis_cell *p = single_partner(tr);
    evidence(c, "%.1f %% of a step is exposed communication", 100 * share);
    if (!p) {
        evidence(c,
                 "there is no single-device cell with %" PRId64 " images per step to compare with",
                 c->batch / c->devices);
        if (share >= tr->t->comm_share)
            decide(c, NOT_ENOUGH);
        return share >= tr->t->comm_share;
    }
    double lost = loss(&c->images_per_s, (double)c->devices, &p->images_per_s);
    evidence(c, "%.1f images/s per device; a single device reaches %.1f: %s",
             c->images_per_s.median / (double)c->devices, p->images_per_s.median,
             say_loss(lost, text, sizeof text));
    if (lost < tr->t->comm_loss)
        return false;
    if (share < tr->t->comm_share) {
        evidence(
            c, "communication does not explain the loss: the devices share cores, memory or power");
        return false;
    }
    decide(c, "communication-bound");
    return true;
}

static void computing(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    double share =
        (c->split[ANALYSIS_FORWARD] + c->split[ANALYSIS_BACKWARD] + c->split[ANALYSIS_OPTIMIZER]) /
        tr->step_s;
    evidence(c, "%.1f %% of a step is computation", 100 * share);
    decide(c, share >= tr->t->compute_share ? "compute-bound" : "no single bound");
}

static int64_t count_disturbed(const struct study_result *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        n += r->sample[i].disturbed;
    return n;
}

/* Adds warnings that do not change the verdict. */
static void caveats(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    if (tr->result->failed > 0)
        evidence(c, "%" PRId64 " of %" PRId64 " runs failed: %.200s", tr->result->failed,
                 tr->result->failed + tr->result->n, tr->result->reason);
    for (int64_t i = 0; i < tr->result->n; i++)
        if (tr->result->sample[i].injected) {
            evidence(c, "faults were injected: this does not measure the machine");
            break;
        }
    int64_t disturbed = count_disturbed(tr->result);
    if (disturbed > 0)
        evidence(c, "%" PRId64 " of %" PRId64 " runs were disturbed by other work", disturbed,
                 tr->result->n);
    double spread = (c->images_per_s.high - c->images_per_s.low) / c->images_per_s.median;
    if (c->images_per_s.n == 1)
        evidence(c, "only one run: the spread is unknown");
    else if (spread >= tr->t->noise)
        evidence(
            c, "the runs spread over %.0f %% of their median: the machine may have had other load",
            100 * spread);
}

void study_judge(const struct study_result *result, const struct study_thresholds *t,
                 struct analysis *a)
{
    for (int64_t i = 0; i < a->n_cells; i++) {
        struct trial tr = {.all = a, .t = t, .result = &result[i], .cell = &a->cell[i]};
        for (int p = 0; p < ANALYSIS_PARTS; p++)
            tr.step_s += tr.cell->split[p];
        if (*tr.cell->missing)
            continue;
        if (!oversubscribed(&tr) && !slow_rank(&tr) && !loader_bound(&tr) &&
            !communication_bound(&tr))
            computing(&tr);
        caveats(&tr);
    }
}
