/* Summing up the records of ranks. */
#include "results/ranks.h"

#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* The standard error of the median of n values, by their median absolute deviation / sqrt(n). */
#define MEDIAN_ERROR (1.2533 * 1.4826)

/* Standard errors that a rank must be behind by. */
#define SURE 4

/* Sums over epochs; doubles, which hostile counts cannot overflow. */
struct rank_sum {
    double steps, images, total_s;
    double part[RANK_PARTS];
    double median_s;   /* steps times their median; NAN where a record has none */
    double variance_s; /* of that sum */
    double part_median_s[RANK_OWN_PARTS]; /* as median_s */
};

/* The records of one epoch. */
struct group {
    const struct rank_record *row;
    int64_t n, end; /* end: the index of the first record behind it */
};

static struct group group_at(const struct run *run, int64_t begin)
{
    struct group g = {.row = &run->rank[begin], .end = begin};
    while (g.end < run->n_ranks && run->rank[g.end].epoch == g.row->epoch &&
           run->rank[g.end].attempt == g.row->attempt)
        g.end++;
    g.n = g.end - begin;
    return g;
}

/* Whether all ranks are there, with steps and times. They are in order and without duplicates, so
 * that their number says it. */
static bool is_whole(const struct run *run, const struct group *g)
{
    if (g->n != run_attempt_ranks(run, g->row->attempt))
        return false;
    for (int64_t i = 0; i < g->n; i++) {
        const struct rank_record *r = &g->row[i];
        if (r->steps == 0 || !isfinite(r->data_s + r->h2d_s + r->forward_s + r->backward_s +
                                       r->comm_s + r->optimizer_s + r->total_s))
            return false;
    }
    return true;
}

static void add_medians(const struct rank_record *r, struct rank_sum *sum)
{
    const double part[RANK_OWN_PARTS] = {
        [RANK_DATA] = r->data_median_s,           [RANK_H2D] = r->h2d_median_s,
        [RANK_FORWARD] = r->forward_median_s,     [RANK_BACKWARD] = r->backward_median_s,
        [RANK_OPTIMIZER] = r->optimizer_median_s,
    };
    double n = (double)r->steps, error = MEDIAN_ERROR * r->own_mad_s / sqrt(n), all = 0;
    sum->median_s += r->own_median_s > 0 ? n * r->own_median_s : NAN;
    sum->variance_s += n * error * (n * error);
    for (int p = 0; p < RANK_OWN_PARTS; p++)
        all += part[p];
    for (int p = 0; p < RANK_OWN_PARTS; p++)
        sum->part_median_s[p] += all > 0 ? n * part[p] : NAN;
}

static void group_add(const struct group *g, struct rank_sum *sum)
{
    for (int64_t i = 0; i < g->n; i++) {
        const struct rank_record *r = &g->row[i];
        sum[i].steps += (double)r->steps;
        sum[i].images += (double)r->images;
        sum[i].total_s += r->total_s;
        sum[i].part[RANK_DATA] += r->data_s;
        sum[i].part[RANK_H2D] += r->h2d_s;
        sum[i].part[RANK_FORWARD] += r->forward_s;
        sum[i].part[RANK_BACKWARD] += r->backward_s;
        sum[i].part[RANK_OPTIMIZER] += r->optimizer_s;
        sum[i].part[RANK_COMM] += r->comm_s;
        add_medians(r, &sum[i]);
    }
}

/* The attempt to sum up; -1: none. */
static int64_t latest_attempt(const struct run *run)
{
    int64_t attempt = -1;
    for (int64_t at = 0; at < run->n_ranks;) {
        struct group g = group_at(run, at);
        if (g.n > 1 && is_whole(run, &g))
            attempt = g.row->attempt;
        at = g.end;
    }
    return attempt;
}

