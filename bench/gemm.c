/* Times matrix products, and compares their results with the results of the reference backend. */
#include "bench/gemm.h"

#include "base/array.h"
#include "base/json.h"
#include "bench/record.h"
#include "bench/timed_op.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* The largest number of multiply-adds that the reference computes to check one row of the report.
 * They take some tens of milliseconds. */
#define CHECK_BUDGET ((int64_t)1 << 24)

/* --- describing a product as an operation --- */

/* The operation that computes a product, and the roles of A, B and C in it. */
struct gemm_roles {
    enum op_kind kind;
    enum role a, b, c;
};

static struct gemm_roles roles_of(const struct gemm_size *s)
{
    if (s->a_t)
        return (struct gemm_roles){OP_LINEAR_FWD, ROLE_W, ROLE_X, ROLE_Y};
    if (s->b_t)
        return (struct gemm_roles){OP_LINEAR_BWD_WEIGHTS, ROLE_X, ROLE_DY, ROLE_DW};
    return (struct gemm_roles){OP_LINEAR_BWD_DATA, ROLE_W, ROLE_DY, ROLE_DX};
}

/* Describes a column-major matrix of rows x cols as a row-major matrix. */
static struct tensor_desc matrix(int rows, int cols, bool transposed)
{
    return transposed ? tensor_2d(DTYPE_F32, rows, cols) : tensor_2d(DTYPE_F32, cols, rows);
}

static void set_type(struct tensor_desc *t, enum dtype type, bool emulated)
{
    if (emulated)
        t->rounds = type;
    else
        *t = timed_op_typed(*t, type, true);
}

/* Describes the operation on tensors of `type` (F32, TF32, F16, BF16). If `emulated`, the tensors
 * are fp32 and their values are rounded to `type`. */
static enum status gemm_describe(const struct gemm_size *s, enum dtype type, bool emulated,
                                 struct op_desc *out)
{
    if (s->a_t && s->b_t)
        return status_fail(STATUS_UNSUPPORTED, "products of two transposed matrices are not "
                                               "supported: no pass of a layer computes one");
    struct gemm_roles r = roles_of(s);
    *out = (struct op_desc){.kind = r.kind};
    out->t[r.a] = matrix(s->m, s->k, s->a_t);
    out->t[r.b] = matrix(s->k, s->n, s->b_t);
    out->t[r.c] = matrix(s->m, s->n, false);
    set_type(&out->t[r.a], type, emulated);
    set_type(&out->t[r.b], type, emulated);
    if (r.c != ROLE_DW && type != DTYPE_TF32) /* gradients of weights are fp32 */
        set_type(&out->t[r.c], type, emulated);
    struct tensor_desc *weights = &out->t[r.c == ROLE_DW ? r.c : r.a];
    weights->layout = LAYOUT_ANY; /* the library chooses it */
    weights->bytes = 0;
    return STATUS_OK;
}

/* --- check --- */

/* Matrices in host memory, row-major, in the shapes of the operation. */
struct matrices {
    float *a, *b, *c;
};

static enum status matrices_new(const struct gemm_size *s, struct matrices *m)
{
    TRY(array_new(&m->a, (int64_t)s->m * s->k));
    TRY(array_new(&m->b, (int64_t)s->k * s->n));
    return array_new(&m->c, (int64_t)s->m * s->n);
}

static void matrices_free(struct matrices *m)
{
    free(m->a);
    free(m->b);
    free(m->c);
}

/* Fills x with whole numbers from -4 to 4. */
static void draw_whole(float *x, int64_t n, uint32_t bits)
{
    for (int64_t i = 0; i < n; i++) {
        bits = bits * 1664525u + 1013904223u;
        x[i] = (float)((int)((bits >> 16) % 9) - 4);
    }
}

/* Returns index number i, counted from 0, of `count` indices at equal distances. The first index is
 * 0, and the last index is `of` - 1. */
static int64_t place(int64_t i, int64_t count, int64_t of)
{
    return count > 1 ? i * (of - 1) / (count - 1) : 0;
}

