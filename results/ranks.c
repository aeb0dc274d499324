/* Sums up the records of ranks, and finds a straggler. */
#include "results/ranks.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* The standard error of a median is this factor * median absolute deviation / sqrt(number of
 * values). */
#define MEDIAN_ERROR (1.2533 * 1.4826)

/* A straggler is slower than the other ranks by at least this many standard errors. */
#define SURE 4

#define AT(member) offsetof(struct rank_record, member)

/* For each part except RANK_OTHER, the offsets of the columns with the part's sum and its median
 * over the steps; 0: no such column. */
static const struct {
    const char *name;
    size_t sum, median;
} columns[RANK_PARTS] = {
    [RANK_DATA] = {"data", AT(data_s), AT(data_median_s)},
    [RANK_H2D] = {"h2d", AT(h2d_s), AT(h2d_median_s)},
    [RANK_FORWARD] = {"forward", AT(forward_s), AT(forward_median_s)},
    [RANK_BACKWARD] = {"backward", AT(backward_s), AT(backward_median_s)},
    [RANK_OPTIMIZER] = {"optimizer", AT(optimizer_s), AT(optimizer_median_s)},
    [RANK_COMM] = {"comm", AT(comm_s), 0},
    [RANK_OTHER] = {"other", 0, 0},
};

static double column(const struct rank_record *r, size_t offset)
{
    return *(const double *)((const char *)r + offset);
}

/* Sums over epochs. They are doubles, so that counts in a damaged file cannot overflow them. */
struct rank_sum {
    double steps, images, total_s;
    double part[RANK_PARTS];
    double median_s;   /* sum over the epochs of (number of steps * median time of a step); NAN if
                        * a record has no median */
    double variance_s; /* variance of median_s */
    double part_median_s[RANK_OWN_PARTS]; /* the same sum as median_s, for each part */
};

/* The records of one epoch. */
struct group {
    const struct rank_record *row;
    int64_t n, end; /* end: the index of the first record after the group */
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

/* Returns whether all ranks of the attempt have a record with steps and times in this group. The
 * records are in order and without duplicates, so comparing their number suffices. */
static bool is_whole(const struct run *run, const struct group *g)
{
    if (g->n != run_attempt_ranks(run, g->row->attempt))
        return false;
    for (int64_t i = 0; i < g->n; i++) {
        double all = g->row[i].total_s;
        for (int p = 0; p < RANK_OTHER; p++)
            all += column(&g->row[i], columns[p].sum);
        if (g->row[i].steps == 0 || !isfinite(all))
            return false;
    }
    return true;
}

static void add_medians(const struct rank_record *r, struct rank_sum *sum)
{
    double n = (double)r->steps, error = MEDIAN_ERROR * r->own_mad_s / sqrt(n), all = 0;
    sum->median_s += r->own_median_s > 0 ? n * r->own_median_s : NAN;
    sum->variance_s += n * error * (n * error);
    for (int p = 0; p < RANK_OWN_PARTS; p++)
        all += column(r, columns[p].median);
    for (int p = 0; p < RANK_OWN_PARTS; p++)
        sum->part_median_s[p] += all > 0 ? n * column(r, columns[p].median) : NAN;
}

static void group_add(const struct group *g, struct rank_sum *sum)
{
    for (int64_t i = 0; i < g->n; i++) {
        const struct rank_record *r = &g->row[i];
        sum[i].steps += (double)r->steps;
        sum[i].images += (double)r->images;
        sum[i].total_s += r->total_s;
        for (int p = 0; p < RANK_OTHER; p++)
            sum[i].part[p] += column(r, columns[p].sum);
        add_medians(r, &sum[i]);
    }
}

/* Returns the attempt to evaluate: the latest one in which several ranks completed an epoch; -1 if
 * there is none. */
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
        return status_fail(STATUS_DATA, "'%s/ranks.jsonl' has times out of range", run->dir);
    return STATUS_OK;
}

/* Sets *median to the median of a time over all ranks except the slowest rank. The time is the
 * typical time of `part`, or own_s if `part` is RANK_OWN_PARTS. `x` is working memory for r->n
 * elements. */
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

/* Returns four standard errors of `behind`. Uses the largest standard error of the other ranks in
 * place of the standard error of their median. */
static double noise_of(const struct ranks *r)
{
    double others = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (i != r->slowest)
            others = fmax(others, r->rank[i].error_s);
    return SURE * hypot(r->rank[r->slowest].error_s, others) / r->median_own_s;
}

static enum status find_slowest(struct ranks *r, double *x)
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
    enum status st;
    int64_t attempt = latest_attempt(run);
    *ranks = (struct ranks){0};
    if (attempt < 0)
        return STATUS_OK;
    struct ranks r = {.n = run_attempt_ranks(run, attempt)};
    struct rank_sum *sum = NULL;
    double *x = NULL;
    CHECK(array_new(&sum, r.n));
    CHECK(array_new(&x, r.n));
    CHECK(array_new(&r.rank, r.n));
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
    CHECK(find_slowest(&r, x));
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
    return columns[part].name;
}
