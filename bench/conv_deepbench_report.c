/* DeepBench's columns, lines of CSV, or a record. */
#include "bench/conv_deepbench.h"

#include "results/environment.h"

#include <inttypes.h>

static const char *const pass_name[CONV_PASSES] = {"fwd", "bwd_inputs", "bwd_params"};

static double flops_per_s(const struct conv_deepbench_pass *p)
{
    return p->time.median > 0 ? p->flops / p->time.median : 0;
}

/* Of the rate that was measured for products of this type; 0 where it was not. */
static double share(const struct conv_deepbench_report *r, const struct conv_deepbench_pass *p)
{
    double peak = r->peaks.flops_per_s[r->config->type];
    return peak > 0 ? flops_per_s(p) / peak : 0;
}

static bool has_shares(const struct conv_deepbench_report *r)
{
    return r->peaks.flops_per_s[r->config->type] > 0;
}

/* --- the table --- */

static void print_header(const struct conv_deepbench_report *r)
{
    FILE *out = r->config->out;
    fprintf(out, "%s\nDeepBench's training convolutions, %s; medians\n", r->device,
            dtype_str(r->config->type));
    if (r->config->peak && !has_shares(r))
        fprintf(out, "'%s' has no rate of products in %s\n", r->config->peak,
                dtype_str(r->config->type));
    fprintf(out, "\n%4s %4s %5s %3s %5s %3s %3s %2s %2s %2s %2s", "w", "h", "c", "n", "k", "fw",
            "fh", "pw", "ph", "sw", "sh");
    for (int p = 0; p < CONV_PASSES; p++)
        fprintf(out, " %11s %8s%s", pass_name[p], "", has_shares(r) ? "       " : "");
    fprintf(out, " %11s\n%45s", "total", "");
    for (int p = 0; p < CONV_PASSES; p++)
        fprintf(out, " %11s %8s%s", "usec", "TFLOP/s", has_shares(r) ? "  share" : "");
    fprintf(out, " %11s %6s\n", "usec", "#wrong");
}

static void print_pass(const struct conv_deepbench_report *r, const struct conv_deepbench_pass *p)
{
    FILE *out = r->config->out;
    if (p->measured)
        fprintf(out, " %11.1f %8.3f", p->time.median * 1e6, flops_per_s(p) * 1e-12);
    else
        fprintf(out, " %11s %8s", "n/a", "n/a");
    if (has_shares(r) && p->measured)
        fprintf(out, " %6.3f", share(r, p));
    else if (has_shares(r))
        fprintf(out, " %6s", "n/a");
}

static void print_row(const struct conv_deepbench_report *r, const struct conv_deepbench_row *row)
{
    FILE *out = r->config->out;
    const struct deepbench_conv *c = row->conv;
    double total = 0;
    int64_t wrong = 0;
    bool whole = true;
    fprintf(out, "%4d %4d %5d %3d %5d %3d %3d %2d %2d %2d %2d", c->w, c->h, c->c, c->n, c->k, c->fw,
            c->fh, c->pad_w, c->pad_h, c->stride_w, c->stride_h);
    for (int i = 0; i < CONV_PASSES; i++) {
        const struct conv_deepbench_pass *p = &row->pass[i];
        print_pass(r, p);
        total += p->time.median;
        wrong += p->wrong;
        whole = whole && p->measured;
    }
    if (whole)
        fprintf(out, " %11.1f %6" PRId64 "\n", total * 1e6, wrong);
    else
        fprintf(out, " %11s %6" PRId64 "\n", "n/a", wrong);
    if (row->why[0])
        fprintf(out, "     left out: %s\n", row->why);
    for (int i = 0; i < CONV_PASSES && !row->why[0]; i++)
        if (!row->pass[i].measured)
            fprintf(out, "     %s left out: %s\n", pass_name[i], row->pass[i].why);
}

/* --- CSV --- */

static void print_csv(const struct conv_deepbench_report *r, const struct conv_deepbench_row *row)
{
    FILE *out = r->config->out;
    const struct deepbench_conv *c = row->conv;
    for (int i = 0; i < CONV_PASSES; i++) {
        const struct conv_deepbench_pass *p = &row->pass[i];
        fprintf(out, "%s,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,", pass_name[i], c->w, c->h, c->c,
                c->n, c->k, c->fw, c->fh, c->pad_w, c->pad_h, c->stride_w, c->stride_h,
                dtype_str(r->config->type));
        if (p->measured)
            fprintf(out, "%" PRId64 ",%.9g,%.9g,%.9g,%.9g,%" PRId64 "\n", p->time.n, p->time.median,
                    p->time.p5, p->time.p95, flops_per_s(p), p->wrong);
        else
            fputs("0,,,,,\n", out);
    }
}