/* Copies rows of a matrix, or columns if `rows` is false, at equal distances. The matrix has `all`
 * rows (columns) of k elements. The number of copied rows (columns) is `some`. */
static void pick(const float *from, int all, int k, bool rows, int some, float *to)
{
    for (int64_t i = 0; i < some; i++) {
        int64_t at = place(i, some, all);
        for (int64_t j = 0; j < k; j++)
            to[rows ? i * k + j : j * some + i] = from[rows ? at * k + j : j * all + at];
    }
}

/* Returns the size of the part of the result that is checked, with as many rows and columns as
 * CHECK_BUDGET allows. */
static struct gemm_size part_of(const struct gemm_size *s)
{
    struct gemm_size part = *s;
    int64_t pairs = CHECK_BUDGET / s->k > 4 ? CHECK_BUDGET / s->k : 4;
    int64_t n = (int64_t)sqrt((double)pairs);
    n = n < s->n ? n : s->n;
    int64_t m = pairs / n < s->m ? pairs / n : s->m;
    n = pairs / m < s->n ? pairs / m : s->n;
    part.m = (int)m;
    part.n = (int)n;
    return part;
}

static enum status execute(struct timed_op *t, const struct gemm_size *s, struct matrices *m)
{
    struct gemm_roles r = roles_of(s);
    TRY(timed_op_put(t, r.a, m->a));
    TRY(timed_op_put(t, r.b, m->b));
    TRY(timed_op_warm(t));
    return timed_op_get(t, r.c, m->c);
}

static enum status gemm_reference(struct stream *ref, const struct gemm_size *part,
                                  struct matrices *m)
{
    struct op_desc d;
    struct timed_op t = {0};
    enum status st;
    CHECK(gemm_describe(part, DTYPE_F32, false, &d));
    CHECK(timed_op_open(&t, ref, &d));
    CHECK(execute(&t, part, m));
done:
    timed_op_close(&t);
    return st;
}

/* Counts the elements of the checked part that differ from the reference. The reference is rounded
 * to the type of `c` first. */
static int64_t count_wrong(const struct gemm_size *s, const struct matrices *got,
                           const struct gemm_size *part, const struct matrices *want,
                           const struct tensor_desc *c)
{
    enum dtype holds = c->type == DTYPE_F32 ? c->rounds : c->type;
    int64_t wrong = 0;
    for (int64_t i = 0; i < part->n; i++) {
        for (int64_t j = 0; j < part->m; j++) {
            float w = want->c[i * part->m + j];
            float g = got->c[place(i, part->n, s->n) * s->m + place(j, part->m, s->m)];
            wrong += (c->raw ? dtype_round(holds, g) : g) != dtype_round(holds, w);
        }
    }
    return wrong;
}

static enum status gemm_check(struct timed_op *t, struct stream *ref, struct gemm_row *row)
{
    const struct gemm_size *s = &row->what->size;
    struct gemm_size part = part_of(s);
    struct matrices all = {0}, some = {0};
    enum status st;
    CHECK(matrices_new(s, &all));
    CHECK(matrices_new(&part, &some));
    draw_whole(all.a, (int64_t)s->m * s->k, 1);
    draw_whole(all.b, (int64_t)s->k * s->n, 2);
    CHECK(execute(t, s, &all));
    pick(all.a, s->m, s->k, s->a_t, part.m, some.a);
    pick(all.b, s->n, s->k, !s->b_t, part.n, some.b);
    CHECK(gemm_reference(ref, &part, &some));
    row->checked = (int64_t)part.m * part.n;
    row->wrong = count_wrong(s, &all, &part, &some, &t->plan->desc.t[roles_of(s).c]);
done:
    matrices_free(&all);
    matrices_free(&some);
    return st;
}

/* --- measurement --- */

/* Whether the host has memory for the matrices and for the copies that the check uses. Always true
 * for an asynchronous device, because it has its own memory. If the matrices do not fit there,
 * their allocation fails. */
static bool has_memory(struct device *dev, const struct gemm_size *s)
{
    double elements = (double)s->m * s->k + (double)s->k * s->n + (double)s->m * s->n;
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return dev->backend->asynchronous || 4 * sizeof(float) * elements < memory;
}

