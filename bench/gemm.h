/* Times matrix products C = op(A) op(B) of given sizes, as linear layers in training compute them.
 *
 * A size is (m, n, k, a_t, b_t): column-major matrices, C of m x n, op(A) of m x k,
 * op(B) of k x n; a_t or b_t says that A or B is stored transposed. If the matrices are read as
 * row-major, the products are the passes of a linear layer for N rows, from I input features to O
 * output features:
 *
 *     forward           m = O, n = N, k = I, A transposed    "TN"
 *     backward data     m = I, n = N, k = O                  "NN"
 *     backward weights  m = I, n = O, k = N, B transposed    "NT"
 *
 * Products of two transposed matrices ("TT") are not supported, because no pass of a layer computes
 * one. A convolution with a kernel of KH x KW is treated as a linear layer (im2col): each of the
 * N*OH*OW pixels of the result is a row, with I/groups * KH * KW input features and O/groups output
 * features, and each group is a product of its own. The convolution costs as much as these
 * products.
 *
 * Activations have the layout that the size gives. Weights (A of TN and NN, C of NT) have the
 * layout that the library prefers, as in training; packing them is not timed.
 *
 * After the samples of a row, the same plan runs on small whole numbers, whose sums are exact in
 * every type and in any order of addition. The result is compared with the result of the reference
 * backend. If the result is small, all its elements are compared. If it is large, only some rows
 * and columns are compared, including the first and the last. */
#pragma once

#include "bench/micro.h"
#include "model/graph.h"

enum { GEMM_SIZE_MAX = 1 << 24 };

struct gemm_size {
    int m, n, k;
    bool a_t, b_t;
};

/* A size, and its origin. */
struct gemm_case {
    struct gemm_size size;
    const char *pass;         /* "fwd", "bwd_data", "bwd_weights"; "": not from a network */
    char layer[NAME_MAX_LEN]; /* the first layer of this size; "": not from a network */
    int count;                /* number of times that a training step computes this product */
};

struct gemm_list {
    int n;
    struct gemm_case *item; /* (n) */
};

/* Lists the distinct products of a network's training step on `batch` images, in the order of the
 * layers, without the gradient of the images. */
MUST_CHECK enum status gemm_list_net(const struct graph *g, int batch, struct gemm_list *list);
void gemm_list_free(struct gemm_list *list);

/* Returns the FLOPs of the product; a multiply-add counts as two. */
double gemm_flops(const struct gemm_size *s);

struct gemm_row {
    const struct gemm_case *what;
    enum dtype type;
    bool emulated; /* the device lacks the type */
    bool measured; /* false if the device lacks the operation or the memory for it */
    char impl[64]; /* name of the implementation, or the reason why the row was not measured */
    struct harness_result time;
    double flops_per_s;     /* from the median time */
    int64_t checked, wrong; /* elements */
};

/* Times and checks one size on a device. `ref` is the reference backend's stream. If the operation
 * is not supported or there is not enough memory for it, returns STATUS_OK and sets row->measured
 * to false. Wrong results are not a failure here: the row counts them. */
MUST_CHECK enum status gemm_measure(const struct harness_config *timing, struct stream *stream,
                                    struct stream *ref, const struct gemm_case *what,
                                    enum dtype type, struct gemm_row *row);

struct gemm_config {
    struct bench_options options; /* .net: a network whose products are measured; NULL: none */
    struct gemm_size size;        /* used if there is no .net */
    bool types[DTYPE_COUNT];
    double max_gflop; /* products of more GFLOP than this are left out; 0: no limit */
};

/* Measures and prints. Afterwards returns STATUS_MISMATCH if a result was wrong. */
MUST_CHECK enum status bench_gemm(const struct gemm_config *c);