static enum status rank_mean(const struct run *run, const struct rank_sum *sum,
                             struct rank_step *mean)
{
    double named = 0, own = 0;
    for (int p = 0; p < RANK_OTHER; p++) {
        mean->part[p] = sum->part[p] / sum->steps;
        named += mean->part[p];
        if (p >= RANK_OWN_PARTS)
            continue;
        own += mean->part[p];
        double median = sum->part_median_s[p] / sum->steps;
        mean->typical[p] = isfinite(median) ? median : mean->part[p];
    }
    mean->part[RANK_OTHER] = fmax(0, sum->total_s / sum->steps - named);
    bool medians = isfinite(sum->median_s) && isfinite(sum->variance_s);
    mean->own_s = own = medians ? sum->median_s / sum->steps : own;
    mean->error_s = medians ? sqrt(sum->variance_s) / sum->steps : 0;
    mean->images_per_s = own > 0 ? sum->images / sum->steps / own : 0;
    if (!isfinite(named + mean->part[RANK_OTHER] + mean->images_per_s))
        return status_fail(STATUS_DATA, "'%s/ranks.jsonl' holds times beyond all measure",
                           run->dir);
    return STATUS_OK;
}

/* The median over all ranks but the slowest of a part's typical time, or of their own for
 * RANK_OWN_PARTS; x has room for them. */
static enum status median_of_others(const struct ranks *r, int part, double *x, double *median)
{
    struct stats t;
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (i != r->slowest)
            x[n++] = part == RANK_OWN_PARTS ? r->rank[i].own_s : r->rank[i].typical[part];
    TRY(stats_of(x, n, &t));
    *median = t.median;
    return STATUS_OK;
}

/* The others' median is taken to be as uncertain as the least certain of them is. */
static double noise_of(const struct ranks *r)
{
    double others = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (i != r->slowest)
            others = fmax(others, r->rank[i].error_s);
    return SURE * hypot(r->rank[r->slowest].error_s, others) / r->median_own_s;
}

static enum status judge(struct ranks *r, double *x)
{
    for (int64_t i = 1; i < r->n; i++)
        if (r->rank[i].own_s > r->rank[r->slowest].own_s)
            r->slowest = i;
    const struct rank_step *slowest = &r->rank[r->slowest];
    TRY(median_of_others(r, RANK_OWN_PARTS, x, &r->median_own_s));
    if (r->median_own_s > 0) {
        r->behind = slowest->own_s / r->median_own_s - 1;
        r->noise = noise_of(r);
        r->slow = r->behind >= fmax(RANKS_BEHIND, r->noise);
    }
    for (int p = 0; p < RANK_OWN_PARTS; p++) {
        double median;
        TRY(median_of_others(r, p, x, &median));
        if (slowest->typical[p] - median <= r->part_s)
            continue;
        r->part = (enum rank_part)p;
        r->part_s = slowest->typical[p] - median;
    }
    return STATUS_OK;
}

enum status ranks_of(const struct run *run, struct ranks *ranks)
{
    enum status st = STATUS_OK;
    int64_t attempt = latest_attempt(run);
    *ranks = (struct ranks){0};
    if (attempt < 0)
        return STATUS_OK;
    struct ranks r = {.n = run_attempt_ranks(run, attempt)};
    struct rank_sum *sum = calloc((size_t)r.n, sizeof *sum);
    double *x = malloc((size_t)r.n * sizeof *x);
    r.rank = calloc((size_t)r.n, sizeof *r.rank);
    if (!sum || !x || !r.rank) {
        st = status_fail(STATUS_OOM, "no memory for %lld ranks", (long long)r.n);
        goto done;
    }
    for (int64_t at = 0; at < run->n_ranks;) {
        struct group g = group_at(run, at);
        if (g.row->attempt == attempt && is_whole(run, &g))
            group_add(&g, sum);
        at = g.end;
    }
    for (int64_t i = 0; i < r.n; i++) {
        r.rank[i].host = run_rank_host(run, attempt, i);
        CHECK(rank_mean(run, &sum[i], &r.rank[i]));
    }
    CHECK(judge(&r, x));
    *ranks = r;
    r.rank = NULL;
done:
    free(r.rank);
    free(sum);
    free(x);
    return st;
}

void ranks_free(struct ranks *ranks)
{
    free(ranks->rank);
    *ranks = (struct ranks){0};
}

const char *rank_part_str(enum rank_part part)
{
    static const char *const names[RANK_PARTS] = {
        [RANK_DATA] = "data",           [RANK_H2D] = "h2d",
        [RANK_FORWARD] = "forward",     [RANK_BACKWARD] = "backward",
        [RANK_OPTIMIZER] = "optimizer", [RANK_COMM] = "comm",
        [RANK_OTHER] = "other",
    };
    return names[part];
}
