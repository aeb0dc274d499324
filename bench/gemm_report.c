/* What bench gemm prints. */
#include "bench/gemm.h"

#include <inttypes.h>

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

/* "bf16", or "bf16 emulated" where fp32 that is rounded stands for it. */
static const char *type_text(const struct gemm_row *row, char *out, size_t size)
{
    snprintf(out, size, "%s%s", dtype_str(row->type), row->emulated ? " emulated" : "");
    return out;
}

/* Of the rate that the device reaches in the type that it multiplies in; 0: not measured. */
static double share(const struct gemm_report *r, const struct gemm_row *row)
{
    double peak = r->micro->peaks.flops_per_s[row->emulated ? DTYPE_F32 : row->type];
    return peak > 0 ? row->flops_per_s / peak : 0;
}

void gemm_report_head(const struct gemm_report *r)
{
    const struct gemm_config *c = r->config;
    if (c->format == BENCH_CSV)
        fprintf(c->out, "layer,pass,count,m,n,k,a_t,b_t,type,emulated,n,median_s,p5_s,p95_s,"
                        "gflops,share,checked,wrong,impl\n");
    if (c->format != BENCH_TABLE)
        return;
    if (c->net)
        fprintf(c->out, "%s, %d px, batch %d on %s\n", c->net, c->image_size, c->batch,
                r->micro->about);
    else
        fprintf(c->out, "%s%s\n", c->deepbench ? "DeepBench's training set on " : "",
                r->micro->about);
    fprintf(c->out, "%-22s %-11s %5s %7s %7s %8s %2s %-13s %9s %10s %9s %5s %8s %6s  %s\n", "layer",
            "pass", "count", "m", "n", "k", "op", "type", "GFLOP", "ms", "GFLOP/s", "share",
            "checked", "#wrong", "implementation");
}

static void print_line(const struct gemm_report *r, const struct gemm_row *row)
{
    const struct gemm_case *w = row->what;
    FILE *out = r->config->out;
    char type[32], part[16] = "-";
    fprintf(out, "%-22s %-11s %5d %7d %7d %8d %2s %-13s %9.4f ", or_dash(w->layer),
            or_dash(w->pass), w->count, w->size.m, w->size.n, w->size.k, gemm_transposes(&w->size),
            type_text(row, type, sizeof type), gemm_flops(&w->size) * 1e-9);
    if (!row->measured) {
        fprintf(out, "%10s %9s %5s %8s %6s  %s\n", "n/a", "n/a", "-", "-", "-", row->impl);
        return;
    }
    if (share(r, row) > 0)
        snprintf(part, sizeof part, "%.2f", share(r, row));
    fprintf(out, "%10.4f %9.1f %5s %8" PRId64 " %6" PRId64 "  %s\n", row->time.median * 1e3,
            row->flops_per_s * 1e-9, part, row->checked, row->wrong, row->impl);
}

static void print_csv(const struct gemm_report *r, const struct gemm_row *row)
{
    const struct gemm_case *w = row->what;
    FILE *out = r->config->out;
    fprintf(out, "%s,%s,%d,%d,%d,%d,%d,%d,%s,%d,", w->layer, w->pass, w->count, w->size.m,
            w->size.n, w->size.k, w->size.a_t, w->size.b_t, dtype_str(row->type), row->emulated);
    if (!row->measured) {
        fprintf(out, "0,,,,,,,,\n");
        return;
    }
    fprintf(out, "%" PRId64 ",%.9g,%.9g,%.9g,%.9g,%.6g,%" PRId64 ",%" PRId64 ",%s\n", row->time.n,
            row->time.median, row->time.p5, row->time.p95, row->flops_per_s * 1e-9, share(r, row),
            row->checked, row->wrong, row->impl);
}

void gemm_report_row(const struct gemm_report *r, const struct gemm_row *row)
{
    if (r->config->format == BENCH_TABLE)
        print_line(r, row);
    else if (r->config->format == BENCH_CSV)
        print_csv(r, row);
}

static json_t *row_json(const struct gemm_report *r, const struct gemm_row *row)
{
    const struct gemm_case *w = row->what;
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:s, s:b, s:f, s:b, s:s}", "layer",
                  w->layer, "pass", w->pass, "count", w->count, "m", w->size.m, "n", w->size.n, "k",
                  w->size.k, "a_t", w->size.a_t, "b_t", w->size.b_t, "type", dtype_str(row->type),
                  "emulated", row->emulated, "flops", gemm_flops(&w->size), "measured",
                  row->measured, row->measured ? "impl" : "reason", row->impl);
    if (!o || !row->measured)
        return o;
    json_object_set_new(o, "seconds", harness_json(&row->time));
    json_object_set_new(o, "gflops", json_real(row->flops_per_s * 1e-9));
    if (share(r, row) > 0)
        json_object_set_new(o, "share", json_real(share(r, row)));
    json_object_set_new(o, "checked", json_integer(row->checked));
    json_object_set_new(o, "wrong", json_integer(row->wrong));
    return o;
}

static json_t *sizes_json(const struct gemm_config *c)
{
    if (c->net)
        return json_pack("{s:s, s:i, s:i}", "net", c->net, "batch", c->batch, "image_size",
                         c->image_size);
    return c->deepbench ? json_string("deepbench") : json_string("given");
}

static enum status print_json(const struct gemm_report *r)
{
    const struct gemm_config *c = r->config;
    json_t *record;
    TRY(micro_record(r->micro, "gemm", GEMM_SCHEMA, &record));
    json_t *rows = json_array();
    for (int i = 0; i < r->n; i++)
        json_array_append_new(rows, row_json(r, &r->row[i]));
    json_object_set_new(record, "sizes", sizes_json(c));
    json_object_set_new(record, "max_gflop", json_real(c->max_gflop));
    json_object_set_new(record, "left_out", json_integer(r->left_out));
    json_object_set_new(record, "peaks", peaks_json(&r->micro->peaks));
    json_object_set_new(record, "rows", rows);
    micro_print(record, c->out);
    return STATUS_OK;
}

enum status gemm_report_end(const struct gemm_report *r)
{
    if (r->config->format == BENCH_JSON)
        return print_json(r);
    if (r->config->format == BENCH_TABLE && r->left_out > 0)
        fprintf(r->config->out, "\n%d sizes of more than %g GFLOP were left out\n", r->left_out,
                r->config->max_gflop);
    return STATUS_OK;
}
