/* What it takes to bring images to a network: reading, decoding and augmenting, each by itself, and
 * the loader that does all of it, for some numbers of threads.
 *
 *     read      the file into memory, from the page cache (warm) or not (cold)
 *     decode    of the view that training chooses, at the reduction that loses nothing, in memory
 *     resample  of what was decoded to the network's resolution, with crop and flip
 *     loader    an epoch of the training loader: all of it, shuffled, in batches; warm and cold
 *
 * A sample is the time of a pass over all images of the set, the same at every stage. After the
 * samples of a row one more pass is checked: what was read against the files' bytes as read
 * otherwise, and pixels, by checksum, against those that one thread gets on the ordinary path
 * (sample_read). Of the loader every row is held against the image that the epoch's order has
 * there, and every image must come once.
 *
 * Cold is what the page cache does not hold: before each pass the files are synced and dropped from
 * it (posix_fadvise), and where the system still holds more than a little of them, cold rows are
 * left out. What the disk, or a file system over a network, keeps by itself cannot be told. */
#ifndef BENCH_INPUT_H
#define BENCH_INPUT_H

#include "bench/harness.h"
#include "input/dataset.h"
#include "input/sample.h"

#include <stdio.h>

enum { INPUT_SCHEMA = 1, INPUT_THREADS_MAX = 32, INPUT_IMAGES_DEFAULT = 256 };

struct input_config {
    const char *data; /* a folder with "train" in it; NULL: generated for this, and removed after,
                       * when SIGINT or SIGTERM end the measurement, too (base/stop.h) */
    int images;       /* of the set, spread evenly over it; at least 1 */
    int size;         /* side of generated images; synth.h */
    int image_size;   /* what the network sees */
    int batch;        /* of the loader; fewer where there are fewer images */
    int n_threads;
    int threads[INPUT_THREADS_MAX];
    struct harness_config timing;
    bool json, csv;
    FILE *out;
};

struct input_config input_config_default(void);

/* --- the images (input_set.c) --- */

/* An image as each stage finds it, and what has to come of it. */
struct input_image {
    uint8_t *bytes; /* the file */
    size_t size;
    uint64_t bytes_sum, pixels_sum;
    struct sample_view view; /* with pixels of its own, */
    uint8_t *pixels;         /* these */
};

struct input_set {
    struct sample_config sample;
    struct dataset *all;       /* the whole set */
    struct dataset data;       /* the images of it that are used */
    char made[4096];           /* the folder, where it was generated; "" */
    int held;                  /* and its lock (dir_make_temporary) */
    int dir;                   /* data.root */
    int64_t bytes;             /* of the files */
    struct input_image *image; /* (data.n) */
};

/* Finds or makes the images and learns what has to come of them; STATUS_DATA where one is bad.
 * Where they are made, SIGINT and SIGTERM ask for an end from then on, by which they are removed
 * again: passes and what comes before them look (stop_check) between images, or batches. */
MUST_CHECK enum status input_set_open(const struct input_config *c, struct input_set *set);
MUST_CHECK enum status input_set_close(struct input_set *set); /* a zeroed one is fine */

uint64_t input_sum(const uint8_t *bytes, size_t n);

/* What chooses image i's view; as the loader does in epoch 0 with seed 0. */
struct rng input_rng(int64_t i);

/* Drops the files from the page cache, as far as the system lets go of them. */
MUST_CHECK enum status input_set_drop(const struct input_set *set);

/* The share of the files' pages that the cache holds. */
MUST_CHECK enum status input_set_cached(const struct input_set *set, double *share);

/* --- stages (input_stage.c) --- */

enum input_stage { INPUT_READ, INPUT_DECODE, INPUT_RESAMPLE, INPUT_LOADER, INPUT_STAGES };
const char *input_stage_str(enum input_stage stage);

struct input_row {
    enum input_stage stage;
    int threads;
    bool files; /* it reads files: */
    bool cold;  /* from a cache without them */
    int64_t images, bytes;
    struct harness_result time; /* of a pass */
    int64_t wrong;              /* images */
};

/* Measures and checks a stage. That results are wrong is no failure here: the row says so. */
MUST_CHECK enum status input_measure(const struct input_config *c, const struct input_set *set,
                                     enum input_stage stage, bool cold, int threads,
                                     struct input_row *row);

/* --- what is printed (input_report.c) --- */

struct input_report {
    const struct input_config *config;
    const struct input_set *set;
    int cores; /* that this process may use */
    double
        cached; /* share of the files that stayed in the page cache; cold rows only where small */
    bool cold;
    const struct input_row *row; /* (rows) */
    int rows;
};

/* Images a second, by the median. */
double input_rate(const struct input_row *row);

MUST_CHECK enum status input_report_print(const struct input_report *r);

/* Measures and prints. STATUS_MISMATCH where a result was wrong, when all is printed. */
MUST_CHECK enum status bench_input(const struct input_config *c);
#endif
