/* Measures the throughput of the input pipeline for several numbers of threads. Reading, decoding
 * and resampling are each measured alone. The loader, which does all three, is measured too.
 *
 *     read      the file into memory, from the page cache (warm) or from storage (cold)
 *     decode    a file in memory: only the crop that training chooses, and with --decode fast only
 *               at the resolution that the next stage needs
 *     resample  decoded pixels to the network's resolution, with crop and flip
 *     loader    an epoch of the training loader: all three stages, shuffled, in batches; warm and
 *               cold
 *     gpu       like loader, but a GPU's JPEG engines decode (train --decode gpu)
 *
 * A sample is the time of a pass over all images of the set, the same images at every stage. After
 * the samples of a row, the results of one more pass are checked by checksums. The bytes must equal
 * the bytes that another function reads from the files. The pixels must equal those that one thread
 * decodes by sample_read. For images that a GPU decoded, a mean difference of a few grey levels is
 * accepted, because a GPU interpolates colours in another way. The images of the loader must come
 * in the order of the epoch, each of them once.
 *
 * Cold means not in the page cache: before each pass, the files are synced and dropped from the
 * page cache (posix_fadvise). If more than a small share of the files stays in the page cache,
 * there are no cold rows. Caches of the disk or of a network file system are not dropped. */
#pragma once

#include "base/file.h"
#include "bench/options.h"
#include "input/image_files.h"
#include "input/sample.h"

enum { INPUT_THREADS_MAX = 32 };

struct input_config {
    struct bench_options options; /* .batch: images per batch of the loader, at most the number of
                                   * images; .image_size: side of the network's input, pixels */
    const char *data; /* a folder that contains "train"; NULL: images are generated and afterwards
                       * removed, even if SIGINT or SIGTERM ends the measurement (base/stop.h) */
    bool fast;        /* decode as train --decode fast does */
    int images;       /* number of images used, spread evenly over the set; at least 1 */
    int size;         /* typical side of generated images, pixels (synth.h) */
    int n_threads;    /* number of entries in `threads`; 0: one measurement, with all cores */
    int threads[INPUT_THREADS_MAX];
    const char *device; /* "cuda:0": also measures the loader with this GPU's decoder; NULL: none */
};

/* --- the images (input_set.c) --- */

/* An image in the forms that the stages read, and the checksums of the correct results. */
struct input_image {
    uint8_t *bytes; /* the file */
    size_t size;
    uint64_t bytes_sum, pixels_sum;
    struct sample_view view; /* decoded; refers to `pixels` */
    uint8_t *pixels;
};

struct input_set {
    struct sample_config sample;
    struct dataset *all;            /* the whole set */
    struct dataset data;            /* the images that are used */
    struct temporary_dir made;      /* the generated folder, if any */
    struct image_files files;       /* files of the images in `data` */
    int64_t bytes;                  /* total size of the files */
    struct input_image *image;      /* (data.n) */
    struct device *device;          /* the GPU; NULL: none */
    struct device_decoder *decoder; /* the GPU's decoder; NULL: none */
    char no_decoder[512];           /* why there is none */
};

/* Finds or generates the images and computes their checksums; STATUS_DATA if an image is bad. If
 * this function generates the images, SIGINT and SIGTERM no longer kill the process, so that the
 * process can remove the images: this function and the passes call stop_check between images or
 * batches. */
MUST_CHECK enum status input_set_open(const struct input_config *c, struct input_set *set);
MUST_CHECK enum status input_set_close(struct input_set *set); /* accepts a zeroed struct */

/* Returns the random-number generator that chooses the view of image i. It is the one that the
 * loader uses in epoch 0 with seed 0. */
struct rng input_rng(int64_t i);

/* Returns `st`; if image i is damaged or cannot be read, with its path in the message. */
MUST_CHECK enum status input_set_name(const struct input_set *set, int64_t i, enum status st);

/* Drops the files from the page cache, as far as the system allows. */
MUST_CHECK enum status input_set_drop(const struct input_set *set);

/* Sets *share to the fraction, 0 to 1, of the files' pages that are in the page cache. */
MUST_CHECK enum status input_set_cached(const struct input_set *set, double *share);

/* --- stages (input_stage.c) --- */

enum input_stage {
    INPUT_READ,
    INPUT_DECODE,
    INPUT_RESAMPLE,
    INPUT_LOADER,
    INPUT_GPU, /* the loader with a GPU's decoder */
    INPUT_STAGES
};

struct input_row {
    enum input_stage stage;
    int threads;
    bool cold; /* the files are not in the page cache */
    int64_t images, bytes;
    struct harness_result time; /* time of a pass */
    int64_t on_device;          /* number of images of the checked pass that the GPU decoded */
    int64_t wrong;              /* number of images with a wrong result */
};

/* Returns whether a stage is an epoch of the loader. */
static inline bool input_stage_loads(enum input_stage stage)
{
    return stage >= INPUT_LOADER;
}

/* Measures and checks a stage. Wrong results are not a failure here: the row counts them. */
MUST_CHECK enum status input_measure(const struct input_config *c, const struct input_set *set,
                                     enum input_stage stage, bool cold, int threads,
                                     struct input_row *row);

/* --- the benchmark (input.c) --- */

/* Measures and prints. Afterwards returns STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status bench_input(const struct input_config *c);
