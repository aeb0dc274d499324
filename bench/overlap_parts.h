/* Inside bench/: shared by the measurement (overlap.c) and the report (overlap_report.c). */
#pragma once

#include "bench/overlap.h"
#include "comm/world.h"
#include "engine/reducer.h"
#include "kernels/device_list.h"

/* Parts of a step (overlap.h), in seconds; HIDDEN and EVEN are fractions. */
enum overlap_part {
    PART_BACKWARD,
    PART_WAIT,
    PART_BUSY,
    PART_EXPOSED,
    PART_STEP,
    PART_MEASURED, /* number of measured parts; the parts below are computed from the measured
                    * parts */
    PART_GRADIENTS = PART_MEASURED,
    PART_COST,
    PART_LATE,
    PART_HIDDEN,
    PART_EVEN,
    PART_COUNT
};

/* Training with one bucket size, or without communication. */
struct variant {
    struct reducer *reducer;
    double *sample[PART_COUNT]; /* (rounds) each */
};

struct overlap {
    const struct overlap_config *config;
    struct device_list devices;
    struct world world;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    int n;                                         /* number of variants: 1 + number of bucket
                                                    * sizes */
    struct variant variant[1 + OVERLAP_SIZES_MAX]; /* [0]: without communication */
    double *samples;                               /* memory of all variants' samples */
    struct host_noise noise;
};

/* Returns a new object with every setting, or NULL if memory ran out. */
json_t *overlap_config_json(const struct overlap_config *c);

/* Prints the report. Rank 0 calls this function after all rounds. */
MUST_CHECK enum status overlap_report(const struct overlap *o);
