/* Internal to runners/: the parts of one training run, and functions that use all of them. */
#pragma once

#include "comm/world.h"
#include "engine/engine.h"
#include "input/loader.h"
#include "results/ranks.h"
#include "results/record.h"
#include "runners/checkpoint.h"
#include "runners/config.h"
#include "runners/on_save.h"
#include "runners/rank_sensors.h"
#include "telemetry/storage.h"
#include "telemetry/telemetry.h"

#include <stdatomic.h>
#include <stdio.h>

struct session {
    const struct train_config *config;
    FILE *out;            /* stream for progress on rank 0; on other ranks the same as `silent` */
    FILE *silent;         /* /dev/null on ranks other than 0 */
    char dir[4096];       /* folder of the run; "" on ranks other than 0 */
    enum train_mode mode; /* never MODE_AUTO */
    struct world world;
    struct device_list devices;
    struct dataset *train_data, *val_data;
    struct loader *train_loader, *val_loader;
    struct device *device;          /* device 0, which allocates the host memory of batches */
    struct device_decoder *decoder; /* for --decode gpu, on device 0; NULL: the CPU decodes */
    int64_t train_batches;          /* batches of each rank in an epoch */
    int64_t train_steps;            /* optimizer steps of an epoch */
    struct graph *graph;
    struct nccl_port *nccl; /* NCCL, which connects GPUs; NULL: missing or not used */
    struct ladder ladder;   /* current rung (engine/ladder.h) */
    struct engine *engine;
    struct inject inject; /* faults to inject, after inject_settle */
    struct policy policy;
    bool scaled;      /* the loss is scaled, and a step whose gradients overflow is skipped */
    double lr_factor; /* factor of --lr-scale */
    struct train_identity identity;
    struct train_state state;
    bool resumed;
    int claim; /* above 0: lock of `dir`, from the search for a checkpoint to the record's begin */
    /* "16 threads on 2 usable cores; give --threads 2, or fewer"; "": not oversubscribed */
    char crowd[128];
    bool stopping; /* a rank was asked to stop, and all ranks have been informed */
    /* In this epoch, the loss of a step was not finite, and the step was not skipped. */
    bool not_finite;
    bool agreed;             /* a failure now would be the same on all ranks; rank 0 reports it */
    struct record *record;   /* only on rank 0 */
    struct on_save *on_save; /* --on-save; only on rank 0; NULL: none */
    int64_t flushes;         /* record_flushes at the last on_save_request */
    /* The record in which the communication thread writes why it ends the job. NULL while that
     * thread must not end the job. */
    _Atomic(struct record *) ending;
    struct run *expected;         /* --expect; only on rank 0; NULL: none */
    struct telemetry *telemetry;  /* NULL: off */
    struct storage_meter storage; /* measures reads from the storage of the data */
    struct rank_load load;        /* measures the load of the host */
    struct session_reads {
        struct storage_bytes storage; /* fetched from storage */
        double loaders;               /* bytes that the loaders read */
        double seconds;               /* seconds of training */
    } reads;                          /* reads of all ranks in this attempt; only on rank 0 */
    struct rank_samples samples;      /* samples of ranks other than 0 */
    double *rates;                    /* (train_steps) images/s of the steps of this epoch */
    double *own;                      /* (train_steps) seconds of each step without communication */
    double *part[RANK_OWN_PARTS];     /* (train_steps) seconds of each part of `own` */
    struct rank_record spent;         /* times and energy of this rank in this epoch */
    uint64_t seen; /* sum of batch.seen of this rank's training batches in this epoch */
};

/* Returns whether this is rank 0, which writes records, checkpoints and progress. */
static inline bool session_leads(const struct session *s)
{
    return s->world.rank == 0;
}

/* Returns the faults that are injected into this run; NULL if there are none. */
static inline const struct inject *session_faults(const struct session *s)
{
    return inject_any(&s->inject) ? &s->inject : NULL;
}

/* --- Opening and closing (session_open.c) --- */

/* Checks configuration and data, opens device, network and loaders, loads weights, and begins the
 * record. On failure everything is closed, and no new run folder is left behind. */
MUST_CHECK enum status session_open(struct session *s, const struct train_config *config, int argc,
                                    char *const *argv, FILE *out);

/* Handles failure `st`. With one rank, returns `st`. With several ranks, a failure on one rank ends
 * the whole job: the other ranks fail, and this function does not return. If all ranks have the
 * same failure (`agreed`), rank 0 records and prints its message, and all ranks return `st` with an
 * empty message. */
MUST_CHECK enum status session_fail(struct session *s, enum status st);

/* Closes everything and returns the result of the run: `st` with its message if `st` is a failure,
 * else the first failure while closing. If record_finish was not called, readers of the record see
 * an incomplete run. */
