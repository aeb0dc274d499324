/* A profile lists every kernel of one training step on a GPU. NVIDIA's profiler `ncu` measures the
 * kernel's time, DRAM traffic and tensor core use. The bytes and FLOPs are computed for the
 * operation that launched the kernel (bench/step.h, roofline.h).
 *
 * `ncu` runs this program again, as `bench step --profile-one-step`. After a warm-up step, that
 * process executes one step operation by operation, launches an empty kernel as a mark before each
 * operation (kernels/backend.h, enum profile_call), and prints its list of operations. The order of
 * the kernels then shows which operation launched each kernel. Graphs are off: ncu would report a
 * graph as a whole, or its nodes without the order of the marks.
 *
 * ncu runs kernels one at a time, several times each, with empty caches and unchanged clocks
 * (--clock-control none). So the sum of the times is not the time of a normal step. In a normal
 * step, kernels may overlap, and a kernel may find data of the previous kernel in the L2 cache. */
#pragma once

#include "bench/options.h"
#include "bench/profile_ncu.h"

/* Sums over kernels; fractions are averages weighted by time. A value that ncu did not report is
 * NaN. */
struct profile_sum {
    int n;
    double seconds, bytes;
    double tensor, dram; /* use of the tensor core pipe and of DRAM as a fraction of the peak, 0 to
                          * 1 */
};

/* An operation of the step, as the profiled process lists it. profile.step owns the strings. */
struct profile_op {
    const char *layer, *phase, *op, *impl, *bound;
    double bytes, flops, bound_s; /* bound_s is NaN if it is unknown */
    struct profile_sum sum;
};

/* All kernels that have the same name in the same phase. */
struct profile_row {
    const char *name, *phase;
    int registers; /* registers per thread; -1: unknown */
    struct profile_sum sum;
};

struct profile {
    const struct bench_options *options;
    json_t *step; /* the record that the profiled process printed */
    char tool[64];
    struct ncu_kernel *kernel;
    int n_kernels;
    struct profile_op *op;
    int n_ops;
    struct profile_row *row; /* (n_rows) by time, the longest first */
    int n_rows;
    struct profile_sum all;
    struct host_noise noise;
    bool attributed; /* whether the marks match the operations; otherwise the sums of operations and
                      * the phases of rows are missing */
};

/* Profiles one training step and prints the profile. Writes the record and ncu's files to o->dir.
 * Fails with STATUS_DATA if the device is not a GPU, if ncu is missing or may not read counters, or
 * if the budget is used up. The message names the cause in one line. */
MUST_CHECK enum status bench_profile(const struct bench_options *o);

/* Adds the sum `more` to `s`, which must have been initialised with {0}. */
void profile_add(struct profile_sum *s, const struct profile_sum *more);

/* Makes p->op and p->row from p->step and p->kernel: assigns each kernel to its operation and to
 * its row. */
MUST_CHECK enum status profile_assign(struct profile *p);

/* Printing (profile_report.c). */
void profile_print(const struct profile *p);
MUST_CHECK enum status profile_json(const struct profile *p, json_t **record);
