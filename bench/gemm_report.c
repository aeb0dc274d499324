/* Prints the table of bench gemm, and the lines around it. */
#include "bench/gemm.h"

#include "bench/record.h"

#include <math.h>

static void gemm_columns(struct bench_table *t, const void *row)
{
    const struct gemm_row *w = row;
    const struct gemm_case *c = w->what;
    const struct gemm_report *r = t->context;
    double flops = gemm_flops(&c->size);
    /* `share` is the throughput divided by the device's peak in the type in which the device
     * multiplies; NaN: the peak was not measured. */
    double peak = r->micro->peaks.flops_per_s[w->emulated ? DTYPE_F32 : w->type];
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
    column_text(t, NULL, "op", 2, gemm_transposes(&c->size));
    column_text(t, "type", NULL, 0, dtype_str(w->type));
    column_bool(t, "emulated", w->emulated);
    column_text(t, NULL, "type", -13, type);
    column_json(t, "flops", json_real(flops));
    column_real(t, NULL, "GFLOP", 9, 4, 1e-9, flops);
    column_json(t, "measured", json_boolean(w->measured));
    if (!w->measured)
        column_json(t, "reason", json_string(w->impl));
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

void gemm_report_begin(struct gemm_report *r)
{
    static const struct gemm_case none = {.pass = ""};
    static const struct gemm_row blank = {.what = &none};
    const struct gemm_config *c = r->config;
    const struct bench_options *o = &c->options;
    if (o->format == BENCH_TEXT && o->net)
        fprintf(o->out, "%s, %d px, batch %d on ", o->net, o->image_size, o->batch);
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s\n", r->micro->about);
    r->table = bench_table_of(o, gemm_columns, r);
    bench_table_open(&r->table, &blank);
}

static json_t *gemm_sizes_json(const struct gemm_config *c)
{
    const struct bench_options *o = &c->options;
    if (o->net)
        return json_pack("{s:s, s:i, s:i}", "net", o->net, "batch", o->batch, "image_size",
                         o->image_size);
    return json_string("given");
}

enum status gemm_report_end(struct gemm_report *r)
{
    const struct gemm_config *c = r->config;
    const struct bench_head head = {"gemm", GEMM_SCHEMA, r->micro->about, r->micro->dev->threads};
    if (c->options.format == BENCH_TEXT && r->left_out > 0)
        fprintf(c->options.out, "\n%d sizes of more than %g GFLOP were left out\n", r->left_out,
                c->max_gflop);
    return bench_record_rows(&head,
                             json_pack("{s:o, s:f, s:i, s:o}", "sizes", gemm_sizes_json(c),
                                       "max_gflop", c->max_gflop, "left_out", r->left_out, "peaks",
                                       peaks_json(&r->micro->peaks)),
                             "rows", &r->table);
}
