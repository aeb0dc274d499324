/* Inside bench/: what measuring and reporting of overlap share. */
#ifndef BENCH_OVERLAP_PARTS_H
#define BENCH_OVERLAP_PARTS_H

#include "bench/overlap.h"
#include "runners/reducer.h"
#include "runners/world.h"

/* Of a step, in seconds but for HIDDEN and EVEN, which are shares; overlap.h says what they are. */
enum overlap_part {
    PART_BACKWARD,
    PART_WAIT,
    PART_BUSY,
    PART_EXPOSED,
    PART_STEP,
    PART_MEASURED, /* those before it are measured; those after it follow from them */
    PART_GRADIENTS = PART_MEASURED,
    PART_COST,
    PART_LATE,
    PART_HIDDEN,
    PART_EVEN,
    PART_COUNT
};

/* Training with one bucket size, or without partners. */
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
    int n;                                         /* variants: 1 + sizes */
    struct variant variant[1 + OVERLAP_SIZES_MAX]; /* 0: without partners */
    double *samples;                               /* all of theirs */
};

/* A new object with every setting. NULL without memory. */
json_t *overlap_config_json(const struct overlap_config *c);

/* Rank 0's, once all rounds are over. */
MUST_CHECK enum status overlap_report(const struct overlap *o);

#endif
