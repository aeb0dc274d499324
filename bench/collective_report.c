/* What was measured of collectives: nccl-tests' table, lines of CSV, or a record. */
#include "bench/collective.h"

#include "results/environment.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const place_name[COLLECTIVE_PLACES] = {"out_of_place", "in_place"};

const char *collective_type_str(enum dtype type)
{
    static const char *const names[DTYPE_COUNT] = {
        [DTYPE_F32] = "float",  [DTYPE_F16] = "half",  [DTYPE_BF16] = "bfloat16",
        [DTYPE_F64] = "double", [DTYPE_I32] = "int32", [DTYPE_U8] = "uint8",
    };
    return (unsigned)type < DTYPE_COUNT && names[type] ? names[type] : "unknown";
}

const char *collective_reduction_str(enum comm_reduction reduction)
{
    return reduction == COMM_SUM ? "sum" : reduction == COMM_MAX ? "max" : "min";
}

static const char *redop(const struct collective_config *c)
{
    return collective_reduces(c->kind) ? collective_reduction_str(c->reduction) : "none";
}

/* -1 where there is none. */
static int root_of(enum comm_kind kind)
{
    return kind == COMM_BROADCAST || kind == COMM_REDUCE ? 0 : -1;
}

/* --- the table --- */

void collective_number(double value, int width, char *out)
{
    size_t size = (size_t)width + 1;
    for (int digits = 2; digits >= 0; digits--)
        if (snprintf(out, size, "%*.*f", width, digits, value) <= width)
            return;
    snprintf(out, size, "%*.*e", width, width >= 7 ? 1 : 0, value);
}

static void print_header(const struct collective_report *r)
{
    const struct collective_config *c = r->config;
    const char *row = "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s \n";
    fprintf(c->out,
            "# nThread %d nGpus 1 minBytes %" PRId64 " maxBytes %" PRId64 " step: %" PRId64
            "(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d graph: 0\n#\n",
            r->threads, c->first, c->last, c->step ? c->step : c->factor,
            c->step ? "bytes" : "factor", c->timing.warmup, c->timing.most, c->checks);
    fputs("# Using devices\n", c->out);
    for (int i = 0; i < r->ranks; i++)
        fprintf(c->out, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] memory, %s\n", i, 0,
                r->rank[i].pid, r->rank[i].host, i, r->memory, r->network);
    if (r->why[0])
        fprintf(c->out, "#  by way of the host: %s\n", r->why);
    fprintf(c->out, "#\n# %10s  %12s  %8s  %6s  %6s  %s\n", "", "", "", "", "",
            "         out-of-place                       in-place          ");
    fprintf(c->out, row, "size", "count", "type", "redop", "root", "time", "algbw", "busbw",
            "#wrong", "time", "algbw", "busbw", "#wrong");
    fprintf(c->out, row, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
            "(GB/s)", "(GB/s)", "");
}

static void print_time(const struct collective_time *t, FILE *out)
{
    char time[8], algbw[7], busbw[7];
    collective_number(t->time.median * 1e6, 7, time);
    collective_number(t->algbw, 6, algbw);
    collective_number(t->busbw, 6, busbw);
    fprintf(out, "  %7s  %6s  %6s", time, algbw, busbw);
    if (t->wrong < 0)
        fputs("    N/A", out);
    else
        fprintf(out, "  %6g", (double)t->wrong);
}

static void print_row(const struct collective_config *c, const struct collective_row *row)
{
    fprintf(c->out, "%12" PRId64 "  %12" PRId64 "  %8s  %6s  %6d", row->bytes, row->count,
            collective_type_str(c->type), redop(c), root_of(c->kind));
    for (int p = 0; p < COLLECTIVE_PLACES; p++)
        print_time(&row->place[p], c->out);
    fputc('\n', c->out);
}

static double average(const struct collective_report *r)
{
    return r->rows > 0 ? r->busbw / (r->rows * COLLECTIVE_PLACES) : 0;
}

/* --- CSV --- */

static void print_csv(const struct collective_config *c, const struct collective_row *row)
{
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        const struct collective_time *t = &row->place[p];
        fprintf(c->out,
                "%s,%s,%" PRId64 ",%" PRId64 ",%s,%s,%d,%" PRId64 ",%.9g,%.9g,%.9g,%.9g,%.9g,",
                comm_kind_str(c->kind), place_name[p], row->bytes, row->count,
                collective_type_str(c->type), redop(c), root_of(c->kind), t->time.n, t->time.median,
                t->time.p5, t->time.p95, t->algbw, t->busbw);
        if (t->wrong >= 0)
            fprintf(c->out, "%" PRId64, t->wrong);
        fputc('\n', c->out);
    }
}

