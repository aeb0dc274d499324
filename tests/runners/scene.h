/* Trains a small network on a device "stream" (tests/kernels/stream_backend.h), which only tests
 * can find, and compares the resulting files. The test is linked with --wrap=backend_find
 * and --wrap=loader_next. */
#pragma once

#include "results/run.h"
#include "runners/trainer.h"
#include "tests/kernels/stream_backend.h"
#include "tests/results/scratch.h"

extern struct stream_backend scene_streams; /* a test calls stream_backend_make on it first */

/* Training batches without a valid image: bit i is for batch i of an epoch, from 2 on, since
 * validation has 2 batches. A test sets it back to 0. */
extern unsigned scene_blank;

/* The output of a run. When a line contains `stop_at`, the run is asked to stop. */
struct output {
    char text[1 << 16];
    size_t length;
    const char *stop_at;
};

struct scene {
    char dir[SCRATCH_MAX];
    struct output output;
    char message[1024]; /* message of a failed run */
};

struct scene *scene_open(void);
void scene_close(struct scene *s);

/* Two epochs, each with batches of 4, 4, 4 and 2 images. */
struct train_config scene_config(void);

/* Trains on "<device><config->devices>", into the scene's folder "run". Fails the test unless the
 * run ends with `want`. */
void scene_run(struct scene *s, const struct train_config *config, const char *device,
               enum status want);
struct run *scene_load(const struct scene *s);

/* scene_same_records checks that losses, accuracies and loss scales are equal, and scene_same_file
 * that a file is equal byte by byte. scene_same_run checks both. */
void scene_same_records(const struct scene *a, const struct scene *b);
void scene_same_file(const struct scene *a, const struct scene *b, const char *name);
void scene_same_run(const struct scene *a, const struct scene *b);
