/* Compares the results of a fused form with those of its unfused parts, on random operands of the
 * problem's own shape. For each fused form cuDNN has one engine, and tests cover small shapes: an
 * engine that is wrong for one shape would otherwise train wrong weights. */
#pragma once

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/op_timer.h"

struct conv_difference {
    /* The largest of the relative differences of the results: |u - v| / |v| in the 2-norm, per
     * channel of a tensor, or over all channels of sums. NaN: a value is not finite. */
    double worst;
    const char *of; /* the result that differs most: "Y" */
};

/* Whether the results are as close as rounding explains: 1/16, or 1/8 in bf16. Most correct results
 * differ by about one unit of the type's roundoff. But where an engine computes a ReLU's mask in
 * fp16, about one value in two thousand, near 0, gets the other sign, which is 2 % in the norm. One
 * wrong tile of 128 rows among 12,544, the fewest of ResNet-50 at batch 256, is a difference of 10
 * %. */
bool conv_difference_is_small(const struct conv_difference *d, enum dtype type);

/* Executes `fused`, a plan of the problem, and its parts: `plain`, a plan of its plain convolution,
 * and own kernels. The operands of both plans are the ports of their forms. STATUS_OOM if the
 * device lacks the memory. */
MUST_CHECK enum status conv_check(struct cuda_device *dev, const struct conv_problem *problem,
                                  const struct timed_work *fused, const struct timed_work *plain,
                                  struct conv_difference *d);

/* The plain form that a fused form contains. */
enum conv_form conv_check_plain(enum conv_form form);