MUST_CHECK enum status session_close(struct session *s, enum status st);

#define RUNS_DIR "runs" /* parent of the folders of runs without --out */

/* Chooses the run's folder: --out, or the first free folder of runs/. If an evaluation's --out is
 * the folder of a run, such as the evaluated run, the evaluation is recorded in a new folder inside
 * it. */
MUST_CHECK enum status session_choose_dir(struct session *s);

/* Moves the run to a rung without graphs, with a warning, if a device has stopped using graphs
 * since the last call. The results of the run stay the same bit for bit. */
void session_watch_graphs(struct session *s);

/* --- Weights and state, loaded and saved (session_checkpoint.c) --- */

/* Sets s->identity, which a checkpoint must match to be resumed. */
MUST_CHECK enum status session_identify(struct session *s);

/* Sets the weights and the state with which the run begins: new ones, or those from a file, which
 * only rank 0 reads. All ranks call it. */
MUST_CHECK enum status session_load(struct session *s);

/* Rank 0 writes the latest checkpoint and keeps the previous checkpoint. session_checkpoint_prepare
 * writes a checkpoint of `state` to a temporary file on disk. session_checkpoint_commit renames
 * this file; call it when the session's state equals `state`. session_checkpoint calls both
 * functions, also before the record begins. A failure leaves the latest checkpoint unchanged. */
MUST_CHECK enum status session_checkpoint_prepare(struct session *s,
                                                  const struct train_state *state,
                                                  struct atomic_file *f);
MUST_CHECK enum status session_checkpoint_commit(struct session *s, struct atomic_file *f);
MUST_CHECK enum status session_checkpoint(struct session *s);

/* For --keep-checkpoints N: gives the latest checkpoint, which was written at the end of `epoch`, a
 * second name that contains the epoch (a hard link). Of the checkpoints with such names, keeps the
 * N newest, and removes the other ones. Without that flag, does nothing. */
MUST_CHECK enum status session_keep_checkpoint(struct session *s, int64_t epoch);

/* With --on-save, asks for a run of the command if records have been written to the operating
 * system since the last request. If `now` is false, asks only if the last request was at least 10
 * seconds ago. */
MUST_CHECK enum status session_saved_records(struct session *s, bool now);

/* With --on-save, runs the command a last time, and waits for its end. */
MUST_CHECK enum status session_end_saves(struct session *s);

/* --- Settings: compared between ranks, and recorded (session_record.c) --- */

/* Fails on all ranks if the settings, data or layout of weights of a rank differ from rank 0's. */
MUST_CHECK enum status session_agree(struct session *s);

/* Returns whether the device rounds fp32 values to the precision's type, in place of computing in
 * it. */
bool session_emulates(const struct session *s);

/* Begins the record on rank 0, and sampling of the devices' sensors on every rank. */
MUST_CHECK enum status session_begin_record(struct session *s, int argc, char *const *argv);

/* Returns the energy in joules that this rank's devices have used since the run began; NaN if not
 * measured. All ranks of a host share the energy of its processors, so with several ranks that
 * energy is NaN. */
double session_joules(struct session *s);

/* --- The comparison, bit by bit, with the record of an earlier run of the same configuration
 * (expect.c). A training run is a pure function of its configuration: on the same hardware, both
 * runs have the same losses and the same final state. --- */

/* Loads the record of a completed run; the caller frees it. `config` and `libraries` are this
 * run's, as in run.json, and `device` describes its device. STATUS_USAGE if a setting, device or
 * library differs; the message names it. Settings that change no bit, such as paths and loader
 * threads, may differ. STATUS_DATA for a run with injected faults, or without a hash of its final
 * state. */
MUST_CHECK enum status expected_open(const char *dir, const json_t *config, const json_t *libraries,
                                     const char *device, struct run **out);

/* Checks the loss of a step. STATUS_MISMATCH unless it equals the recorded loss in all recorded
 * digits. STATUS_DATA if the record has no such step. */
MUST_CHECK enum status expected_step(const struct run *run, const struct step_record *step);

/* Checks the end of the run: STATUS_DATA unless the record has the same number of steps,
 * STATUS_MISMATCH unless the hash `state` of the final state equals the recorded hash. */
MUST_CHECK enum status expected_end(const struct run *run, int64_t steps, const char *state);

/* --- Lines before training and after a completed run, and the summary (run_summary.c) --- */

/* Prints network, devices, ranks, memory, injected faults and the record's folder to s->out. */
void run_summary_begin(const struct session *s);

/* Completes the record of a run, and prints its totals: throughput, accuracy, time, straggler. All
 * ranks call it. */
MUST_CHECK enum status run_summary_finish(struct session *s);
