/* Reading what others have published: tables of throughput against devices (results/published).
 *
 * A file is CSV without quotes. A line "# source: TEXT" says where the rows after it come from;
 * other lines that begin with '#' are comments. The first line besides names the columns, in any
 * order; "series" and "gpus" must be among them, and unknown ones are refused. A cell may be empty
 * where nothing is known. */
#ifndef RESULTS_PUBLISHED_H
#define RESULTS_PUBLISHED_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PUBLISHED_NAME_MAX = 48, PUBLISHED_SOURCE_MAX = 256, PUBLISHED_POINTS_MAX = 64 };

/* A row. 0 where the batch is not known, NaN where another number is not. */
struct published_point {
    int64_t gpus;
    int64_t batch_per_gpu;
    double images_per_s; /* of all GPUs; validation and checkpoints left out */
    double train_time_s; /* of the whole training */
    double top1, top5;   /* of validation at the end, percent */
    double efficiency;   /* percent of the series' first row, a GPU; where only that is known */
};

/* One study on one system: the number of GPUs varies. */
struct published_series {
    char name[PUBLISHED_NAME_MAX];
    char source[PUBLISHED_SOURCE_MAX];
    char arch[PUBLISHED_NAME_MAX];
    char hardware[PUBLISHED_NAME_MAX];
    char precision[PUBLISHED_NAME_MAX]; /* as ampscale calls it */
    char gradients[PUBLISHED_NAME_MAX]; /* type in which they are sent: fp16, fp32; "": not known */
    char overlap[PUBLISHED_NAME_MAX];   /* yes, no: during the backward pass; "": not known */
    int64_t gpus_per_node;              /* 0: not known */
    int n;
    struct published_point point[PUBLISHED_POINTS_MAX]; /* (n >= 1) ascending by .gpus */
};

struct published {
    int n;
    struct published_series *series; /* (n >= 1) in the file's order, names all different */
};

/* STATUS_DATA, with file and line, for anything that is not as above. The caller frees with
 * published_free, which is fine on a zeroed struct. */
MUST_CHECK enum status published_load(const char *path, struct published *out);
void published_free(struct published *p);

/* The series of that name; STATUS_USAGE with the names there are when there is none. */
MUST_CHECK enum status published_find(const struct published *p, const char *name,
                                      const struct published_series **out);

/* Percent of perfect scaling from the series' first point: from throughput, or as the source gives
 * it; NaN when neither says. */
double published_efficiency(const struct published_series *s, int i);
#endif
