/* Matrix products of given sizes: C = op(A) op(B), as the linear layers of training compute them.
 *
 * A size is DeepBench's (m, n, k, a_t, b_t): column-major matrices, C of m x n, op(A) of m x k,
 * op(B) of k x n, and a_t or b_t says that A or B lies transposed. Seen row by row these are the
 * passes of a linear layer over N rows from I features to O:
 *
 *     forward           m = O, n = N, k = I, A transposed    "TN"
 *     backward data     m = I, n = N, k = O                  "NN"
 *     backward weights  m = I, n = O, k = N, B transposed    "NT"
 *
 * Both transposed ("TT") is no pass of any layer, and unsupported. A convolution of kernel KH x KW
 * is such a layer over all N*OH*OW places of its result, from I/groups * KH * KW features to
 * O/groups, once for each group (im2col): what it would cost as a product.
 *
 * Activations lie as the size says; weights, which are A of TN and NN and C of NT, in the order
 * that the library likes best, as training keeps them: packing them is not timed.
 *
 * After a row's samples the same plan runs on small whole numbers, of which every sum is exact in
 * every type and order, and its result is held against the reference backend's on rows and columns
 * of it, the first and the last among them: all of a small result, and a part of a large one. */
#ifndef BENCH_GEMM_H
#define BENCH_GEMM_H

#include "bench/collective.h"
#include "bench/harness.h"
#include "bench/micro.h"
#include "model/graph.h"

#include <stdio.h>

enum { GEMM_SCHEMA = 1, GEMM_SIZE_MAX = 1 << 24 };

struct gemm_size {
    int m, n, k;
    bool a_t, b_t;
};

/* A size, and where it is from. */
struct gemm_case {
    struct gemm_size size;
    const char *pass;         /* "fwd", "bwd_data", "bwd_weights"; "": of no network */
    char layer[NAME_MAX_LEN]; /* the first layer that has it; "" */
    int count;                /* how often a training step has it */
};

struct gemm_list {
    int n;
    struct gemm_case *item; /* (n) */
};

/* DeepBench's training set (gemm_deepbench.c), or the distinct products of a step of a network: of
 * `batch` images, in the order of its layers. The first layer's input needs no gradient. */
MUST_CHECK enum status gemm_list_deepbench(struct gemm_list *list);
MUST_CHECK enum status gemm_list_net(const struct graph *g, int batch, struct gemm_list *list);
MUST_CHECK enum status gemm_list_one(const struct gemm_size *size, struct gemm_list *list);
void gemm_list_free(struct gemm_list *list);

extern const struct gemm_size gemm_deepbench[];
extern const int gemm_deepbench_n;

/* Multiply-adds counted as two. */
double gemm_flops(const struct gemm_size *s);

/* "TN" ... */
const char *gemm_transposes(const struct gemm_size *s);

/* The operation on tensors of `type` (F32, TF32, F16, BF16), or with `emulated` on fp32 that rounds
 * to it. STATUS_UNSUPPORTED for two transposes. */
MUST_CHECK enum status gemm_describe(const struct gemm_size *s, enum dtype type, bool emulated,
                                     struct op_desc *out);

struct gemm_row {
    const struct gemm_case *what;
    enum dtype type;
    bool emulated; /* the device lacks the type */
    bool measured; /* false: the device has no such operation, or no memory for it */
    char impl[64]; /* what ran; or why nothing did */
    struct harness_result time;
    double flops_per_s;     /* by the median */
    int64_t checked, wrong; /* elements */
};

/* Times and checks one size on a device; `ref` is the reference backend's. STATUS_OK with
 * row->measured false where the operation is unsupported or finds no memory; that results are wrong
 * is no failure. */
MUST_CHECK enum status gemm_measure(const struct harness_config *timing, struct stream *stream,
                                    struct stream *ref, const struct gemm_case *what,
                                    enum dtype type, struct gemm_row *row);

struct gemm_config {
    const char *net; /* NULL: not a network's */
    int batch, image_size;
    bool deepbench;
    struct gemm_size size; /* where neither of them is given */
    bool types[DTYPE_COUNT];
    double max_gflop; /* leave out products of more; 0: none */
    const char *peak; /* file of peaks (roofline.h); NULL: they are measured first */
    const char *devices;
    int threads;
    struct harness_config timing;
    enum bench_format format;
    FILE *out;
};

struct harness_config gemm_timing_default(void);

struct gemm_report {
    const struct gemm_config *config;
    const struct micro *micro;
    int left_out; /* by max_gflop */
    int n;
    const struct gemm_row *row; /* (n) */
};

/* Prints one line of the table or of the CSV, or what comes before all (gemm_report.c). */
void gemm_report_head(const struct gemm_report *r);
void gemm_report_row(const struct gemm_report *r, const struct gemm_row *row);
/* What comes after all; with BENCH_JSON the whole record. */
MUST_CHECK enum status gemm_report_end(const struct gemm_report *r);

/* Measures and prints. STATUS_MISMATCH where a result was wrong, when all is printed. */
MUST_CHECK enum status bench_gemm(const struct gemm_config *c);
#endif