/* --- the record --- */

static json_t *time_json(const struct collective_time *t)
{
    return json_pack("{s:o, s:f, s:f, s:o}", "seconds", harness_json(&t->time), "algbw", t->algbw,
                     "busbw", t->busbw, "wrong",
                     t->wrong < 0 ? json_null() : json_integer(t->wrong));
}

static enum status keep_row(struct collective_report *r, const struct collective_row *row)
{
    json_t *o = json_pack("{s:I, s:I, s:o, s:o}", "bytes", (json_int_t)row->bytes, "count",
                          (json_int_t)row->count, place_name[0], time_json(&row->place[0]),
                          place_name[1], time_json(&row->place[1]));
    if (json_array_append_new(r->json, o) != 0)
        return status_fail(STATUS_OOM, "no memory for the record");
    return STATUS_OK;
}

static json_t *config_json(const struct collective_config *c)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:f, s:f}",
                     "collective", comm_kind_str(c->kind), "type", collective_type_str(c->type),
                     "redop", redop(c), "root", root_of(c->kind), "min_bytes", (json_int_t)c->first,
                     "max_bytes", (json_int_t)c->last, "step_bytes", (json_int_t)c->step,
                     "step_factor", c->step ? 0 : c->factor, "warmup", c->timing.warmup, "most",
                     c->timing.most, "checks", c->checks, "within", c->timing.within,
                     "most_seconds", c->timing.seconds);
}

static json_t *ranks_json(const struct collective_report *r)
{
    json_t *ranks = json_array();
    for (int i = 0; i < r->ranks; i++)
        json_array_append_new(
            ranks, json_pack("{s:s, s:i}", "host", r->rank[i].host, "pid", r->rank[i].pid));
    return ranks;
}

static enum status print_json(struct collective_report *r)
{
    char now[ENVIRONMENT_TIME_MAX];
    json_t *host, *record;
    FILE *out = r->config->out;
    environment_time(now);
    TRY(environment_describe(&host));
    record = json_pack(
        "{s:i, s:s, s:s, s:o, s:s, s:s, s:s, s:O, s:o, s:o, s:O, s:o, s:f}", "schema",
        COLLECTIVE_SCHEMA, "bench", "collective", "measured", now, "config", config_json(r->config),
        "network", r->network, "memory", r->memory, "by_host_because", r->why, "libraries",
        r->versions, "host", host, "ranks", ranks_json(r), "rows", r->json, "wrong",
        r->config->checks > 0 ? json_integer(r->wrong) : json_null(), "mean_busbw", average(r));
    if (!record || !environment_program(record)) {
        json_decref(record);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_dumpf(record, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(record);
    return STATUS_OK;
}

/* --- whichever was asked for --- */

enum status collective_report_begin(struct collective_report *r)
{
    switch (r->config->format) {
    case BENCH_TABLE:
        print_header(r);
        break;
    case BENCH_CSV:
        fputs("collective,place,bytes,count,type,redop,root,n,median_s,p5_s,p95_s,algbw_gb_per_s,"
              "busbw_gb_per_s,wrong\n",
              r->config->out);
        break;
    case BENCH_JSON:
        r->json = json_array();
        if (!r->json)
            return status_fail(STATUS_OOM, "no memory for the record");
    }
    return STATUS_OK;
}

enum status collective_report_row(struct collective_report *r, const struct collective_row *row)
{
    r->rows++;
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        r->failed += row->place[p].wrong > 0;
        r->wrong += row->place[p].wrong > 0 ? row->place[p].wrong : 0;
        r->busbw += row->place[p].busbw;
    }
    if (r->config->format == BENCH_JSON)
        return keep_row(r, row);
    if (r->config->format == BENCH_CSV)
        print_csv(r->config, row);
    else
        print_row(r->config, row);
    fflush(r->config->out);
    return STATUS_OK;
}

enum status collective_report_end(struct collective_report *r)
{
    FILE *out = r->config->out;
    if (r->config->format == BENCH_JSON)
        return print_json(r);
    if (r->config->format == BENCH_TABLE)
        fprintf(out, "# %-20s : %d %s\n# %-20s : %g \n#\n", "Out of bounds values", r->failed,
                r->failed ? "FAILED" : "OK", "Avg bus bandwidth", average(r));
    fflush(out);
    return STATUS_OK;
}

void collective_report_close(struct collective_report *r)
{
    json_decref(r->json);
    r->json = NULL;
}
