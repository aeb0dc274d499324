/* Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.
 *
 * Weights and running statistics bear torchvision's state_dict names, so that PyTorch opens the
 * file; momentum is "momentum/<name>". The rest is metadata. Files are replaced atomically, carry a
 * checksum, and hold nothing that varies between equal runs. */
#ifndef RUNNERS_CHECKPOINT_H
#define RUNNERS_CHECKPOINT_H

#include "base/file.h"
#include "model/network.h"
#include "runners/scaler.h"

/* Where a run stands. The sampler's position is (epoch, batch); random numbers have no state. */
struct train_state {
    int64_t epoch; /* being trained, from 0 */
    int64_t batch; /* next one of that epoch, of each rank; all of them done: validation is next */
    int64_t step;  /* optimizer steps so far */
    double best_top1;
    struct scaler_state scaler;
    /* Sums over the images of this epoch so far. */
    double loss_sum;
    int64_t count, top1, top5;
    int64_t bad_images;
};

/* What must be the same for a run to go on. */
struct train_identity {
    const char *arch;
    int classes;
    int image_size;
    int batch;       /* of each rank */
    int ranks;       /* may change: a position in an epoch is kept by its images */
    int64_t batches; /* of an epoch, of each rank; 0: not known */
    uint64_t seed;
    uint64_t data;         /* fingerprint of the data sets */
    const char *precision; /* as in struct train_config */
    /* What convolution and batch norm were fused by; a run may go on with another, but has other
     * bits then. */
    enum fuse fuse;
};

/* Both kinds of file hold finite values only: otherwise STATUS_DIVERGED, which names the tensor,
 * and the file at `path` stays as it was. */
MUST_CHECK enum status checkpoint_save(const char *path, struct network *net, const struct graph *g,
                                       const struct train_identity *id,
                                       const struct train_state *state);

/* The same up to the last step, which is atomic_file_commit. */
MUST_CHECK enum status checkpoint_prepare(const char *path, struct network *net,
                                          const struct graph *g, const struct train_identity *id,
                                          const struct train_state *state, struct atomic_file *f);

/* Loads all of it. Where the checkpoint was written by another number of ranks, state->batch is the
 * last of this run's batches that begins no later than where that one stood, so that no image of
 * the epoch is missed and a few may be seen twice. STATUS_DATA when the file is damaged, has no
 * checksum or does not exist; STATUS_USAGE, naming the difference, when it belongs to another run.
 * *state stays as it was when this fails; the network may hold part of the file. */
MUST_CHECK enum status checkpoint_load(const char *path, struct network *net, const struct graph *g,
                                       const struct train_identity *id, struct train_state *state);

/* Where the run of a checkpoint stands, without loading it. STATUS_DATA as above. */
MUST_CHECK enum status checkpoint_state(const char *path, struct train_state *state);

/* How the run of a checkpoint was fused; *fuse stays where the file does not say it, is damaged or
 * does not exist. */
MUST_CHECK enum status checkpoint_fuse(const char *path, enum fuse *fuse);

/* Weights and running statistics alone: to keep the best, to start from (names may bear DDP's
 * "module." prefix), to evaluate. */
MUST_CHECK enum status weights_save(const char *path, struct network *net, const struct graph *g,
                                    int64_t steps);
MUST_CHECK enum status weights_load(const char *path, struct network *net, const struct graph *g);
#endif
