/* Measures the training throughput of a device over whole steps, in turns with a peer, which is
 * another training program.
 *
 * Each turn is a training run of a few steps on synthetic images in its own process, or a request
 * to the peer. Its result is the median over the steps after warm-up. A row has the median, lowest
 * and highest result of its turns. If combinations of fusion and graphs are requested, each
 * combination is a row, and the runs of the row use this combination or fail. Otherwise a failed
 * run is repeated on a lower rung (train_child.h), and the row names the rung of its results.
 *
 * A key is a precision and a batch size. The rows of a key are ampscale with each combination, and
 * the peer in eager mode. The first key has two more rows: ampscale on JPEG files, and the compiled
 * peer. A round has one turn of each row of all keys that is compared (ampscale and eager), key by
 * key; the order of a key's rows reverses from round to round. The budget may end any later turn,
 * so the first round comes first: after it every key has a comparison. The compiled peer has one
 * turn, after the first round, because compiling takes minutes. JPEG files come last.
 *
 * The measurement ends within its budget, or at a signal, and prints the rows that it has. If a
 * turn was cut off and its row has no result, the row has another turn in the time that all others
 * left. With options.dir, the record is replaced after each turn, and a later call continues it: a
 * call that is killed loses at most the turn that ran. */
#pragma once

#include "base/stats.h"
#include "bench/train_child.h"

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

/* --- the rows and the order of their turns --- */

enum throughput_who {
    THROUGHPUT_OURS,    /* ampscale */
    THROUGHPUT_FILES,   /* ampscale, from JPEG files */
    THROUGHPUT_EAGER,   /* the peer in eager mode */
    THROUGHPUT_COMPILE, /* the peer, compiled */
    THROUGHPUT_WHO_COUNT
};

struct throughput_slot {
    int key;
    enum throughput_who who;
    int combination; /* index of the combination; 0 in rows without combinations */
};

struct throughput_turn {
    int slot;
    int round; /* from 0 */
};

struct throughput_plan {
    int n_slots, n_turns;
    struct throughput_slot *slot; /* (n_slots) sorted by key; the rows of a key are in the order in
                                   * which they are printed */
    struct throughput_turn *turn; /* (n_turns) in order of execution */
};

/* The caller calls throughput_plan_free, after a failure too. */
MUST_CHECK enum status throughput_plan_make(const struct throughput_config *c,
                                            struct throughput_plan *p);
void throughput_plan_free(struct throughput_plan *p); /* accepts a zeroed struct */

/* --- the peer (throughput_peer.c) --- */

enum { PEER_ABOUT_SIZE = 160, PEER_LINE_SIZE = 512 };

enum peer_state {
    PEER_NONE, /* not started yet, or ended */
    PEER_STARTING,
    PEER_READY,
};

/* A process that answers requests on its standard input, as tests/peers/torch_step.py does (its
 * docstring describes the protocol). If it dies or hangs after it was ready, it is started again,
 * but only once. */
struct peer {
    /* Set by the caller. */
    const char *script; /* a .py file is run by the script run.sh of its folder, which finds a
                         * Python with PyTorch; without run.sh, by python3. Any other file is
                         * executed directly */
    const char *device, *net;
    int image_size;
    int threads;     /* 0: the peer's default */
    const char *dir; /* folder of its logs: peer.log, and peer-again.log of the second process */
    const struct process_signals *signals;
    const struct time_budget *budget;

    /* The caller initialises these members to 0, but sets `lost` to true if there is no script. */
    enum peer_state state;
    bool lost;                   /* whether the peer will never be started again */
    bool cut;                    /* whether the last request had no answer in time */
    int starts;                  /* number of starts */
    char about[PEER_ABOUT_SIZE]; /* the peer's versions; "" before the peer is ready for the first
                                  * time */
    char why[TRAIN_WHY_SIZE];    /* why the last peer process ended; "" if none has ended */
    struct process process;
    uint64_t started_ns;
    int fd;                    /* socket to the process's standard input and output */
    char line[PEER_LINE_SIZE]; /* (n) bytes that were read but are not yet a whole line */
    size_t n;
};

/* Starts the peer in the background, unless it is already running or is lost. */
MUST_CHECK enum status peer_start(struct peer *p);

/* Asks the peer for its training throughput. If the peer gives no throughput, *images_per_s is NAN
 * and `why` has the reason. STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status peer_ask(struct peer *p, const char *mode, const char *precision, int batch,
                                int steps, double *images_per_s, char why[TRAIN_WHY_SIZE]);

void peer_stop(struct peer *p);

/* --- the measurement --- */

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

static inline bool throughput_is_ours(const struct throughput_row *row)
{
    return row->slot.who == THROUGHPUT_OURS || row->slot.who == THROUGHPUT_FILES;
}

/* The state of a measurement. */
struct throughput {
    const struct throughput_config *config;
    struct train_work work;
    struct throughput_plan plan;
    struct throughput_row *row; /* (plan.n_slots) */
    int taken;                  /* number of turns so far */
    struct peer peer;
};

/* Takes the results from the record in options.dir, if there is one. STATUS_DATA if it is
 * damaged; STATUS_USAGE if it is of other settings. */
MUST_CHECK enum status throughput_resume(struct throughput *t);

/* Sets `out` to the name of a row: "amp:256 ampscale, fuse none, graphs on". */
void throughput_row_name(const struct throughput *t, const struct throughput_row *row, char *out,
                         size_t size);

/* Makes a new object: the record of the results so far. */
json_t *throughput_json(const struct throughput *t);

/* Prints the table. */
void throughput_print(const struct throughput *t);

/* Measures and prints. Afterwards fails with STATUS_INTERRUPTED if a signal arrived, or with
 * STATUS_DATA if a row has no result. */
MUST_CHECK enum status bench_throughput(const struct throughput_config *c);
