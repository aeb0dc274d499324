/* The state of one batch norm operation, and its steps. */
#pragma once

#include "kernels/cpu/bn_shape.h"
#include "kernels/cpu/internal.h"

struct bn_plan {
    struct op_plan base;
    const struct bn_kernels *kernels;
    const struct bn_steps *steps;
    struct bn_shape shape;
    bool stream;           /* stores of results bypass the caches */
    enum element element;  /* of activations */
    bool panel_per_thread; /* false: all threads share each step */
};

/* One execution: the plan, its tensors, and the parts of its workspace. */
struct bn_run {
    const struct bn_plan *plan;
    void *const *arg;
    double *sum[2]; /* (images, channels) */
    double *total;  /* (2 * channels + 1), totals over all ranks (struct bn_sync); NULL: statistics
                     * of this rank alone */
    float *shift;   /* (channels), like the arrays below */
    float *mean, *scale, *bias, *slope;
};

/* The steps of one kind of operation. `shift` and `sums` may be NULL. `gather` writes this rank's
 * sums to the totals; it is NULL for kinds without sums. */
struct bn_steps {
    void (*shift)(const struct bn_run *r, int64_t panel);
    void (*sums)(const struct bn_run *r, int64_t panel, int64_t image);
    void (*gather)(const struct bn_run *r, int64_t panel);
    void (*finish)(const struct bn_run *r, int64_t panel);
    void (*write)(const struct bn_run *r, int64_t panel, int64_t image);
};
extern const struct bn_steps bn_train_steps, bn_eval_steps, bn_apply_steps, bn_backward_steps;
