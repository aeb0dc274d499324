/* Prints the measured overlap as a table or as a record. */
#include "bench/overlap_parts.h"

#include "base/stats.h"
#include "bench/record.h"

#include <math.h>

static const char *const part_name[PART_COUNT] = {
    [PART_BACKWARD] = "backward_s", [PART_WAIT] = "wait_s", [PART_BUSY] = "busy_s",
    [PART_EXPOSED] = "exposed_s",   [PART_STEP] = "step_s", [PART_GRADIENTS] = "gradients_s",
    [PART_COST] = "cost_s",         [PART_LATE] = "late_s", [PART_HIDDEN] = "hidden",
    [PART_EVEN] = "hidden_even",
};

/* Statistics, over all rounds, of the parts of one variant's steps. */
struct finding {
    int variant;
    bool lowest; /* this is the variant whose gradients are reduced soonest */
    struct stats part[PART_COUNT];
    double images_per_s;
};

static enum status find(const struct overlap *o, int i, struct finding *f)
{
    const struct bench_options *c = &o->config->options;
    *f = (struct finding){.variant = i};
    for (int k = 0; k < PART_COUNT; k++)
        TRY(stats_of(o->variant[i].sample[k], c->rounds, &f->part[k]));
    f->images_per_s = c->batch * o->world.size / f->part[PART_STEP].median;
    return STATUS_OK;
}

static void mark_lowest(struct finding *f, int n)
{
    int best = 1;
    for (int i = 2; i < n; i++)
        if (f[i].part[PART_GRADIENTS].median < f[best].part[PART_GRADIENTS].median)
            best = i;
    f[best].lowest = true;
}

static size_t gradient_bytes(const struct overlap *o)
{
    size_t bytes;
    network_flat(o->net, VALUE_GRADIENT, &bytes);
    return bytes;
}

static json_t *part_json(const struct overlap *o, const struct finding *f, enum overlap_part part)
{
    const double *sample = o->variant[f->variant].sample[part];
    const struct stats *s = &f->part[part];
    json_t *samples = json_array();
    for (int r = 0; r < o->config->options.rounds; r++)
        json_array_append_new(samples, json_real(sample[r]));
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "median", s->median, "p5", s->p5, "p95", s->p95,
                     "mad", s->mad, "samples", samples);
}

static void overlap_columns(struct bench_table *t, const void *row)
{
    const struct finding *f = row;
    const struct overlap *o = t->context;
    const struct stats *p = f->part;
    double mb = o->config->bucket_mb[f->variant - 1];
    char size[32] = "all in one";
    if (mb > 0)
        snprintf(size, sizeof size, "%g MiB", mb);
    for (int k = 0; t->format == BENCH_JSON && k < PART_COUNT; k++)
        column_json(t, part_name[k], part_json(o, f, (enum overlap_part)k));
    column_text(t, NULL, "bucket", -10, size);
    column_json(t, "bucket_mb", json_real(mb));
    column_int(t, "buckets", "buckets", 7, reducer_buckets(o->variant[f->variant].reducer));
    column_real(t, NULL, "backward ms", 9, 2, 1e3, p[PART_BACKWARD].median);
    column_real(t, NULL, "wait", 8, 2, 1e3, p[PART_WAIT].median);
    column_real(t, NULL, "gradients", 9, 2, 1e3, p[PART_GRADIENTS].median);
    column_real(t, NULL, "p5", 8, 2, 1e3, p[PART_GRADIENTS].p5);
    column_real(t, NULL, "p95", 8, 2, 1e3, p[PART_GRADIENTS].p95);
    column_real(t, NULL, "busy", 8, 2, 1e3, p[PART_BUSY].median);
    column_real(t, NULL, "exposed", 8, 2, 1e3, p[PART_EXPOSED].median);
    column_real(t, NULL, "late", 8, 2, 1e3, p[PART_LATE].median);
    column_real(t, NULL, "hidden %", 6, 1, 100, p[PART_HIDDEN].median);
    column_real(t, NULL, "cost ms", 8, 2, 1e3, p[PART_COST].median);
    column_real(t, "images_per_s", "images/s", 9, 2, 1, f->images_per_s);
    column_bool(t, "lowest", f->lowest);
    column_text(t, NULL, "gradients", 0, f->lowest ? "lowest" : "");
    column_noise(t, NULL, NAN);
}

static void overlap_print_head(const struct overlap *o, const char *about, const struct finding *f)
{
    const struct bench_options *c = &o->config->options;
    const struct stats *alone = &f->part[PART_BACKWARD];
    fprintf(c->out,
            "%s, %s, %d px, batch %d on each of %d ranks, %.1f MiB of gradients sent as %s\n"
            "rank 0: %s, %s\n"
            "backward pass without communication: %.2f ms (%.2f-%.2f), %.2f images/s\n\n",
            c->net, bench_precision(c), c->image_size, c->batch, o->world.size,
            (double)gradient_bytes(o) / (1 << 20), dtype_str(o->config->compress), about,
            world_network(&o->world), 1e3 * alone->median, 1e3 * alone->p5, 1e3 * alone->p95,
            f->images_per_s);
}

/* --- the record --- */

json_t *overlap_config_json(const struct overlap_config *c)
{
    json_t *sizes = json_array();
    for (int i = 0; i < c->n_sizes; i++)
        json_array_append_new(sizes, json_real(c->bucket_mb[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:b, s:s, s:i, s:s, s:o}", "net", c->options.net,
                     "batch_size", c->options.batch, "image_size", c->options.image_size, "rounds",
                     c->options.rounds, "precision", bench_precision(&c->options), "emulate",
                     c->options.emulate, "devices", c->options.devices, "threads",
                     c->options.threads, "grad_compress", dtype_str(c->compress), "bucket_mb",
                     sizes);
}

static json_t *libraries_json(const struct overlap *o)
{
    const struct backend *b = o->dev->backend;
    json_t *libraries = json_object();
    if (world_is_mpi(&o->world))
        json_object_set_new(libraries, "MPI", json_string(comm_mpi_version()));
    if (b->library)
        json_object_set_new(libraries, b->library, json_string(b->library_version()));
    return libraries;
}

static json_t *overlap_json(const struct overlap *o, const struct finding *alone)
{
    json_t *steps = json_pack("{s:f, s:o, s:o}", "images_per_s", alone->images_per_s,
                              part_name[PART_BACKWARD], part_json(o, alone, PART_BACKWARD),
                              part_name[PART_STEP], part_json(o, alone, PART_STEP));
    return json_pack("{s:o, s:o, s:o, s:I, s:o}", "config", overlap_config_json(o->config),
                     "libraries", libraries_json(o), "ranks", world_json(&o->world),
                     "gradient_bytes", (json_int_t)gradient_bytes(o), "alone", steps);
}

enum status overlap_report(const struct overlap *o)
{
    const struct bench_options *c = &o->config->options;
    struct bench_table t = bench_table_of(c, overlap_columns, o);
    struct finding f[1 + OVERLAP_SIZES_MAX];
    char about[256];
    const struct bench_head head = {"overlap", OVERLAP_SCHEMA, about, o->dev->threads};
    o->dev->backend->describe(o->dev, about, sizeof about);
    for (int i = 0; i < o->n; i++)
        TRY(find(o, i, &f[i]));
    mark_lowest(f, o->n);
    if (c->format == BENCH_TEXT)
        overlap_print_head(o, about, &f[0]);
    t.noise = &o->noise;
    bench_table_rows(&t, &f[1], o->n - 1, sizeof *f);
    return bench_record_rows(&head, overlap_json(o, &f[0]), "sizes", &t);
}