enum status gemm_measure(const struct harness_config *timing, struct stream *stream,
                         struct stream *ref, const struct gemm_case *what, enum dtype type,
                         struct gemm_row *row)
{
    struct op_desc d;
    struct timed_op t = {0};
    struct device *dev = stream->device;
    enum status st;
    *row = (struct gemm_row){.what = what, .type = type, .emulated = !device_native(dev, type)};
    if (!has_memory(dev, &what->size)) {
        snprintf(row->impl, sizeof row->impl, "more than this machine's memory");
        return STATUS_OK;
    }
    CHECK(gemm_describe(&what->size, type, row->emulated, &d));
    CHECK(timed_op_open(&t, stream, &d));
    snprintf(row->impl, sizeof row->impl, "%s", t.plan->impl);
    CHECK(harness_run(timing, timed_op_time, &t, &row->time));
    row->measured = true;
    row->flops_per_s = gemm_flops(&what->size) / row->time.median;
    CHECK(gemm_check(&t, ref, row));
done:
    timed_op_close(&t);
    if ((st == STATUS_UNSUPPORTED || st == STATUS_OOM) && !row->measured) {
        snprintf(row->impl, sizeof row->impl, "%s", status_message());
        return STATUS_OK;
    }
    return st;
}

/* --- printing --- */

struct gemm_bench {
    const struct gemm_config *config;
    struct micro micro;
    struct graph *graph;
    struct gemm_list list;
    int left_out; /* number of sizes left out because their products exceed max_gflop */
    struct bench_table table;
    int64_t wrong;
};

static void gemm_columns(struct bench_table *t, const void *row)
{
    static const char *const transposed[2][2] = {{"NN", "NT"}, {"TN", "TT"}};
    const struct gemm_row *w = row;
    const struct gemm_case *c = w->what;
    const struct gemm_bench *b = t->context;
    double flops = gemm_flops(&c->size);
    /* `share` is the throughput divided by the device's peak in the type in which the device
     * multiplies; NaN: the peak was not measured. */
    double peak = b->micro.peaks.flops_per_s[w->emulated ? DTYPE_F32 : w->type];
    double share = peak > 0 ? w->flops_per_s / peak : NAN;
    char type[32];
    snprintf(type, sizeof type, "%s%s", dtype_str(w->type), w->emulated ? " emulated" : "");
    column_text(t, "layer", "layer", -22, c->layer);
    column_text(t, "pass", "pass", -11, c->pass);
    column_int(t, "count", "count", 5, c->count);
    column_int(t, "m", "m", 7, c->size.m);
    column_int(t, "n", "n", 7, c->size.n);
    column_int(t, "k", "k", 8, c->size.k);
    column_bool(t, "a_t", c->size.a_t);
    column_bool(t, "b_t", c->size.b_t);
    column_text(t, NULL, "op", 2, transposed[c->size.a_t][c->size.b_t]);
    column_text(t, "type", NULL, 0, dtype_str(w->type));
    column_bool(t, "emulated", w->emulated);
    column_text(t, NULL, "type", -13, type);
    column_json(t, "flops", json_finite(flops));
    column_real(t, NULL, "GFLOP", 9, 4, 1e-9, flops);
    column_json(t, "measured", json_boolean(w->measured));
    if (!w->measured)
        column_json(t, "reason", json_utf8(w->impl));
    t->absent = !w->measured;
    harness_columns(t, "n", &w->time);
    column_real(t, NULL, "ms", 10, 4, 1e3, w->time.median);
    column_real(t, "gflops", "GFLOP/s", 9, 1, 1, w->flops_per_s * 1e-9);
    t->absent = !w->measured || isnan(share);
    column_real(t, "share", "share", 5, 2, 1, share);
    t->absent = !w->measured;
    column_int(t, "checked", "checked", 8, w->checked);
    column_int(t, "wrong", "#wrong", 6, w->wrong);
    column_text(t, "impl", NULL, 0, w->impl);
    t->absent = false;
    column_text(t, NULL, "implementation", 0, w->impl);
    column_noise(t, w->measured ? &w->time.noise : NULL, w->measured ? share : NAN);
}

