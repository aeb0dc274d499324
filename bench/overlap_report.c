/* What was measured of overlap, as a table and as a record. */
#include "bench/overlap_parts.h"

#include "base/stats.h"
#include "model/exchange.h"
#include "results/environment.h"

#include <string.h>

static const char *const part_name[PART_COUNT] = {
    [PART_BACKWARD] = "backward_s", [PART_WAIT] = "wait_s", [PART_BUSY] = "busy_s",
    [PART_EXPOSED] = "exposed_s",   [PART_STEP] = "step_s", [PART_GRADIENTS] = "gradients_s",
    [PART_COST] = "cost_s",         [PART_LATE] = "late_s", [PART_HIDDEN] = "hidden",
    [PART_EVEN] = "hidden_even",
};

/* A variant's parts over all rounds. */
struct finding {
    struct stats part[PART_COUNT];
    double images_per_s;
};

static enum status find(const struct overlap *o, int i, struct finding *f)
{
    int rounds = o->config->net.rounds;
    for (int k = 0; k < PART_COUNT; k++)
        TRY(stats_of(o->variant[i].sample[k], rounds, &f->part[k]));
    f->images_per_s = o->config->net.batch * o->world.size / f->part[PART_STEP].median;
    return STATUS_OK;
}

/* The size whose gradients are sums the soonest. */
static int lowest(const struct finding *f, int n)
{
    int best = 1;
    for (int i = 2; i < n; i++)
        if (f[i].part[PART_GRADIENTS].median < f[best].part[PART_GRADIENTS].median)
            best = i;
    return best;
}

static size_t gradient_bytes(const struct overlap *o)
{
    size_t bytes;
    network_flat(o->net, VALUE_GRADIENT, &bytes);
    return bytes;
}

static const char *precision(const struct overlap_config *c)
{
    return c->net.precision ? c->net.precision : "fp32";
}

/* --- the table --- */

static void print_line(const struct overlap *o, int i, const struct finding *f, bool best)
{
    FILE *out = o->config->net.out;
    const struct stats *p = f->part;
    double mb = o->config->bucket_mb[i - 1];
    char size[32] = "all in one";
    if (mb > 0)
        snprintf(size, sizeof size, "%g MiB", mb);
    fprintf(out,
            "%-10s %7d %9.2f %8.2f %9.2f %8.2f-%-8.2f %8.2f %8.2f %8.2f %6.1f%% %8.2f %9.2f%s\n",
            size, reducer_buckets(o->variant[i].reducer), 1e3 * p[PART_BACKWARD].median,
            1e3 * p[PART_WAIT].median, 1e3 * p[PART_GRADIENTS].median, 1e3 * p[PART_GRADIENTS].p5,
            1e3 * p[PART_GRADIENTS].p95, 1e3 * p[PART_BUSY].median, 1e3 * p[PART_EXPOSED].median,
            1e3 * p[PART_LATE].median, 100 * p[PART_HIDDEN].median, 1e3 * p[PART_COST].median,
            f->images_per_s, best ? "  lowest" : "");
}

static void print(const struct overlap *o, const struct finding *f)
{
    const struct overlap_config *c = o->config;
    const struct stats *alone = f[0].part;
    char about[256];
    o->dev->backend->describe(o->dev, about, sizeof about);
    fprintf(c->net.out,
            "%s, %s, %d px, batch %d on each of %d ranks, %.1f MiB of gradients sent as %s\n"
            "rank 0: %s, %s\n"
            "backward pass without partners: %.2f ms (%.2f-%.2f), %.2f images/s\n\n"
            "%-10s %7s %9s %8s %9s %17s %8s %8s %8s %7s %8s %9s\n"
            "%-10s %7s %9s %8s %9s %17s %8s %8s %8s %7s %8s %9s\n",
            c->net.net, precision(c), c->net.image_size, c->net.batch, o->world.size,
            (double)gradient_bytes(o) / (1 << 20), dtype_str(c->compress), about,
            comm_mpi_version(), 1e3 * alone[PART_BACKWARD].median, 1e3 * alone[PART_BACKWARD].p5,
            1e3 * alone[PART_BACKWARD].p95, f[0].images_per_s, "bucket", "buckets", "backward",
            "wait", "gradients", "p5-p95   ", "busy", "exposed", "late", "hidden", "cost",
            "images/s", "", "", "ms", "ms", "ms", "ms   ", "ms", "ms", "ms", "", "ms", "");
    int best = lowest(f, o->n);
    for (int i = 1; i < o->n; i++)
        print_line(o, i, &f[i], i == best);
}

