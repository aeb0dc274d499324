/* Prints the table of DeepBench's convolutions, and the lines around it. */
#include "bench/conv_deepbench.h"

#include "bench/record.h"

#include <inttypes.h>
#include <math.h>

static const char *const pass_name[CONV_PASSES] = {"fwd", "bwd_inputs", "bwd_params"};

/* A line of the report. In CSV it is one pass of a convolution; in other formats it is all passes
 * of a convolution. */
struct deepbench_line {
    const struct conv_deepbench_row *row;
    int pass;
};

/* Returns the measured GEMM throughput of the benchmark's type, or 0 if it was not measured. */
static double peak_of(const struct conv_deepbench_report *r)
{
    return r->peaks.flops_per_s[r->config->type];
}

static void deepbench_pass_columns(struct bench_table *t, const struct conv_deepbench_row *row,
                                   int pass)
{
    static const char *const heading[CONV_PASSES] = {"fwd us", "bwd_inputs us", "bwd_params us"};
    const struct conv_deepbench_report *r = t->context;
    const struct conv_deepbench_pass *p = &row->pass[pass];
    double rate = p->time.median > 0 ? p->flops / p->time.median : 0, peak = peak_of(r);
    if (!p->measured)
        column_json(t, "left_out", json_string(row->why[0] ? row->why : p->why));
    t->absent = !p->measured;
    harness_columns(t, "n_samples", &p->time);
    column_real(t, NULL, heading[pass], 11, 1, 1e6, p->time.median);
    column_real(t, "flops_per_s", "TFLOP/s", 8, 3, 1e-12, rate);
    if (t->format == BENCH_JSON || (t->format == BENCH_TEXT && peak > 0))
        column_real(t, "share_of_peak", "share", 6, 3, 1, peak > 0 ? rate / peak : NAN);
    column_int(t, "wrong", NULL, 0, p->wrong);
    t->absent = false;
}

static void deepbench_sum_columns(struct bench_table *t, const struct conv_deepbench_row *row)
{
    double total = 0;
    int64_t wrong = 0;
    for (int i = 0; i < CONV_PASSES; i++) {
        total += row->pass[i].measured ? row->pass[i].time.median : NAN;
        wrong += row->pass[i].wrong;
    }
    column_real(t, NULL, "total us", 11, 1, 1e6, total);
    column_int(t, NULL, "#wrong", 6, wrong);
}

static void deepbench_columns(struct bench_table *t, const void *line)
{
    const struct deepbench_line *l = line;
    const struct conv_deepbench_report *r = t->context;
    const struct deepbench_conv *c = l->row->conv;
    if (t->format == BENCH_CSV)
        column_text(t, "pass", NULL, 0, pass_name[l->pass]);
    column_int(t, "w", "w", 4, c->w);
    column_int(t, "h", "h", 4, c->h);
    column_int(t, "c", "c", 5, c->c);
    column_int(t, "n", "n", 3, c->n);
    column_int(t, "k", "k", 5, c->k);
    column_int(t, "fw", "fw", 3, c->fw);
    column_int(t, "fh", "fh", 3, c->fh);
    column_int(t, "pad_w", "pw", 2, c->pad_w);
    column_int(t, "pad_h", "ph", 2, c->pad_h);
    column_int(t, "stride_w", "sw", 2, c->stride_w);
    column_int(t, "stride_h", "sh", 2, c->stride_h);
    if (t->format == BENCH_CSV) {
        column_text(t, "type", NULL, 0, dtype_str(r->config->type));
        deepbench_pass_columns(t, l->row, l->pass);
        return;
    }
    column_json(t, "flops", json_real(l->row->pass[0].flops));
    for (int i = 0; i < CONV_PASSES; i++) {
        column_group_begin(t, pass_name[i]);
        deepbench_pass_columns(t, l->row, i);
        column_group_end(t);
    }
    deepbench_sum_columns(t, l->row);
}

void conv_deepbench_begin(struct conv_deepbench_report *r)
{
    static const struct deepbench_conv none = {.w = 0};
    static const struct conv_deepbench_row blank = {.conv = &none};
    const struct bench_options *o = &r->config->options;
    const char *type = dtype_str(r->config->type);
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s\nDeepBench's training convolutions, %s; medians\n", r->device, type);
    if (o->format == BENCH_TEXT && o->peak && peak_of(r) == 0)
        fprintf(o->out, "'%s' has no GEMM throughput in %s\n", o->peak, type);
    r->table = bench_table_of(o, deepbench_columns, r);
    if (o->format == BENCH_TEXT)
        fputc('\n', o->out);
    bench_table_open(&r->table, &(struct deepbench_line){&blank, 0});
}

static void print_reasons(const struct conv_deepbench_row *row, FILE *out)
{
    if (row->why[0])
        fprintf(out, "     left out: %s\n", row->why);
    for (int i = 0; i < CONV_PASSES && !row->why[0]; i++)
        if (!row->pass[i].measured)
            fprintf(out, "     %s left out: %s\n", pass_name[i], row->pass[i].why);
}

void conv_deepbench_row(struct conv_deepbench_report *r, const struct conv_deepbench_row *row)
{
    struct deepbench_line line = {row, 0};
    r->rows++;
    for (int i = 0; i < CONV_PASSES; i++) {
        r->left_out += !row->pass[i].measured;
        r->wrong += row->pass[i].wrong;
    }
    for (; line.pass < (r->table.format == BENCH_CSV ? CONV_PASSES : 1); line.pass++)
        bench_table_row(&r->table, &line);
    if (r->table.format == BENCH_TEXT)
        print_reasons(row, r->table.out);
}

enum status conv_deepbench_end(struct conv_deepbench_report *r)
{
    const struct bench_options *o = &r->config->options;
    const struct bench_head head = {"conv_deepbench", CONV_DEEPBENCH_SCHEMA, r->device, -1};
    json_t *more = json_pack("{s:s, s:I, s:i}", "type", dtype_str(r->config->type), "wrong",
                             (json_int_t)r->wrong, "left_out", r->left_out);
    if (o->peak)
        json_object_set_new(more, "peaks", peaks_json(&r->peaks));
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "\n%d convolutions, %d passes left out, %" PRId64 " elements wrong\n",
                r->rows, r->left_out, r->wrong);
    return bench_record_rows(&head, more, "rows", &r->table);
}
