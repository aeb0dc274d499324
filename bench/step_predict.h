/* Predicts a training step on a GPU that need not be present.
 *
 * The step is lowered and planned as on a card: by cuDNN's heuristics for the described GPU, with
 * the chains of fused operations that are predicted to be faster. Bytes and kernels are those of
 * the plan (kernels/traffic.h), times those of a model (kernels/gpu_time.h). Nothing is executed or
 * measured. */
#pragma once

#include "bench/noise_step.h"
#include "kernels/gpu_time.h"

/* A kernel, or the sums over several. */
struct predicted_kernel {
    struct step_info info;      /* of one kernel's operation */
    const char *name;           /* of a sum */
    struct traffic_kernel what; /* of one kernel */
    int operations, kernels;    /* counts; 1 kernel, which may be the first of its operation */
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
};

/* `gpu` is a name or a file (gpu_description_open). Uses of the options: net, batch, image_size,
 * precision, fuse and emulate. step_prediction_close accepts a zeroed struct, and what failed to
 * open. */
MUST_CHECK enum status step_prediction_open(const struct bench_options *o, const char *gpu,
                                            struct step_prediction *p);
void step_prediction_close(struct step_prediction *p);

/* Adds to a sum. */
void predicted_kernel_add(struct predicted_kernel *sum, const struct predicted_kernel *k);

/* Bytes that the kernels read and write for each image. */
double step_prediction_bytes(const struct step_prediction *p);

/* Prints a row for each kernel, then the sums (step_predict_report.c). */
MUST_CHECK enum status step_prediction_print(const struct step_prediction *p);

MUST_CHECK enum status bench_step_predict(const struct bench_options *o, const char *gpu);
