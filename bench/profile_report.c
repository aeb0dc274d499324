/* Prints a profile as tables, and makes the profile's JSON record. */
#include "bench/profile.h"

#include "base/json.h"
#include "bench/record.h"

#include <math.h>
#include <string.h>

/* --- columns --- */

static void profile_sum_columns(struct bench_table *t, const char *count,
                                const struct profile_sum *s)
{
    const struct profile *p = t->context;
    column_int(t, count, "n", 5, s->n);
    column_real(t, "time_us", "us", 10, 1, 1, s->seconds * 1e6);
    column_real(t, NULL, "part %", 6, 1, 100, s->seconds / p->all.seconds);
    column_real(t, "dram_bytes", "MiB", 10, 2, 0x1p-20, s->bytes);
    column_real(t, NULL, "GB/s", 8, 1, 1e-9, s->bytes / s->seconds);
    column_real(t, "tensor_share", "tensor", 6, 2, 1, s->tensor);
    column_real(t, "dram_share", "dram", 6, 2, 1, s->dram);
}

static void profile_kernel_columns(struct bench_table *t, const void *row)
{
    const struct profile_row *r = row;
    char cut[60];
    snprintf(cut, sizeof cut, "%s", r->name);
    column_text(t, "name", NULL, 0, r->name);
    column_text(t, NULL, "kernel", -59, cut);
    profile_sum_columns(t, "count", &r->sum);
    column_text(t, "phase", "phase", -8, r->phase);
    t->absent = r->registers < 0;
    column_int(t, "registers", "regs", 4, r->registers);
}

static void profile_total_columns(struct bench_table *t, const void *row)
{
    const struct profile_op *o = row;
    profile_sum_columns(t, o->layer ? "kernels" : "count", &o->sum);
    column_real(t, "bytes", "least MiB", 10, 2, 0x1p-20, o->bytes);
    column_real(t, "flops", "GFLOP", 9, 2, 1e-9, o->flops);
    column_real(t, "bound_us", "bound us", 10, 1, 1, o->bound_s * 1e6);
}

static void profile_op_columns(struct bench_table *t, const void *row)
{
    const struct profile_op *o = row;
    char name[33];
    snprintf(name, sizeof name, "%s, %s", o->op, o->phase);
    column_text(t, NULL, "operation", -32, name);
    column_text(t, "layer", NULL, 0, o->layer);
    column_text(t, "phase", NULL, 0, o->phase);
    column_text(t, "op", NULL, 0, o->op);
    column_text(t, "impl", NULL, 0, o->impl);
    column_text(t, "bound", NULL, 0, o->bound);
    profile_total_columns(t, o);
    column_real(t, NULL, "share", 6, 2, 1, o->sum.n ? o->bound_s / o->sum.seconds : NAN);
}

static struct bench_table profile_table(const struct profile *p, enum bench_format format,
                                        void (*columns)(struct bench_table *t, const void *row))
{
    return (struct bench_table){
        .format = format, .out = p->options->out, .columns = columns, .context = p};
}

/* --- tables --- */

static bool is_alike(const struct profile_op *a, const struct profile_op *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->phase, b->phase) == 0;
}

static void add_op(struct profile_op *sum, const struct profile_op *o)
{
    if (o->sum.n)
        profile_add(&sum->sum, &o->sum);
    sum->bytes += o->bytes;
    sum->flops += o->flops;
    sum->bound_s += o->bound_s;
}

/* Prints a row for each kind of operation in each phase: sums over these operations, with their
 * bytes and FLOPs. */
static void print_kinds(const struct profile *p)
{
    struct bench_table t = profile_table(p, BENCH_TEXT, profile_op_columns);
    bench_table_open(&t, p->op);
    for (int i = 0; i < p->n_ops; i++) {
        struct profile_op sum = {.op = p->op[i].op, .phase = p->op[i].phase, .layer = ""};
        int first = 0;
        while (!is_alike(&p->op[first], &p->op[i]))
            first++;
        if (first < i)
            continue;
        for (int k = i; k < p->n_ops; k++)
            if (is_alike(&p->op[k], &sum))
                add_op(&sum, &p->op[k]);
        bench_table_row(&t, &sum);
    }
}

void profile_print(const struct profile *p)
{
    const struct bench_options *o = p->options;
    const struct profile_row all = {"all", "", -1, p->all};
    char why[NOISE_TEXT_MAX];
    struct bench_table t = profile_table(p, BENCH_TEXT, profile_kernel_columns);
    fprintf(o->out, "%s, %d px, batch %d, %s, on %s; %s\n\n", o->net, o->image_size, o->batch,
            bench_precision(o), json_text_or(p->step, "device", "?"), p->tool);
    bench_table_rows(&t, p->row, p->n_rows, sizeof *p->row);
    bench_table_row(&t, &all);
    fprintf(o->out, "%s%s\n", host_noise_judge(&p->noise, why) ? "disturbed: " : "", why);
    if (p->attributed)
        print_kinds(p);
    else
        fprintf(o->out, "The kernels are not assigned to operations, because the marks that ncu "
                        "lists do not match the step's operations.\n");
}

/* --- the record --- */

enum status profile_json(const struct profile *p, json_t **record)
{
    const struct bench_options *o = p->options;
    const struct bench_head head = {"profile", 1, json_text_or(p->step, "device", "?"), o->threads};
    struct bench_table kernels = profile_table(p, BENCH_JSON, profile_kernel_columns);
    struct bench_table ops = profile_table(p, BENCH_JSON, profile_op_columns);
    struct bench_table totals = profile_table(p, BENCH_JSON, profile_total_columns);
    struct profile_op all = {.sum = p->all};
    json_t *rows[3] = {NULL};
    enum status st;
    for (int i = 0; i < p->n_ops; i++) {
        all.bytes += p->op[i].bytes;
        all.flops += p->op[i].flops;
        all.bound_s += p->op[i].bound_s;
    }
    bench_table_rows(&kernels, p->row, p->n_rows, sizeof *p->row);
    bench_table_rows(&ops, p->op, p->attributed ? p->n_ops : 0, sizeof *p->op);
    bench_table_rows(&totals, &all, 1, sizeof all);
    CHECK(bench_table_take(&kernels, &rows[0]));
    CHECK(bench_table_take(&ops, &rows[1]));
    CHECK(bench_table_take(&totals, &rows[2]));
    st = bench_record(
        &head,
        json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:o, s:O, s:O, s:O, s:O?}", "net", o->net,
                  "batch", o->batch, "image_size", o->image_size, "precision", bench_precision(o),
                  "fuse", fuse_str(o->fuse), "tool", p->tool, "attributed", p->attributed, "noise",
                  host_noise_json(&p->noise), "kernels", rows[0], "operations", rows[1], "totals",
                  json_array_get(rows[2], 0), "peaks", json_object_get(p->step, "peaks")),
        record);
done:
    for (int i = 0; i < 3; i++)
        json_decref(rows[i]);
    bench_table_close(&kernels);
    bench_table_close(&ops);
    bench_table_close(&totals);
    return st;
}
