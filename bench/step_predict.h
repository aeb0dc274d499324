/* Predicts a training step on a GPU that need not be present.
 *
 * The step is lowered and planned as on a real GPU: cuDNN's heuristics choose kernels for the
 * described GPU, and operations are fused where the prediction is faster. The plan gives the
 * kernels and their bytes (kernels/traffic.h); a model gives their times (kernels/gpu_time.h).
 * Nothing is executed or measured. */
#pragma once

#include "bench/noise_step.h"
#include "kernels/gpu_time.h"

/* A kernel, or the sums over several kernels. */
struct predicted_kernel {
    struct step_info info;      /* operation of the kernel; unused in a sum */
    const char *name;           /* name of the sum; unused for a kernel */
    struct traffic_kernel what; /* description of the kernel; unused in a sum */
    int operations, kernels;    /* in a single kernel, `kernels` is 1, and `operations` is 1 for the
                                 * first kernel of an operation, else 0 */
    double read, written;       /* bytes */
    double flops;
    struct gpu_time time;
};

struct step_prediction {
    const struct bench_options *options;
    struct gpu_description gpu;
    char about[256];
    struct device *dev;
    struct graph *graph;
    struct network *net;
    int n;
    struct predicted_kernel *kernel; /* (n) in the order of launches */
    struct predicted_kernel all;     /* the sums */
    double share; /* of the prediction that can be expected at most, because published results of
                   * the GPU in 16 bits reach no more; 1: none are known, or fp32 or TF32 */
};

/* `gpu` is a name or a file (gpu_description_open). Of the options, only net, batch, image_size,
 * precision, fuse and emulate are used. step_prediction_close also accepts a zeroed struct, and a
 * prediction whose opening failed. */
MUST_CHECK enum status step_prediction_open(const struct bench_options *o, const char *gpu,
                                            struct step_prediction *p);
void step_prediction_close(struct step_prediction *p);

/* Bytes that the kernels read and write for each image. */
double step_prediction_bytes(const struct step_prediction *p);

/* Prints a row for each kernel, then the sums. */
MUST_CHECK enum status bench_step_predict(const struct bench_options *o, const char *gpu);
