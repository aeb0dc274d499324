/* A profile: time, DRAM traffic and tensor core use of every kernel of one training step on a GPU,
 * read from NVIDIA's profiler `ncu`, beside the arithmetic of the operation that launched it
 * (bench/step.h, roofline.h).
 *
 * `ncu` runs this program again, as `bench step --profile-one-step`: after a warm-up step, that
 * process carries out one step operation by operation, with a kernel that does nothing in front of
 * each (kernels/backend.h, enum profile_call), and prints its list of operations. The order of the
 * kernels then says which operation launched each. Graphs are off: ncu would report one as a whole,
 * or its nodes without the marks' order.
 *
 * ncu runs kernels one at a time, several times each, with empty caches and clocks as they are
 * (--clock-control none): times do not add up to a step's where kernels overlap, or find what the
 * one before left in the L2 cache. */
#ifndef BENCH_PROFILE_H
#define BENCH_PROFILE_H

#include "bench/noise_step.h"
#include "bench/profile_ncu.h"

#include <jansson.h>

struct profile_config {
    const char *program; /* this program's file */
    struct bench_net_config
        net;         /* .peak: NULL measures them first; .json and .out: of the result */
    const char *dir; /* folder for what ncu and the step wrote; NULL: none is kept */
    double budget_s; /* 0: none */
};

/* Sums over kernels; an average is weighted by time. NaN: ncu did not say. */
struct profile_sum {
    int n;
    double seconds, bytes;
    double tensor, dram; /* share of the peak of the tensor cores' pipe and of DRAM, 0 to 1 */
};

/* An operation of the step, as the profiled process lists it. Names belong to `profile.step`. */
struct profile_op {
    const char *layer, *phase, *op, *impl, *bound;
    double bytes, flops, bound_s; /* bound_s is NaN where it is unknown */
    struct profile_sum sum;
};

/* Kernels of one name in one phase. */
struct profile_row {
    const char *name, *phase;
    int registers; /* of a thread; -1: unknown */
    struct profile_sum sum;
};

struct profile {
    const struct profile_config *config;
    json_t *step; /* what the profiled process printed */
    char tool[64];
    struct ncu_kernel *kernel;
    int n_kernels;
    struct profile_op *op;
    int n_ops;
    struct profile_row *row; /* the longest time first */
    int n_rows;
    struct profile_sum all;
    bool attributed; /* the marks fit the operations; where not, ops have no sums and rows no phase
                      */
};

/* Profiles and prints. STATUS_DATA, with one line that says what is missing, where the device is no
 * GPU, ncu is not installed or may not read counters, or the budget is over. */
MUST_CHECK enum status bench_profile(const struct profile_config *c);

/* The profiled process: one step, and its operations as JSON to c->out. */
MUST_CHECK enum status bench_profile_step(const struct bench_net_config *c);

/* Adds a kernel, or kernels, to a sum that began as {0}. */
void profile_add(struct profile_sum *s, const struct profile_sum *more);

/* Assigns kernels to operations and rows, from .step and .kernel. */
MUST_CHECK enum status profile_assign(struct profile *p);

void profile_print(const struct profile *p, FILE *out);
MUST_CHECK enum status profile_json(const struct profile *p, json_t **record);
#endif
