#include "tests/compare/experiment.h"

#include "base/rng.h"
#include "tests/compare/turns.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The arms of a round, in an order drawn from seed, trial and round. */
static void draw_order(const struct experiment *e, int64_t trial, int64_t round, int *order)
{
    struct rng rng = rng_at((uint64_t)e->seed, RNG_TEST, (uint64_t)trial, (uint64_t)round);
    for (int i = 0; i < e->n_arms; i++)
        order[i] = i;
    for (int i = e->n_arms - 1; i > 0; i--) {
        int k = (int)rng_below(&rng, (uint32_t)i + 1), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
}

static enum status begin_run(const struct experiment *e, const struct workload *w, const char *dir,
                             int arm, int64_t round, struct turn *turn)
{
    char out[PATH_SIZE];
    struct words argv = {0};
    enum status st;
    CHECK(path_format(out, sizeof out, "%s/%s/r%03d", dir, e->arm[arm], (int)round));
    CHECK(workload_command(w, e->program, e->scratch.path, arm >= SLOWED ? e->inject[arm] : NULL,
                           out, &argv));
    CHECK(turn_begin(argv.v, turn));
done:
    words_free(&argv);
    return st;
}

/* Trains once with each arm, in turns. */
static enum status train_round(const struct experiment *e, const struct workload *w,
                               const char *dir, int64_t trial, int64_t round)
{
    int order[ARMS_MAX], begun = 0, together = w->slice_ms > 0 ? e->n_arms : 1;
    struct turn turn[ARMS_MAX];
    enum status st = STATUS_OK;
    draw_order(e, trial, round, order);
    while (st == STATUS_OK && begun < e->n_arms) {
        int first = begun;
        for (int i = 0; st == STATUS_OK && i < together; i++) {
            st = begin_run(e, w, dir, order[begun], round, &turn[begun]);
            begun += st == STATUS_OK;
        }
        if (st == STATUS_OK)
            st = turns_take(&turn[first], together, w->slice_ms);
    }
    turns_end(turn, begun);
    return st;
}

enum status experiment_train(const struct experiment *e, const struct workload *w, const char *dir,
                             int64_t trial, int64_t n)
{
    char path[PATH_SIZE];
    TRY(dir_make(dir));
    for (int arm = 0; arm < e->n_arms; arm++) {
        TRY(path_format(path, sizeof path, "%s/%s", dir, e->arm[arm]));
        TRY(dir_make(path));
    }
    for (int64_t round = 0; round < n; round++)
        TRY(train_round(e, w, dir, trial, round));
    return STATUS_OK;
}

enum status experiment_draw(const struct experiment *e, const struct workload *w, const char *pool,
                            const char *dir, int64_t trial, json_t *drawn)
{
    struct rng rng = rng_at((uint64_t)e->seed, RNG_TEST, (uint64_t)trial, 1000);
    char from[PATH_SIZE], to[PATH_SIZE];
    int64_t left = e->rounds;
    TRY(experiment_train(e, w, dir, trial, 0));
    for (int64_t i = 0; i < w->pool; i++) {
        if ((int64_t)rng_below(&rng, (uint32_t)(w->pool - i)) >= left)
            continue;
        left--;
        if (json_array_append_new(drawn, json_integer(i)) != 0)
            return status_fail(STATUS_OOM, "no memory for the drawn rounds");
        for (int arm = 0; arm < e->n_arms; arm++) {
            TRY(path_format(from, sizeof from, "%s/%s/r%03d", pool, e->arm[arm], (int)i));
            TRY(path_format(to, sizeof to, "%s/%s/r%03d", dir, e->arm[arm], (int)i));
            if (symlink(from, to) != 0)
                return status_fail(STATUS_IO, "cannot make '%s': %s", to, strerror(errno));
        }
    }
    return STATUS_OK;
}
