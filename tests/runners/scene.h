/* Runs of a small network on devices found by a name that the program does not know ("stream", see
 * tests/kernels/stream_backend.h), and what they leave. The test is linked with
 * --wrap=backend_find. */
#pragma once

#include "results/run.h"
#include "runners/trainer.h"
#include "tests/kernels/stream_backend.h"
#include "tests/results/scratch.h"

extern struct stream_backend scene_streams; /* to be made before the first run */

/* The lines that a run writes; asks the run to stop at the line that has `stop_at`. */
struct output {
    char text[1 << 16];
    size_t length;
    const char *stop_at;
};

struct scene {
    char dir[SCRATCH_MAX];
    struct output output;
    char message[1024]; /* of a run that failed */
};

struct scene *scene_open(void);
void scene_close(struct scene *s);

/* Two epochs of three batches of 4 images and one of 2. */
struct train_config scene_config(void);

/* Trains on "<device><config->devices>", in the scene's folder "run". */
enum status scene_run(struct scene *s, const struct train_config *config, const char *device);

void scene_expect(enum status st, enum status want, const struct scene *s);
struct run *scene_load(const struct scene *s);

/* The same losses, accuracies and scales; and the same bytes of checkpoints as well. */
void scene_same_records(const struct scene *a, const struct scene *b);
void scene_same_file(const struct scene *a, const struct scene *b, const char *name);
void scene_same_run(const struct scene *a, const struct scene *b);
