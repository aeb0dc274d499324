/* Executes operations with oneDNN directly, for bench_peers.py.
 *
 * usage: onednn_direct THREADS ROUNDS, with a line for each operation on standard input:
 *
 *     gemm M N K A_T B_T                        dnnl_sgemm on plain matrices
 *     product M N K A_T B_T                     the same by an inner product, weights in any layout
 *     conv PASS N C H W O KH KW STRIDE PAD GROUPS    PASS 0 forward, 1 data, 2 weights; any layouts
 *
 * The sizes of products are those of column-major matrices, as in `ampscale bench gemm`. Each
 * operation has its own memory. Executes all operations once to warm up. Then executes ROUNDS
 * rounds; each round executes every operation once. Prints a line for each operation: its median
 * time in seconds, and the implementation that oneDNN chose. If oneDNN does not have the operation,
 * prints "none -". All data is fp32. */
#include "base/clock.h"
#include "kernels/cpu/onednn_compat.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 512, ROUNDS_MAX = 1000, BUFFERS = 4 };

struct direct {
    bool missing; /* from the library */
    char impl[64];
    dnnl_primitive_t primitive; /* NULL: dnnl_sgemm */
    dnnl_exec_arg_t arg[BUFFERS];
    int n_args;
    long m, n, k;
    bool a_t, b_t;
    float *buffer[BUFFERS]; /* A, B and C of dnnl_sgemm */
    double seconds[ROUNDS_MAX];
};

struct bench {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int n;
    struct direct op[OPS_MAX];
};

static void die(const char *what)
{
    fprintf(stderr, "onednn_direct: %s\n", what);
    exit(1);
}

static void must(dnnl_status_t s, const char *what)
{
    if (s != dnnl_success)
        die(what);
}

static void must_ok(enum status st)
{
    if (st != STATUS_OK)
        die(status_message());
}

/* Allocates memory at a page boundary, and fills it with random numbers between -1 and 1. */
static float *buffer_new(size_t bytes)
{
    size_t size = (bytes + 4095) / 4096 * 4096;
    float *x = aligned_alloc(4096, size ? size : 4096);
    if (!x)
        die("no memory");
    uint32_t bits = 1;
    for (size_t i = 0; i < size / sizeof *x; i++) {
        bits = bits * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)bits * 0x1p-31f;
    }
    return x;
}

/* --- products --- */

static void add_sgemm(struct direct *d)
{
    snprintf(d->impl, sizeof d->impl, "dnnl_sgemm");
    d->buffer[0] = buffer_new(sizeof(float) * (size_t)(d->m * d->k));
    d->buffer[1] = buffer_new(sizeof(float) * (size_t)(d->k * d->n));
    d->buffer[2] = buffer_new(sizeof(float) * (size_t)(d->m * d->n));
}

/* dnnl_sgemm expects row-major matrices. In row-major order, the column-major product is its
 * transpose, op(B)' op(A)', of shape n x m. */
static void run_sgemm(const struct direct *d)
{
    must(dnnl_sgemm(d->b_t ? 'T' : 'N', d->a_t ? 'T' : 'N', d->n, d->m, d->k, 1, d->buffer[1],
                    d->b_t ? d->n : d->k, d->buffer[0], d->a_t ? d->k : d->m, 0, d->buffer[2],
                    d->m),
         "dnnl_sgemm failed");
}

static void add_arg(struct bench *b, struct direct *d, int arg, const struct md *m)
{
    dnnl_memory_t mem;
    float *x = buffer_new(md_bytes(m));
    must_ok(memory_make(&mem, m, b->engine));
    must(dnnl_memory_set_data_handle(mem, x), "no memory handle");
    d->buffer[d->n_args] = x;
    d->arg[d->n_args++] = (dnnl_exec_arg_t){arg, mem};
}

