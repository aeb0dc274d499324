/* Inside runners/: one training run's parts, opened and closed together. */
#ifndef RUNNERS_SESSION_H
#define RUNNERS_SESSION_H

#include "input/loader.h"
#include "results/record.h"
#include "runners/checkpoint.h"
#include "runners/config.h"

#include <stdio.h>

/* The programs of a run, in the order in which they are planned. */
enum program_use { USE_TRAIN, USE_TAIL, USE_VAL, USE_COUNT };

/* Marks in the stream between the parts of a step. */
enum mark { MARK_BEGIN, MARK_INPUT, MARK_FORWARD, MARK_BACKWARD, MARK_UPDATE, MARK_COUNT };

struct session {
    const struct train_config *config;
    FILE *out;
    char dir[4096]; /* the run's folder; "" when there is none (--evaluate) */
    struct dataset *train_data, *val_data;
    struct loader *train_loader, *val_loader;
    int64_t train_batches;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct program *program[USE_COUNT]; /* NULL where there is none */
    struct policy policy;
    bool scaled; /* the loss is scaled, and gradients that overflow skip their step */
    struct event *mark[MARK_COUNT];
    struct train_identity identity;
    struct train_state state;
    bool resumed;
    struct record *record;
    double *rates; /* (train_batches) images/s of this epoch's steps */
};

/* Checks configuration and data, opens device, network and loaders, loads weights, and begins the
 * record. On failure nothing stays open, and no run is left behind that did not exist before. */
MUST_CHECK enum status session_open(struct session *s, const struct train_config *config, int argc,
                                    char *const *argv, FILE *out);

/* Closes everything. A record without record_finish reads as a run that did not end in order. */
MUST_CHECK enum status session_close(struct session *s);

/* Writes the latest checkpoint, keeping the one before. */
MUST_CHECK enum status session_checkpoint(struct session *s);

#endif
