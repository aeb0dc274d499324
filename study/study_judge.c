/* The verdict of a cell, and what its loss consists of.
 *
 * A cell of several devices is compared with the first cell of its series, on one device. If `r` is
 * the ratio of their throughputs per device, the cell lost 100 (1 - r) points of efficiency. Its
 * partner has one device and the same batch per device, so their steps are alike. If `q` is the
 * ratio to the partner, each part of a step lost
 *
 *     100 (share of the cell's step - q * share of the partner's step)
 *
 * points: its additional time per image, relative to the cell's time per image. These points add up
 * to 100 (1 - q). The smaller batch of strong scaling lost the rest, 100 (q - r). Waiting for the
 * slowest rank is a part of communication. If the same cell on synthetic data is faster, that
 * difference is the loader's part; the rest of the loader's and of computing's points is left to
 * computing, because decoding takes cores from it.
 *
 * A loss counts if its 95 % interval excludes 0 and reaches the threshold; the largest part names
 * the verdict. There is no loss if the interval ends below the threshold. Disturbed runs do not
 * show what the machine can do, whatever their numbers. */
#include "study/study_analyse.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum loss { LOSS_NONE, LOSS_UNKNOWN, LOSS_NOISY, LOSS_SURE };

/* What a loss consists of. */
enum cause { COMPUTING, COMMUNICATION, WAITING, LOADER, BATCH, OTHER, CAUSES };