static void gemm_report_begin(struct gemm_bench *b)
{
    static const struct gemm_case none = {.pass = ""};
    static const struct gemm_row blank = {.what = &none};
    const struct bench_options *o = &b->config->options;
    if (o->format == BENCH_TEXT && o->net)
        fprintf(o->out, "%s, %d px, batch %d on ", o->net, o->image_size, o->batch);
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s\n", b->micro.about);
    b->table = bench_table_of(o, gemm_columns, b);
    bench_table_open(&b->table, &blank);
}

static json_t *gemm_sizes_json(const struct gemm_config *c)
{
    const struct bench_options *o = &c->options;
    if (o->net)
        return json_new("{s:s, s:i, s:i}", "net", o->net, "batch", o->batch, "image_size",
                        o->image_size);
    return json_string("given");
}

static enum status gemm_report_end(struct gemm_bench *b)
{
    const struct gemm_config *c = b->config;
    const struct bench_head head = {"gemm", 1, b->micro.about, b->micro.dev->threads};
    if (c->options.format == BENCH_TEXT && b->left_out > 0)
        fprintf(c->options.out, "\n%d sizes of more than %g GFLOP were left out\n", b->left_out,
                c->max_gflop);
    return bench_record_rows(&head,
                             json_new("{s:o, s:f, s:i, s:o}", "sizes", gemm_sizes_json(c),
                                      "max_gflop", c->max_gflop, "left_out", b->left_out, "peaks",
                                      peaks_json(&b->micro.peaks)),
                             "rows", &b->table);
}

/* --- the benchmark --- */

static enum status open_list(struct gemm_bench *b)
{
    const struct gemm_config *c = b->config;
    const struct bench_options *o = &c->options;
    if (!o->net) {
        TRY(array_new(&b->list.item, 1));
        b->list.item[b->list.n++] = (struct gemm_case){.size = c->size, .pass = "", .count = 1};
        return STATUS_OK;
    }
    TRY(graph_build(o->net, 1000, o->image_size, &b->graph));
    return gemm_list_net(b->graph, o->batch, &b->list);
}

/* Measures a size in every requested type. */
static enum status measure_case(struct gemm_bench *b, const struct gemm_case *what)
{
    const struct gemm_config *c = b->config;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        struct gemm_row row;
        if (!c->types[type])
            continue;
        TRY(gemm_measure(&c->options.timing, b->micro.stream, b->micro.ref, what, (enum dtype)type,
                         &row));
        b->wrong += row.wrong;
        bench_table_row(&b->table, &row);
    }
    return STATUS_OK;
}

static bool is_left_out(const struct gemm_bench *b, const struct gemm_case *what)
{
    double most = b->config->max_gflop * 1e9;
    return most > 0 && gemm_flops(&what->size) > most;
}

static enum status measure_all(struct gemm_bench *b)
{
    int types = 0;
    for (int i = 0; i < b->list.n; i++)
        b->left_out += is_left_out(b, &b->list.item[i]);
    for (int type = 0; type < DTYPE_COUNT; type++)
        types += b->config->types[type];
    gemm_report_begin(b);
    bar_begin(b->config->options.timing.bar, (int64_t)types * (b->list.n - b->left_out));
    for (int i = 0; i < b->list.n; i++)
        if (!is_left_out(b, &b->list.item[i]))
            TRY(measure_case(b, &b->list.item[i]));
    return gemm_report_end(b);
}

enum status bench_gemm(const struct gemm_config *c)
{
    struct gemm_bench b = {.config = c};
    enum status st;
    CHECK(open_list(&b));
    CHECK(micro_open(c->options.devices, c->options.threads, &b.micro));
    CHECK(micro_peaks(&b.micro, c->options.peak, MICRO_PEAK_ROUNDS));
    CHECK(measure_all(&b));
    st = harness_wrong(b.wrong, "elements of products are wrong");
done:
    bench_table_close(&b.table);
    micro_close(&b.micro);
    gemm_list_free(&b.list);
    graph_free(b.graph);
    return st;
}
