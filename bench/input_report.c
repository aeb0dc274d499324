/* What was measured of input: a table, lines of CSV, or a record. */
#include "bench/input.h"

#include "results/environment.h"

#include <inttypes.h>
#include <string.h>

/* Threads beyond the cores bring nothing, and are not counted as such. */
static double rate_per_core(const struct input_report *r, const struct input_row *w)
{
    return input_rate(w) / (w->threads < r->cores ? w->threads : r->cores);
}

static double bytes_per_s(const struct input_row *w)
{
    return w->time.median > 0 ? (double)w->bytes / w->time.median : 0;
}

/* Against the same stage with the first number of threads. */
static double speedup(const struct input_report *r, const struct input_row *w)
{
    for (int i = 0; i < r->rows; i++)
        if (r->row[i].stage == w->stage && r->row[i].cold == w->cold)
            return w->time.median > 0 ? r->row[i].time.median / w->time.median : 0;
    return 0;
}

static const char *cache(const struct input_row *w)
{
    return !w->files ? "memory" : w->cold ? "cold" : "warm";
}

/* What comes before the rows of the table. */
static void print_heading(const struct input_report *r)
{
    const struct input_config *c = r->config;
    FILE *out = c->out;
    fprintf(out, "%" PRId64 " images of %s, %.1f MB, to %d px; %d cores\n", r->set->data.n,
            c->data ? c->data : "a generated set", (double)r->set->bytes * 1e-6, c->image_size,
            r->cores);
    if (r->cold)
        fputs("cold: the page cache is emptied of the files before each pass; what the disk keeps "
              "is not known\n",
              out);
    else
        fprintf(out,
                "cold: n/a, as the system keeps %.0f %% of the files in memory when it is asked to "
                "drop them\n",
                r->cached * 100);
    fprintf(out, "\n%7s %-9s %-6s %10s %10s %9s %9s %9s %9s %9s %5s %8s %6s\n", "threads", "stage",
            "from", "images/s", "per core", "files/s", "MB/s", "p5 ms", "median ms", "p95 ms", "n",
            "speed-up", "#wrong");
}

static void print_table(const struct input_report *r)
{
    FILE *out = r->config->out;
    print_heading(r);
    for (int i = 0; i < r->rows; i++) {
        const struct input_row *w = &r->row[i];
        fprintf(out, "%7d %-9s %-6s %10.1f %10.1f ", w->threads, input_stage_str(w->stage),
                cache(w), input_rate(w), rate_per_core(r, w));
        if (w->files)
            fprintf(out, "%9.1f", input_rate(w));
        else
            fprintf(out, "%9s", "-");
        fprintf(out, " %9.2f %9.3f %9.3f %9.3f %5" PRId64 " %8.2f %6" PRId64 "\n",
                bytes_per_s(w) * 1e-6, w->time.p5 * 1e3, w->time.median * 1e3, w->time.p95 * 1e3,
                w->time.n, speedup(r, w), w->wrong);
    }
}

static void print_csv(const struct input_report *r)
{
    FILE *out = r->config->out;
    fputs("stage,from,threads,images,bytes,n,median_s,p5_s,p95_s,images_per_s,"
          "images_per_s_per_core,bytes_per_s,speedup,wrong\n",
          out);
    for (int i = 0; i < r->rows; i++) {
        const struct input_row *w = &r->row[i];
        fprintf(out,
                "%s,%s,%d,%" PRId64 ",%" PRId64 ",%" PRId64
                ",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRId64 "\n",
                input_stage_str(w->stage), cache(w), w->threads, w->images, w->bytes, w->time.n,
                w->time.median, w->time.p5, w->time.p95, input_rate(w), rate_per_core(r, w),
                bytes_per_s(w), speedup(r, w), w->wrong);
    }
}

static json_t *row_json(const struct input_report *r, const struct input_row *w)
{
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:o, s:f, s:f, s:o, s:f, s:f, s:I}", "stage",
                     input_stage_str(w->stage), "from", cache(w), "threads", w->threads, "images",
                     (json_int_t)w->images, "bytes", (json_int_t)w->bytes, "seconds",
                     harness_json(&w->time), "images_per_s", input_rate(w), "images_per_s_per_core",
                     rate_per_core(r, w), "files_per_s",
                     w->files ? json_real(input_rate(w)) : json_null(), "bytes_per_s",
                     bytes_per_s(w), "speedup", speedup(r, w), "wrong", (json_int_t)w->wrong);
}

static json_t *record_json(const struct input_report *r, json_t *host, json_t *rows)
{
    const struct input_config *c = r->config;
    char now[ENVIRONMENT_TIME_MAX];
    environment_time(now);
    return json_pack("{s:i, s:s, s:s, s:o, s:s, s:b, s:I, s:I, s:i, s:i, s:i, s:b, s:f, s:o}",
                     "schema", INPUT_SCHEMA, "bench", "input", "measured", now, "host", host,
                     "container", "folders of JPEG", "generated", !c->data, "images",
                     (json_int_t)r->set->data.n, "bytes", (json_int_t)r->set->bytes, "image_size",
                     c->image_size, "batch", c->batch, "cores", r->cores, "cold_measured", r->cold,
                     "cached_when_dropped", r->cached, "rows", rows);
}

static enum status print_json(const struct input_report *r)
{
    json_t *host;
    TRY(environment_describe(&host));
    json_t *rows = json_array();
    for (int i = 0; i < r->rows; i++)
        json_array_append_new(rows, row_json(r, &r->row[i]));
    json_t *record = record_json(r, host, rows);
    if (!record || !environment_program(record)) {
        json_decref(record);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_dumpf(record, r->config->out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', r->config->out);
    json_decref(record);
    return STATUS_OK;
}

enum status input_report_print(const struct input_report *r)
{
    if (r->config->json)
        TRY(print_json(r));
    else if (r->config->csv)
        print_csv(r);
    else
        print_table(r);
    fflush(r->config->out);
    return STATUS_OK;
}