/* A cell to judge, and the data that its verdict depends on. */
struct trial {
    const struct analysis *all;
    const struct study_thresholds *t;
    const struct study_result *result;
    struct analysis_cell *cell;
    double step_s;
    char slow[32];             /* "slow rank N" if there is a straggler, else "" */
    enum loss loader, scaling; /* relative to synthetic data, and to one device */
    double loader_points;
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

/* Sets the verdict, unless the cell has one; "" sets none. */
static void decide(struct analysis_cell *c, const char *verdict)
{
    if (!*c->verdict)
        snprintf(c->verdict, sizeof c->verdict, "%s", verdict);
}

/* The cell that has one device and the same batch per device as the judged cell; NULL: there is
 * no such cell, or it has no result. */
static const struct analysis_cell *single_partner(const struct trial *tr)
{
    const struct analysis *a = tr->all;
    const struct analysis_cell *c = tr->cell;
    for (const struct analysis_cell *p = a->cell; p < a->cell + a->n_cells; p++)
        if (p->devices == 1 && strcmp(p->precision, c->precision) == 0 &&
            strcmp(p->arch, c->arch) == 0 && strcmp(p->data, c->data) == 0 &&
            p->batch == c->batch / c->devices && p->images_per_s.n > 0)
            return p;
    return NULL;
}

/* Compares throughput per device with that of `p`. Sets *ratio to the ratio of the medians. */
static enum status compare(struct trial *tr, const struct analysis_cell *p, double threshold,
                           double *ratio, enum loss *loss)
{
    static const char *const say[] = {
        [LOSS_NONE] = "no loss beyond the threshold",
        [LOSS_UNKNOWN] = "too few runs for an interval",
        [LOSS_NOISY] = "no loss, or one beyond the threshold",
        [LOSS_SURE] = "a loss",
    };
    struct analysis_cell *c = tr->cell;
    double factor = (double)c->devices / (double)p->devices, low, high;
    char interval[64] = "";
    TRY(analysis_ratio_interval(&c->images_per_s, &p->images_per_s, &low, &high));
    low /= factor;
    high /= factor;
    *ratio = c->images_per_s.median / p->images_per_s.median / factor;
    *loss = LOSS_UNKNOWN;
    if (isfinite(low) && isfinite(high)) {
        *loss = 1 - low < threshold ? LOSS_NONE : high >= 1 ? LOSS_NOISY : LOSS_SURE;
        snprintf(interval, sizeof interval, " (95 %% interval %.1f to %.1f %%)", 100 * low,
                 100 * high);
    }
    evidence(c, "%.1f %% of the throughput%s of '%s'%s: %s", 100 * *ratio,
             factor > 1 ? " per device" : "", p->name, interval, say[*loss]);
    if (analysis_disturbed(p)) {
        evidence(c, "half of the runs of '%s', or more, were disturbed", p->name);
        decide(c, "disturbed");
    }
    return STATUS_OK;
}

/* Sets the points that each cause lost relative to `p`, which has `ratio` times less throughput per
 * device. */
static void account(const struct trial *tr, const struct analysis_cell *p, double ratio,
                    double points[CAUSES])
{
    static const enum cause cause[ANALYSIS_PARTS] = {
        [ANALYSIS_DATA] = LOADER,         [ANALYSIS_H2D] = LOADER,
        [ANALYSIS_FORWARD] = COMPUTING,   [ANALYSIS_BACKWARD] = COMPUTING,
        [ANALYSIS_OPTIMIZER] = COMPUTING, [ANALYSIS_COMM] = COMMUNICATION,
        [ANALYSIS_OTHER] = OTHER,
    };
    for (int k = 0; k < CAUSES; k++)
        points[k] = 0;
    for (int i = 0; i < ANALYSIS_PARTS; i++)
        points[cause[i]] +=
            100 * (tr->cell->split[i] / tr->step_s - ratio * p->split[i] / analysis_step_s(p));
}

/* Adds "63.0 points lost: 41.0 shared hardware, ...", with the largest cause first. Relative to one
 * device, this cause decides. */
static void say_account(struct trial *tr, const double points[CAUSES], bool decides)
{
    char text[ANALYSIS_TEXT_SIZE] = "", waiting[64];
    const char *computing = !decides                       ? "computing beside the loader"
                            : tr->result->sample[0].shared ? "shared hardware"
                                                           : "slower computation";
    const char *const names[CAUSES][2] = {
        [COMPUTING] = {computing, computing},
        [COMMUNICATION] = {"exposed communication", "communication-bound"},
        [WAITING] = {waiting, *tr->slow ? tr->slow : "uneven ranks"},
        [LOADER] = {"loader", "loader-bound"},
        [BATCH] = {"smaller batch", "small batch"},
        [OTHER] = {"other", "no single bound"},
    };
    enum cause order[CAUSES];
    double sum = 0;
    snprintf(waiting, sizeof waiting, "waiting for %s", *tr->slow ? tr->slow : "the slowest rank");
    for (int k = 0; k < CAUSES; k++) {
        int at = k;
        for (; at > 0 && points[order[at - 1]] < points[k]; at--)
            order[at] = order[at - 1];
        order[at] = (enum cause)k;
        sum += points[k];
    }
    for (int k = 0; k < CAUSES; k++)
        if (fabs(points[order[k]]) >= 0.05)
            text_join(text, sizeof text, ", ", "%.1f %s", points[order[k]], names[order[k]][0]);
    evidence(tr->cell, "%.1f points lost: %s", sum, text);
    if (decides)
        decide(tr->cell, names[order[0]][1]);
}

static void oversubscribed(struct trial *tr)
{
    const struct study_sample *most = NULL;
    for (const struct study_sample *s = tr->result->sample; s < tr->result->sample + tr->result->n;
         s++)
        if (s->threads > s->cores && (!most || s->threads > most->threads))
            most = s;
    if (!most)
        return;
    evidence(tr->cell, "%.0f threads compute on a host with %.4g usable cores", most->threads,
             most->cores);
    decide(tr->cell, "oversubscribed");
}

/* Sets tr->slow. */
static void slow_rank(struct trial *tr)
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
        return;
    if (c->behind < fmax(tr->t->behind, noise) || 2 * times <= tr->result->n) {
        evidence(c,
                 "no straggler: the slowest rank needs %.1f %% more than the median of the others; "
                 "noise alone may cause %.1f %%",
                 100 * c->behind, 100 * noise);
        return;
    }
    evidence(c,
             "straggler: rank %" PRId64
             " on %s needs %.1f %% more than the median of the others, in %" PRId64 " of %" PRId64
             " runs, mostly in %s",
             c->slowest_rank, last->host, 100 * c->behind, times, tr->result->n, last->part);
    snprintf(tr->slow, sizeof tr->slow, "slow rank %" PRId64, c->slowest_rank);
}

