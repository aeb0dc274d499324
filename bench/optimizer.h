/* The optimizer's update of a network's parameters: momentum SGD over one flat buffer (OP_SGD).
 *
 * The operation is the one that training plans, with its segments and precisions. It is bound by
 * memory: fp32 reads weight, gradient and momentum of a parameter and writes two of them, 20 bytes;
 * a copy of the weights in less, where the device wants one, is another 4. Rows are precisions as
 * `ampscale train` has them.
 *
 * It is timed on noise. Then the same plan takes one step on values of which every result is exact
 * in fp32, with a momentum of 1/2, a weight decay of 1/1024 and a learning rate of 1/2, and every
 * element that it wrote is held against the reference backend's. */
#ifndef BENCH_OPTIMIZER_H
#define BENCH_OPTIMIZER_H

#include "bench/collective.h"
#include "bench/harness.h"
#include "bench/micro.h"
#include "model/graph.h"

enum { OPTIMIZER_SCHEMA = 1, OPTIMIZER_ROWS_MAX = 8 };

struct optimizer_config {
    const char *net;
    int n_precisions;
    const char *precision[OPTIMIZER_ROWS_MAX];
    bool emulate;     /* round in fp32 although the device has the types */
    const char *peak; /* file of peaks (roofline.h); NULL: they are measured first */
    const char *devices;
    int threads;
    struct harness_config timing;
    enum bench_format format;
    FILE *out;
};

struct optimizer_row {
    const char *precision;
    bool emulated;      /* narrow types are fp32 that is rounded */
    int64_t parameters; /* elements of the flat buffer, what aligns them included */
    int segments;
    double bytes; /* that a step must move */
    struct harness_result time;
    int64_t wrong; /* elements of weights, momentum and copy */
    char impl[64];
};

/* Times and checks the update of a network under one precision. That results are wrong is no
 * failure here. */
MUST_CHECK enum status optimizer_measure(const struct optimizer_config *c, const struct micro *m,
                                         const struct graph *g, const char *precision,
                                         struct optimizer_row *row);

/* Holds one step of a planned OP_SGD on exact values against the reference: counts the elements
 * that differ. `arg` has memory for all of the plan's tensors and for the state. */
struct timed_op;
MUST_CHECK enum status optimizer_check(struct timed_op *t, struct stream *ref, int64_t *wrong);

/* Measures and prints. STATUS_MISMATCH where a result was wrong, when all is printed. */
MUST_CHECK enum status bench_optimizer(const struct optimizer_config *c);
#endif