/* --- the record --- */

json_t *overlap_config_json(const struct overlap_config *c)
{
    json_t *sizes = json_array();
    for (int i = 0; i < c->n_sizes; i++)
        json_array_append_new(sizes, json_real(c->bucket_mb[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:b, s:s, s:i, s:s, s:o}", "net", c->net.net,
                     "batch_size", c->net.batch, "image_size", c->net.image_size, "rounds",
                     c->net.rounds, "precision", precision(c), "emulate", c->net.emulate, "devices",
                     c->net.devices, "threads", c->net.threads, "grad_compress",
                     dtype_str(c->compress), "bucket_mb", sizes);
}

static json_t *part_json(const struct overlap *o, const double *sample, const struct stats *s)
{
    json_t *samples = json_array();
    for (int r = 0; r < o->config->net.rounds; r++)
        json_array_append_new(samples, json_real(sample[r]));
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "median", s->median, "p5", s->p5, "p95", s->p95,
                     "mad", s->mad, "samples", samples);
}

/* The parts of variant i; without partners there are but two. */
static json_t *variant_json(const struct overlap *o, int i, const struct finding *f)
{
    json_t *v = json_pack("{s:f}", "images_per_s", f->images_per_s);
    for (int k = 0; k < PART_COUNT; k++)
        if (i > 0 || k == PART_BACKWARD || k == PART_STEP)
            json_object_set_new(v, part_name[k],
                                part_json(o, o->variant[i].sample[k], &f->part[k]));
    return v;
}

static json_t *sizes_json(const struct overlap *o, const struct finding *f)
{
    int best = lowest(f, o->n);
    json_t *sizes = json_array();
    for (int i = 1; i < o->n; i++) {
        json_t *size = variant_json(o, i, &f[i]);
        json_object_set_new(size, "bucket_mb", json_real(o->config->bucket_mb[i - 1]));
        json_object_set_new(size, "buckets", json_integer(reducer_buckets(o->variant[i].reducer)));
        json_object_set_new(size, "lowest", json_boolean(i == best));
        json_array_append_new(sizes, size);
    }
    return sizes;
}

static json_t *libraries_json(const struct overlap *o)
{
    const struct backend *b = o->dev->backend;
    json_t *libraries = json_pack("{s:s}", "MPI", comm_mpi_version());
    if (b->library)
        json_object_set_new(libraries, b->library, json_string(b->library_version()));
    return libraries;
}

static enum status print_json(const struct overlap *o, const struct finding *f)
{
    char about[256], now[ENVIRONMENT_TIME_MAX];
    json_t *host, *record;
    FILE *out = o->config->net.out;
    o->dev->backend->describe(o->dev, about, sizeof about);
    environment_time(now);
    TRY(environment_describe(&host));
    record = json_pack("{s:i, s:s, s:s, s:o, s:s, s:i, s:o, s:o, s:o, s:I, s:o, s:o}", "schema",
                       OVERLAP_SCHEMA, "bench", "overlap", "measured", now, "config",
                       overlap_config_json(o->config), "device", about, "threads", o->dev->threads,
                       "libraries", libraries_json(o), "host", host, "ranks", world_json(&o->world),
                       "gradient_bytes", (json_int_t)gradient_bytes(o), "alone",
                       variant_json(o, 0, &f[0]), "sizes", sizes_json(o, f));
    if (!record || !environment_program(record))
        return status_fail(STATUS_OOM, "no memory for the record");
    json_dumpf(record, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(record);
    return STATUS_OK;
}

enum status overlap_report(const struct overlap *o)
{
    struct finding f[1 + OVERLAP_SIZES_MAX];
    for (int i = 0; i < o->n; i++)
        TRY(find(o, i, &f[i]));
    if (o->config->net.json)
        return print_json(o, f);
    print(o, f);
    return STATUS_OK;
}
