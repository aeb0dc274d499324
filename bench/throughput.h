/* Measures the training throughput of a device over whole steps, alternating with a peer, which is
 * another training program.
 *
 * Each turn is a training run of a few steps on synthetic images in its own process, or a request
 * to the peer (throughput_peer.h). Its result is the median over the steps after warm-up. A row has
 * the median, lowest and highest result of its turns. Rows take turns in rounds
 * (throughput_plan.h). If combinations of fusion and graphs are requested, each combination is a
 * row, and the runs of the row use this combination or fail. Otherwise a failed run is repeated on
 * a lower rung (train_child.h), and the row names the rung of its results.
 *
 * The measurement ends within its budget, or at a signal, and prints the rows that it has. If a
 * turn was cut off and its row has no result, the row has another turn in the time that all others
 * left. With options.dir, the record is replaced after each turn, and a later call continues it
 * (throughput_resume.c): a call that is killed loses at most the turn that ran. */
#pragma once

#include "base/stats.h"
#include "bench/throughput_peer.h"
#include "bench/throughput_plan.h"

enum {
    THROUGHPUT_SCHEMA = 1,
    THROUGHPUT_KEYS_MAX = 64,
    THROUGHPUT_ROUNDS_MAX = 64,
    THROUGHPUT_COMBINATIONS_MAX = 2 * FUSE_COUNT,
};

struct throughput_key {
    char precision[16]; /* name as `train` takes it: "amp", "O2" ... */
    int batch;
};

struct throughput_combination {
    enum fuse fuse;
    bool graphs;
};

struct throughput_config {
    struct bench_options options; /* .dir: folder of throughput.json and the runs */
    int steps;                    /* number of steps of a turn; the first ten of them, but at most
                                   * half of them, are warm-up */
    int n_keys;
    struct throughput_key key[THROUGHPUT_KEYS_MAX];
    int n_combinations; /* 0: no combination was requested, so a failed run may be repeated on a
                         * lower rung */
    struct throughput_combination combination[THROUGHPUT_COMBINATIONS_MAX];
    int plans;        /* `--plans` of the runs; 0: the default of `train` */
    const char *peer; /* the peer's script; NULL: no peer */
    bool no_compile;  /* whether the peer is measured in eager mode only */
    bool files;       /* whether a training on JPEG files is measured too */
    bool resume;      /* whether the results of the record in options.dir are kept */
};

struct throughput_row {
    struct throughput_slot slot;
    struct train_ladder ladder;         /* for rows of ampscale */
    double rate[THROUGHPUT_ROUNDS_MAX]; /* (n) images/s */
    int n;
    struct stats stats;       /* of rate */
    struct host_noise noise;  /* of the last disturbed turn, or else of the last one; for rows of
                               * ampscale */
    double seconds;           /* duration of the last turn that gave a result, at most TURN_SECONDS,
                               * because a first turn also plans; 0: none */
    bool cut;                 /* whether the last turn was cut off */
    char why[TRAIN_WHY_SIZE]; /* why the last turn gave no result; "" if it gave one, or before the
                               * first turn */
};

/* The state of a measurement. */
struct throughput {
    const struct throughput_config *config;
    struct train_work work;
    struct throughput_plan plan;
    struct throughput_row *row; /* (plan.n_slots) */
    int taken;                  /* number of turns so far */
    struct peer peer;
};

/* Takes the results from the record in options.dir, if there is one (throughput_resume.c).
 * STATUS_DATA if it is damaged; STATUS_USAGE if it is of other settings. */
MUST_CHECK enum status throughput_resume(struct throughput *t);

/* Returns the number of turns behind turn `i` for which it leaves time: those of rows without a
 * result, and for a row that has none itself only those of the same round. The compilation counts
 * as three, because it is not begun with less time. It leaves none: at its time limit the peer is
 * killed, and then no time may be left in which the peer would have had turns. */
int throughput_after(const struct throughput *t, int i);

/* Takes one turn (throughput_turn.c). A turn without a result is not a failure here. */
MUST_CHECK enum status throughput_take(struct throughput *t, const struct throughput_turn *turn);

/* Sets `out` to the name of a row (throughput_report.c): "amp:256 ampscale, fuse none, graphs
 * on". */
void throughput_row_name(const struct throughput *t, const struct throughput_row *row, char *out,
                         size_t size);

/* Makes a new object: the record of the results so far. */
MUST_CHECK enum status throughput_json(const struct throughput *t, json_t **record);

/* Prints the table. */
void throughput_print(const struct throughput *t);

/* Measures and prints. Afterwards fails with STATUS_INTERRUPTED if a signal arrived, or with
 * STATUS_DATA if a row has no result. */
MUST_CHECK enum status bench_throughput(const struct throughput_config *c);
