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
    float *buffer[3]; /* A, B and C of dnnl_sgemm */
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

static void add_arg(struct bench *b, struct direct *d, int arg, dnnl_primitive_desc_t pd,
                    dnnl_query_t query)
{
    dnnl_memory_t mem;
    struct md m = {0};
    must_ok(md_query(&m, pd, query));
    float *x = buffer_new(md_bytes(&m));
    must_ok(memory_make(&mem, &m, b->engine));
    must(dnnl_memory_set_data_handle(mem, x), "no memory handle");
    d->arg[d->n_args++] = (dnnl_exec_arg_t){arg, mem};
    md_free(&m);
}

/* A tensor in a layout, or in one that the library chooses. */
struct shape {
    int n;
    dnnl_dims_t dims;
    dnnl_format_tag_t tag;
};

/* Creates a primitive, and allocates its tensors in the layouts that the primitive chose. */
static void add_primitive(struct bench *b, struct direct *d, struct gemm_like g,
                          const struct shape shape[3])
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
    struct md md[3] = {0};
    for (int i = 0; i < 3; i++)
        must_ok(md_make(&md[i], shape[i].n, shape[i].dims, dnnl_f32, shape[i].tag));
    g.src = &md[0];
    g.weights = &md[1];
    g.dst = &md[2];
    enum status st = pd_make(&pd, b->engine, &g);
    for (int i = 0; i < 3; i++)
        md_free(&md[i]);
    d->missing = st == STATUS_UNSUPPORTED;
    if (d->missing)
        return;
    must_ok(st);
    must(dnnl_primitive_create(&d->primitive, pd), "no primitive");
    const char *impl;
    must(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&impl), "no name");
    snprintf(d->impl, sizeof d->impl, "%s", impl);
    for (int i = 0; i < 3; i++)
        add_arg(b, d, use[g.pass][i].arg, pd, use[g.pass][i].query);
    add_arg(b, d, DNNL_ARG_SCRATCHPAD, pd, dnnl_query_scratchpad_md);
    dnnl_primitive_desc_destroy(pd);
}

static void add_product(struct bench *b, struct direct *d)
{
    /* shapes (rows, in), (out, in), (rows, out), or their transposes; see bench/gemm.h */
    enum pass pass = d->a_t ? PASS_FORWARD : d->b_t ? PASS_BACKWARD_WEIGHTS : PASS_BACKWARD_DATA;
    long rows = pass == PASS_BACKWARD_WEIGHTS ? d->k : d->n;
    long in = pass == PASS_FORWARD ? d->k : d->m;
    long out = pass == PASS_FORWARD ? d->m : pass == PASS_BACKWARD_DATA ? d->k : d->n;
    const struct shape shape[] = {
        {2, {rows, in}, dnnl_ab}, {2, {out, in}, dnnl_format_tag_any}, {2, {rows, out}, dnnl_ab}};
    add_primitive(b, d, (struct gemm_like){.pass = pass}, shape);
}

static void add_conv(struct bench *b, struct direct *d, const long *v)
{
    long n = v[1], c = v[2], h = v[3], w = v[4], o = v[5], kh = v[6], kw = v[7];
    long stride = v[8], pad = v[9], groups = v[10];
    long oh = (h + 2 * pad - kh) / stride + 1, ow = (w + 2 * pad - kw) / stride + 1;
    const dnnl_format_tag_t any = dnnl_format_tag_any;
    const struct shape weights =
        groups > 1 ? (struct shape){5, {groups, o / groups, c / groups, kh, kw}, any}
                   : (struct shape){4, {o, c, kh, kw}, any};
    const struct shape shape[] = {{4, {n, c, h, w}, any}, weights, {4, {n, o, oh, ow}, any}};
    add_primitive(b, d,
                  (struct gemm_like){.pass = (enum pass)v[0],
                                     .is_conv = true,
                                     .stride = {stride, stride},
                                     .pad = {pad, pad}},
                  shape);
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
