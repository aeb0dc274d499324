/* Inside runners/: one training run's parts, opened and closed together. */
#ifndef RUNNERS_SESSION_H
#define RUNNERS_SESSION_H

#include "input/loader.h"
#include "results/ranks.h"
#include "results/record.h"
#include "runners/checkpoint.h"
#include "runners/config.h"
#include "runners/engine.h"
#include "runners/expect.h"
#include "runners/rank_sensors.h"
#include "runners/world.h"
#include "telemetry/telemetry.h"

#include <stdio.h>

struct session {
    const struct train_config *config;
    FILE *out;      /* rank 0's progress; the other ranks' goes nowhere */
    FILE *silent;   /* theirs */
    char dir[4096]; /* the run's folder; "" when there is none (--evaluate, other ranks) */
    struct world world;
    struct device_list devices;
    struct dataset *train_data, *val_data;
    struct loader *train_loader, *val_loader;
    struct device *device; /* the first; batches lie in host memory of its */
    int64_t train_batches; /* of an epoch, of each rank */
    int64_t train_steps;   /* optimizer steps of an epoch */
    struct graph *graph;
    struct nccl_port *nccl; /* what links GPUs; NULL: nothing, or it is not wanted */
    struct ladder ladder;   /* the rung that the run is on */
    struct engine *engine;
    struct inject inject; /* faults to commit, settled */
    struct policy policy;
    bool scaled;      /* the loss is scaled, and gradients that overflow skip their step */
    double lr_factor; /* of --lr-scale */
    struct train_identity identity;
    struct train_state state;
    bool resumed;
    bool stopping;             /* some rank was asked to stop; all of them know */
    bool agreed;               /* the failure under way is the same on all ranks: rank 0 tells it */
    struct record *record;     /* rank 0's */
    struct expected *expected; /* rank 0's; NULL: nothing is known of its bits */
    struct telemetry *telemetry;  /* NULL: off */
    struct rank_samples samples;  /* of another rank than 0 */
    double *rates;                /* (train_steps) images/s of this epoch's steps */
    double *own;                  /* (train_steps) seconds of each without communication, */
    double *part[RANK_OWN_PARTS]; /* (train_steps) and of the parts that these are the sum of */
    struct rank_record spent;     /* by this rank in this epoch */
    uint64_t seen;                /* images that this rank's training loader gave in this epoch */
};

/* Is this the rank that writes records, checkpoints and progress? */
static inline bool session_leads(const struct session *s)
{
    return s->world.rank == 0;
}

/* Checks configuration and data, opens device, network and loaders, loads weights, and begins the
 * record. On failure nothing stays open, and no run is left behind that did not exist before. */
MUST_CHECK enum status session_open(struct session *s, const struct train_config *config, int argc,
                                    char *const *argv, FILE *out);

/* A failure on one rank ends the whole job: tells the others and does not return. Returns `st`
 * where there is one rank, or where all ranks fail alike; then rank 0's message alone is left. */
MUST_CHECK enum status session_fail(struct session *s, enum status st);

/* Closes everything, and returns what the run came to: `st`, its message with it, where that is a
 * failure, else what closing came to. A record without record_finish reads as a run that did not
 * end in order. */
MUST_CHECK enum status session_close(struct session *s, enum status st);

/* Joules that this rank's devices have used since the run began; NaN where that is not measured. A
 * processor's energy is that of all ranks of its host, and so is none of theirs. */
double session_joules(struct session *s);

/* Takes the run down the ladder where a device has given up its graphs since this was last called,
 * with a warning. The run continues with the same bits. */
void session_watch_graphs(struct session *s);

/* Rank 0 writes the latest checkpoint, keeping the one before. In two steps: when the first ends,
 * a checkpoint of `state` is on disk beside the latest; the second, once the session's state is
 * that, puts it in its place. A failure leaves the latest as it was. */
MUST_CHECK enum status session_checkpoint_prepare(struct session *s,
                                                  const struct train_state *state,
                                                  struct atomic_file *f);
MUST_CHECK enum status session_checkpoint_commit(struct session *s, struct atomic_file *f);
MUST_CHECK enum status session_checkpoint(struct session *s);

#endif
