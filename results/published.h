/* Reads published results: tables of throughput against devices (results/published).
 *
 * A file is CSV without quotes. A line "# source: TEXT" gives the source of the rows after it; all
 * other lines with '#' are comments. The first line without '#' names the columns, in any order;
 * "series" and "gpus" must be among them, and an unknown column is an error. An empty cell means
 * that the value is not known. */
#pragma once

#include "base/status.h"

#include <stdint.h>

enum { PUBLISHED_NAME_MAX = 48, PUBLISHED_SOURCE_MAX = 256, PUBLISHED_POINTS_MAX = 64 };

/* A row of a table. A batch that is not known is 0; any other number that is not known is NaN. */
struct published_point {
    int64_t gpus;
    int64_t batch_per_gpu;
    double images_per_s; /* throughput of all GPUs, without validation and checkpoints */
    double train_time_s; /* seconds of the whole training */
    double top1, top5;   /* accuracy of validation at the end, percent */
    double efficiency;   /* throughput per GPU, in percent of the throughput per GPU in the first
                          * row; NaN unless the source states the efficiency */
};

/* The results of one study on one system; the number of GPUs varies. */
struct published_series {
    char name[PUBLISHED_NAME_MAX];
    char source[PUBLISHED_SOURCE_MAX];
    char arch[PUBLISHED_NAME_MAX];
    char hardware[PUBLISHED_NAME_MAX];
    char precision[PUBLISHED_NAME_MAX]; /* named as in ampscale */
    char data[PUBLISHED_NAME_MAX];      /* name of the data set, as in a study; "": not known */
    char gradients[PUBLISHED_NAME_MAX]; /* type of the sent gradients: fp16, fp32; "": not known */
    char overlap[PUBLISHED_NAME_MAX];   /* all-reduce and backward overlap: yes, no; "": unknown */
    int64_t gpus_per_node;              /* 0: not known */
    int n;
    struct published_point point[PUBLISHED_POINTS_MAX]; /* (n >= 1), ascending by .gpus */
};

struct published {
    int n;
    struct published_series *series; /* (n >= 1) in the file's order, names all different */
};

/* Reads a file. STATUS_DATA, with file and line, if its content has another form. The caller frees
 * *out with published_free, which does nothing for a zeroed struct. */
MUST_CHECK enum status published_load(const char *path, struct published *out);
void published_free(struct published *p);

/* Finds the series named `name`. STATUS_USAGE if there is none; the message lists the names of all
 * series. */
MUST_CHECK enum status published_find(const struct published *p, const char *name,
                                      const struct published_series **out);

/* Returns the scaling efficiency of point i relative to the series' first point, in percent.
 * Computes it from throughput. If throughput is not known, returns the efficiency that the source
 * states, or NaN if the source states no efficiency. */
double published_efficiency(const struct published_series *s, int i);
