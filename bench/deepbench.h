/* DeepBench's training problems: its convolutions and its all-reduces.
 *
 * The numbers are from baidu-research/DeepBench at commit da81ba78 (Apache License 2.0):
 * `training_set` of code/kernels/conv_problems.h, and code/kernels/all_reduce_problems.h. */
#pragma once

#include <stdint.h>

enum { DEEPBENCH_CONVS = 94, DEEPBENCH_SUMS = 7 };

/* A convolution of n images of w x h pixels and c channels with k filters of fw x fh. */
struct deepbench_conv {
    int w, h, c, n, k, fw, fh, pad_w, pad_h, stride_w, stride_h;
};
extern const struct deepbench_conv deepbench_conv[DEEPBENCH_CONVS];

/* The sizes of the all-reduces: numbers of fp32 elements. */
extern const int64_t deepbench_sum[DEEPBENCH_SUMS];