/* Compares real data with synthetic data. */
static enum status loader(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    double share = c->split[ANALYSIS_DATA] / tr->step_s, ratio, points[CAUSES];
    if (!c->real)
        return STATUS_OK;
    const struct analysis_cell *p = analysis_synthetic(tr->all, c);
    evidence(c, "the loader delays steps by %.1f %% of their time", 100 * share);
    if (!p) {
        evidence(c, "there is no cell with synthetic data to compare with");
        tr->loader = share >= tr->t->data_share ? LOSS_UNKNOWN : LOSS_NONE;
        return STATUS_OK;
    }
    TRY(compare(tr, p, tr->t->loader_loss, &ratio, &tr->loader));
    if (tr->loader != LOSS_SURE)
        return STATUS_OK;
    tr->loader_points = 100 * (1 - ratio);
    account(tr, p, ratio, points);
    say_account(tr, points, false);
    return STATUS_OK;
}

/* Compares several devices with one. */
static enum status scaling(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    double ratio, points[CAUSES];
    if (c->devices == 1)
        return STATUS_OK;
    const struct analysis_cell *p = single_partner(tr), *base = analysis_base(tr->all, c);
    base = base && base->devices == 1 && base->images_per_s.n > 0 ? base : p;
    p = p ? p : base;
    evidence(c, "%.1f %% of a step is exposed communication",
             100 * c->split[ANALYSIS_COMM] / tr->step_s);
    tr->scaling = LOSS_UNKNOWN;
    if (!base) {
        evidence(c,
                 "there is no single-device cell with %" PRId64 " images per step to compare with",
                 c->batch / c->devices);
        return STATUS_OK;
    }
    TRY(compare(tr, base, tr->t->comm_loss, &ratio, &tr->scaling));
    if (tr->scaling != LOSS_SURE)
        return STATUS_OK;
    double alike = c->images_per_s.median / p->images_per_s.median / (double)c->devices;
    account(tr, p, alike, points);
    points[BATCH] = 100 * (alike - ratio);
    for (int64_t i = 0; i < tr->result->n; i++)
        points[WAITING] +=
            100 * tr->result->sample[i].waiting_s / tr->step_s / (double)tr->result->n;
    points[COMMUNICATION] -= points[WAITING];
    if (tr->loader == LOSS_SURE) {
        points[COMPUTING] += points[LOADER] - tr->loader_points;
        points[LOADER] = tr->loader_points;
    }
    say_account(tr, points, true);
    return STATUS_OK;
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
    if (c->conditions.disturbed > 0)
        evidence(c, "%" PRId64 " of %" PRId64 " runs were disturbed by other work",
                 c->conditions.disturbed, c->conditions.runs);
    double spread = (c->images_per_s.high - c->images_per_s.low) / c->images_per_s.median;
    if (c->images_per_s.n == 1)
        evidence(c, "only one run: the spread is unknown");
    else if (spread >= tr->t->noise)
        evidence(
            c, "the runs spread over %.0f %% of their median: the machine may have had other load",
            100 * spread);
}

static enum status judge(struct trial *tr)
{
    struct analysis_cell *c = tr->cell;
    if (analysis_disturbed(c))
        decide(c, "disturbed");
    oversubscribed(tr);
    slow_rank(tr);
    TRY(loader(tr));
    TRY(scaling(tr));
    if (tr->loader == LOSS_SURE)
        decide(c, "loader-bound");
    decide(c, tr->slow);
    if (tr->loader == LOSS_NOISY || tr->scaling == LOSS_NOISY)
        decide(c, "too noisy to say");
    if (tr->loader == LOSS_UNKNOWN || tr->scaling == LOSS_UNKNOWN)
        decide(c, "not enough to say");
    computing(tr);
    caveats(tr);
    return STATUS_OK;
}

enum status study_judge(const struct study_result *result, const struct study_thresholds *t,
                        struct analysis *a)
{
    for (int64_t i = 0; i < a->n_cells; i++) {
        struct trial tr = {.all = a, .t = t, .result = &result[i], .cell = &a->cell[i]};
        tr.step_s = analysis_step_s(tr.cell);
        if (!*tr.cell->missing)
            TRY(judge(&tr));
    }
    return STATUS_OK;
}