/* Creates a primitive, and allocates its tensors in the layouts that the primitive chose. */
static void add_primitive(struct bench *b, struct direct *d, const struct gemm_like *g)
{
    static const struct {
        int arg;
        dnnl_query_t query;
    } use[3][3] = {{{DNNL_ARG_SRC, dnnl_query_src_md},
                    {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                    {DNNL_ARG_DST, dnnl_query_dst_md}},
                   {{DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md},
                    {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                    {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}},
                   {{DNNL_ARG_SRC, dnnl_query_src_md},
                    {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md},
                    {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}}};
    dnnl_primitive_desc_t pd;
    struct md m;
    enum status st = pd_make(&pd, b->engine, g);
    d->missing = st == STATUS_UNSUPPORTED;
    if (d->missing)
        return;
    must_ok(st);
    must(dnnl_primitive_create(&d->primitive, pd), "no primitive");
    const char *impl;
    must(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&impl), "no name");
    snprintf(d->impl, sizeof d->impl, "%s", impl);
    for (int i = 0; i < 3; i++) {
        memset(&m, 0, sizeof m);
        must_ok(md_query(&m, pd, use[g->pass][i].query));
        add_arg(b, d, use[g->pass][i].arg, &m);
        md_free(&m);
    }
    memset(&m, 0, sizeof m);
    must_ok(md_query(&m, pd, dnnl_query_scratchpad_md));
    add_arg(b, d, DNNL_ARG_SCRATCHPAD, &m);
    md_free(&m);
    dnnl_primitive_desc_destroy(pd);
}

static void add_product(struct bench *b, struct direct *d)
{
    /* shapes (rows, in), (out, in), (rows, out), or their transposes; see bench/gemm.h */
    enum pass pass = d->a_t ? PASS_FORWARD : d->b_t ? PASS_BACKWARD_WEIGHTS : PASS_BACKWARD_DATA;
    long rows = pass == PASS_BACKWARD_WEIGHTS ? d->k : d->n;
    long in = pass == PASS_FORWARD ? d->k : d->m;
    long out = pass == PASS_FORWARD ? d->m : pass == PASS_BACKWARD_DATA ? d->k : d->n;
    struct md src, weights, dst;
    memset(&src, 0, sizeof src);
    memset(&weights, 0, sizeof weights);
    memset(&dst, 0, sizeof dst);
    must_ok(md_make(&src, 2, (dnnl_dims_t){rows, in}, dnnl_f32, dnnl_ab));
    must_ok(md_make(&weights, 2, (dnnl_dims_t){out, in}, dnnl_f32, dnnl_format_tag_any));
    must_ok(md_make(&dst, 2, (dnnl_dims_t){rows, out}, dnnl_f32, dnnl_ab));
    const struct gemm_like g = {.pass = pass, .src = &src, .weights = &weights, .dst = &dst};
    add_primitive(b, d, &g);
    md_free(&src);
    md_free(&weights);
    md_free(&dst);
}

/* --- convolutions --- */

static void add_conv(struct bench *b, struct direct *d, const long *v)
{
    long n = v[1], c = v[2], h = v[3], w = v[4], o = v[5], kh = v[6], kw = v[7];
    long stride = v[8], pad = v[9], groups = v[10];
    long oh = (h + 2 * pad - kh) / stride + 1, ow = (w + 2 * pad - kw) / stride + 1;
    struct md src, weights, dst;
    memset(&src, 0, sizeof src);
    memset(&weights, 0, sizeof weights);
    memset(&dst, 0, sizeof dst);
    must_ok(md_make(&src, 4, (dnnl_dims_t){n, c, h, w}, dnnl_f32, dnnl_format_tag_any));
    must_ok(md_make(&dst, 4, (dnnl_dims_t){n, o, oh, ow}, dnnl_f32, dnnl_format_tag_any));
    if (groups > 1)
        must_ok(md_make(&weights, 5, (dnnl_dims_t){groups, o / groups, c / groups, kh, kw},
                        dnnl_f32, dnnl_format_tag_any));
    else
        must_ok(md_make(&weights, 4, (dnnl_dims_t){o, c, kh, kw}, dnnl_f32, dnnl_format_tag_any));
    const struct gemm_like g = {.pass = (enum pass)v[0],
                                .src = &src,
                                .weights = &weights,
                                .dst = &dst,
                                .is_conv = true,
                                .stride = {stride, stride},
                                .pad = {pad, pad}};
    add_primitive(b, d, &g);
    md_free(&src);
    md_free(&weights);
    md_free(&dst);
}

/* --- all operations --- */

static void read_ops(struct bench *b)
{
    char kind[16];
    while (scanf("%15s", kind) == 1) {
        long v[11] = {0};
        int wanted = strcmp(kind, "conv") == 0 ? 11 : 5;
        for (int i = 0; i < wanted; i++)
            if (scanf("%ld", &v[i]) != 1 || v[i] < 0)
                die("an operation is not complete");
        if (b->n == OPS_MAX)
            die("too many operations");
        struct direct *d = &b->op[b->n++];
        d->m = v[0];
        d->n = v[1];
        d->k = v[2];
        d->a_t = v[3] != 0;
        d->b_t = v[4] != 0;
        if (strcmp(kind, "conv") == 0)
            add_conv(b, d, v);
        else if (strcmp(kind, "product") == 0)
            add_product(b, d);
        else if (strcmp(kind, "gemm") == 0)
            add_sgemm(d);
        else
            die("there is no such operation");
    }
}

static double run(const struct bench *b, const struct direct *d)
{
    uint64_t begun = clock_ns();
    if (d->primitive) {
        must(dnnl_primitive_execute(d->primitive, b->stream, d->n_args, d->arg), "cannot execute");
        must(dnnl_stream_wait(b->stream), "cannot wait");
    } else {
        run_sgemm(d);
    }
    return (double)(clock_ns() - begun) * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    struct bench *b = calloc(1, sizeof *b);
    if (!b || rounds < 1 || rounds > ROUNDS_MAX)
        die("usage: onednn_direct THREADS ROUNDS");
    omp_set_num_threads(atoi(argv[1]));
    must(dnnl_engine_create(&b->engine, dnnl_cpu, 0), "no engine");
    must(dnnl_stream_create(&b->stream, b->engine, dnnl_stream_default_flags), "no stream");
    read_ops(b);
    for (int r = -1; r < rounds; r++) /* one more warms up */
        for (int i = 0; i < b->n; i++)
            if (!b->op[i].missing) {
                double s = run(b, &b->op[i]);
                b->op[i].seconds[r < 0 ? 0 : r] = s;
            }
    for (int i = 0; i < b->n; i++) {
        qsort(b->op[i].seconds, (size_t)rounds, sizeof(double), by_value);
        if (b->op[i].missing)
            puts("none -");
        else
            printf("%.9g %s\n", b->op[i].seconds[rounds / 2], b->op[i].impl);
    }
    return 0;
}