/* --- the record --- */

static json_t *pass_json(const struct conv_deepbench_report *r,
                         const struct conv_deepbench_row *row, int pass)
{
    const struct conv_deepbench_pass *p = &row->pass[pass];
    if (!p->measured)
        return json_pack("{s:s}", "left_out", row->why[0] ? row->why : p->why);
    return json_pack("{s:o, s:f, s:o, s:I}", "seconds", harness_json(&p->time), "flops_per_s",
                     flops_per_s(p), "share_of_peak",
                     has_shares(r) ? json_real(share(r, p)) : json_null(), "wrong",
                     (json_int_t)p->wrong);
}

static enum status keep_row(struct conv_deepbench_report *r, const struct conv_deepbench_row *row)
{
    const struct deepbench_conv *c = row->conv;
    json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "w", c->w,
                          "h", c->h, "c", c->c, "n", c->n, "k", c->k, "fw", c->fw, "fh", c->fh,
                          "pad_w", c->pad_w, "pad_h", c->pad_h, "stride_w", c->stride_w, "stride_h",
                          c->stride_h, "flops", row->pass[0].flops);
    for (int i = 0; o && i < CONV_PASSES; i++)
        json_object_set_new(o, pass_name[i], pass_json(r, row, i));
    if (json_array_append_new(r->json, o) != 0)
        return status_fail(STATUS_OOM, "no memory for the record");
    return STATUS_OK;
}

static enum status print_json(struct conv_deepbench_report *r)
{
    char now[ENVIRONMENT_TIME_MAX];
    json_t *host;
    environment_time(now);
    TRY(environment_describe(&host));
    json_t *record =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:s, s:O, s:I, s:i}", "schema", CONV_DEEPBENCH_SCHEMA,
                  "bench", "conv_deepbench", "measured", now, "device", r->device, "host", host,
                  "type", dtype_str(r->config->type), "rows", r->json, "wrong",
                  (json_int_t)r->wrong, "left_out", r->left_out);
    if (record && r->config->peak)
        json_object_set_new(record, "peaks", peaks_json(&r->peaks));
    if (!record || !environment_program(record)) {
        json_decref(record);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_dumpf(record, r->config->out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', r->config->out);
    json_decref(record);
    return STATUS_OK;
}

/* --- whichever was asked for --- */

enum status conv_deepbench_begin(struct conv_deepbench_report *r)
{
    if (r->config->json) {
        r->json = json_array();
        return r->json ? STATUS_OK : status_fail(STATUS_OOM, "no memory for the record");
    }
    if (r->config->csv)
        fputs("pass,w,h,c,n,k,fw,fh,pad_w,pad_h,stride_w,stride_h,type,n_samples,median_s,p5_s,"
              "p95_s,flops_per_s,wrong\n",
              r->config->out);
    else
        print_header(r);
    return STATUS_OK;
}

enum status conv_deepbench_row(struct conv_deepbench_report *r,
                               const struct conv_deepbench_row *row)
{
    r->rows++;
    for (int i = 0; i < CONV_PASSES; i++) {
        r->left_out += !row->pass[i].measured;
        r->wrong += row->pass[i].wrong;
    }
    if (r->config->json)
        return keep_row(r, row);
    if (r->config->csv)
        print_csv(r, row);
    else
        print_row(r, row);
    fflush(r->config->out);
    return STATUS_OK;
}

enum status conv_deepbench_end(struct conv_deepbench_report *r)
{
    if (r->config->json)
        return print_json(r);
    if (!r->config->csv)
        fprintf(r->config->out,
                "\n%d convolutions, %d passes left out, %" PRId64 " elements wrong\n", r->rows,
                r->left_out, r->wrong);
    fflush(r->config->out);
    return STATUS_OK;
}

void conv_deepbench_close(struct conv_deepbench_report *r)
{
    json_decref(r->json);
    r->json = NULL;
}
