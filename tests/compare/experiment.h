/* Inside compare_experiment: its settings, and the runs of its trials. */
#pragma once

#include "base/file.h"
#include "base/json.h"
#include "results/journal.h"
#include "tests/compare/workload.h"

#include <sched.h>

enum { ROUNDS_MAX = 100, PATH_SIZE = 4096, ARMS_MAX = 8 };
enum { BASE, UNCHANGED, SLOWED }; /* arms; SLOWED is the first arm with a slowdown */

struct experiment {
    const char *program, *out, *only;
    int64_t trials, rounds, seed;
    const char *slowdowns; /* percent, separated by commas: "2,3,5" */
    int n_arms;
    char arm[ARMS_MAX][32]; /* names of the arms: "base", "unchanged", "2 % slower" */
    char inject[ARMS_MAX][32];
    cpu_set_t cores; /* the cores that this process may use */
    struct temporary_dir scratch;
    char partial[PATH_SIZE];
    json_t *settings; /* a call that continues the record must have the same settings */
    json_t *lines;    /* array: the lines of the partial record after the first */
    json_t *machine;  /* the description of the machine in the first run's run.json */
    struct journal journal;
};

/* Trains n rounds into `dir`/<arm>/r<round>. Seed, trial and round determine the order of runs. */
MUST_CHECK enum status experiment_train(const struct experiment *e, const struct workload *w,
                                        const char *dir, int64_t trial, int64_t n);

/* Draws e->rounds rounds of w->pool, in ascending order. Makes a link in `dir` to each drawn round
 * in `pool`, and stores the list of the rounds in `drawn`. */
MUST_CHECK enum status experiment_draw(const struct experiment *e, const struct workload *w,
                                       const char *pool, const char *dir, int64_t trial,
                                       json_t *drawn);
