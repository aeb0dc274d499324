/* Checkpoints: the complete state of a run, in one safetensors file, so that the run can resume as
 * if it had never stopped. docs/reference/checkpoints.md lists the names of tensors and metadata.
 *
 * Weights and running statistics have torchvision's state_dict names, so that PyTorch reads the
 * file; momentum is "momentum/<name>". The rest is metadata. Files are replaced atomically and have
 * a checksum. Equal runs write equal files. */
#pragma once

#include "base/file.h"
#include "engine/scaler.h"
#include "model/network.h"

#define MOMENTUM_PREFIX "momentum/"

/* The position and the sums of a run. Epoch and batch define the sampler's position. Random numbers
 * need no saved state. */
struct train_state {
    int64_t epoch; /* the current epoch, from 0 */
    int64_t batch; /* next batch of each rank; after the last batch: validation */
    int64_t step;  /* optimizer steps so far */
    double best_top1;
    struct scaler_state scaler;
    /* Sums over the images of this epoch so far. */
    double loss_sum;
    int64_t count, top1, top5;
    int64_t bad_images;
    uint64_t data_before; /* after loading: fingerprint of the data, if train_identity.data_changed
                           * was set and the fingerprints differ; otherwise 0 */
};

/* The settings that must be equal for a run to resume. */
struct train_identity {
    const char *arch;
    int classes;
    int image_size;
    int batch;       /* images of one rank's batch */
    int ranks;       /* number of ranks, which may change: the position in an epoch is then
                      * converted */
    int64_t batches; /* batches of each rank in an epoch; 0: unknown */
    uint64_t seed;
    uint64_t data;         /* fingerprint of the data sets */
    bool data_changed;     /* the fingerprint may differ; the number of classes may not */
    const char *precision; /* name of the precision, as in struct train_config */
    /* Fusion of convolution and batch norm; with another fusion, a resumed run computes other
     * bits. */
    enum fuse fuse;
    enum conv_algorithm conv_algorithm; /* likewise */
};

/* Writes a checkpoint to a temporary file, which atomic_file_commit renames to `path`. Checkpoints
 * and weights contain only finite values. If a value is not finite, returns STATUS_DIVERGED with a
 * message that names the tensor, and the file at `path` stays unchanged. */
MUST_CHECK enum status checkpoint_prepare(const char *path, struct network *net,
                                          const struct graph *g, const struct train_identity *id,
                                          const struct train_state *state, struct atomic_file *f);

/* Loads a whole checkpoint. A run with another number of ranks may have written it. In that case
 * state->batch is the last batch of this run that begins no later than the checkpoint's position.
 * The epoch then misses no image, but may repeat a few. On changed data, state->batch is the same
 * number of the epoch's new order: the rest of this epoch may miss or repeat images.
 *
 * STATUS_DATA: the file is damaged, has no checksum or does not exist. STATUS_USAGE: the file
 * belongs to another run; the message names the difference. On failure *state stays unchanged, but
 * the network may contain part of the file. */
MUST_CHECK enum status checkpoint_load(const char *path, struct network *net, const struct graph *g,
                                       const struct train_identity *id, struct train_state *state);

/* Reads a checkpoint's state, but not its tensors. STATUS_DATA as for checkpoint_load. */
MUST_CHECK enum status checkpoint_state(const char *path, struct train_state *state);

/* Sets id->fuse and id->conv_algorithm, which a resumed run keeps. They stay unchanged if the file
 * is damaged or does not exist; the fusion, too, if the file does not name it. */
MUST_CHECK enum status checkpoint_kept(const char *path, struct train_identity *id);

/* Save and load weights and running statistics only: for the best weights, for --init and for
 * evaluation. weights_load reads any state_dict, as load_state_dict(strict=True) does, and skips
 * the prefixes of PyTorch's wrappers. F16, BF16 and F64 become fp32. Momentum is ignored.
 *
 * If `classes` is not NULL, the file may have another number of classes, which *classes becomes.
 * The network's last layer then keeps its values.
 *
 * STATUS_USAGE: the file is of another network, which the message names. STATUS_DATA: it is
 * damaged, does not exist or does not fit. */
MUST_CHECK enum status weights_save(const char *path, struct network *net, const struct graph *g,
                                    int64_t steps);
MUST_CHECK enum status weights_load(const char *path, struct network *net, const struct graph *g,
                                    int64_t *classes);

/* weights_load of an open file; with `momentum`, loads the momentum, too. */
struct safetensors;
MUST_CHECK enum status state_dict_load(const char *path, const struct safetensors *f,
                                       struct network *net, const struct graph *g, bool momentum,
                                       int64_t *classes);

/* Copies the weights and statistics of the checkpoint `from` to a new file `to`. The names in the
 * file are exactly those of torchvision's state_dict (state_dict.c). `proceed`, unless NULL, is
 * called before the temporary file is renamed to `to`. If `proceed` fails, no file is written.
 * STATUS_DATA when `from` is damaged, does not exist or names no network. */
MUST_CHECK enum status checkpoint_export_weights(const char *from, const char *to,
                                                 enum status (*proceed)(void));
