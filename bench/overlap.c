/* Measures how much communication overlaps with the backward pass, and prints it. */
#include "bench/overlap.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/stats.h"
#include "bench/record.h"
#include "comm/world.h"
#include "engine/reducer.h"
#include "kernels/device_list.h"
#include "model/exchange.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Parts of a step (overlap.h), in seconds; HIDDEN and EVEN are fractions. */
enum overlap_part {
    PART_BACKWARD,
    PART_WAIT,
    PART_BUSY,
    PART_EXPOSED,
    PART_STEP,
    PART_MEASURED, /* number of measured parts; the parts below are computed from the measured
                    * parts */
    PART_GRADIENTS = PART_MEASURED,
    PART_COST,
    PART_LATE,
    PART_HIDDEN,
    PART_EVEN,
    PART_COUNT
};

/* Training with one bucket size, or without communication. */
struct variant {
    struct reducer *reducer;
    double *sample[PART_COUNT]; /* (rounds) each */
};

struct overlap {
    const struct overlap_config *config;
    struct device_list devices;
    struct world world;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    int n;                                         /* number of variants: 1 + number of bucket
                                                    * sizes */
    struct variant variant[1 + OVERLAP_SIZES_MAX]; /* [0]: without communication */
    double *samples;                               /* memory of all variants' samples */
    struct host_noise noise;
};

/* --- printing --- */

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
        json_add(samples, json_finite(sample[r]));
    return json_new("{s:f, s:f, s:f, s:f, s:o}", "median", s->median, "p5", s->p5, "p95", s->p95,
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
    column_json(t, "bucket_mb", json_finite(mb));
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

/* Every setting. */
static json_t *overlap_config_json(const struct overlap_config *c)
{
    json_t *sizes = json_array();
    for (int i = 0; i < c->n_sizes; i++)
        json_add(sizes, json_finite(c->bucket_mb[i]));
    return json_new("{s:s, s:i, s:i, s:i, s:s, s:b, s:s, s:i, s:s, s:o}", "net", c->options.net,
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
        json_put(libraries, "MPI", json_utf8(comm_mpi_version()));
    if (b->library)
        json_put(libraries, b->library, json_utf8(b->library_version()));
    return libraries;
}

static json_t *overlap_json(const struct overlap *o, const struct finding *alone)
{
    json_t *steps = json_new("{s:f, s:o, s:o}", "images_per_s", alone->images_per_s,
                             part_name[PART_BACKWARD], part_json(o, alone, PART_BACKWARD),
                             part_name[PART_STEP], part_json(o, alone, PART_STEP));
    return json_new("{s:o, s:o, s:o, s:I, s:o}", "config", overlap_config_json(o->config),
                    "libraries", libraries_json(o), "ranks", world_json(&o->world),
                    "gradient_bytes", (json_int_t)gradient_bytes(o), "alone", steps);
}

static enum status overlap_report(const struct overlap *o)
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

/* --- the measurement --- */

/* Runs one training step, in which the gradients are reduced before the update. Sets `part` to the
 * times of the step's parts on this rank. */
static enum status step_run(struct overlap *o, struct variant *v, double part[PART_MEASURED])
{
    struct program *p = network_program(o->net, 0);
    struct comm_op together = {.kind = COMM_BARRIER};
    struct step_state state = {
        .lr = 1e-6f, .loss_scale = 1, .grad_scale = (float)(1 / reducer_divisor(v->reducer))};
    TRY(comm_run(o->world.comm, &together));
    uint64_t begun = clock_ns();
    TRY(program_state(p, &state));
    TRY(program_run(p, PHASE_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    TRY(program_wait(p));
    uint64_t backward = clock_ns();
    reducer_begin(v->reducer, true, true, false, false);
    TRY(program_backward(p, reducer_complete, v->reducer));
    TRY(program_wait(p));
    uint64_t computed = clock_ns();
    TRY(reducer_finish(v->reducer));
    uint64_t reduced = clock_ns();
    TRY(program_run(p, PHASE_CHECK));
    TRY(program_run(p, PHASE_UPDATE));
    TRY(program_wait(p));
    part[PART_STEP] = (double)(clock_ns() - begun) * 1e-9;
    part[PART_BACKWARD] = (double)(computed - backward) * 1e-9;
    part[PART_WAIT] = (double)(reduced - computed) * 1e-9;
    part[PART_BUSY] = reducer_busy_s(v->reducer, 0);
    part[PART_EXPOSED] = reducer_busy_after_s(v->reducer, (int64_t)computed);
    return STATUS_OK;
}

/* Returns the fraction of communication that is hidden by the backward pass, or 0 if there was no
 * communication (`busy` is 0). */
static double share_hidden(double exposed, double busy)
{
    return busy > 0 ? 1 - exposed / busy : 0;
}

/* Computes the derived parts from the means over ranks. `least` has, for each variant, the smallest
 * exposed time over all ranks. */
static void derive(struct overlap *o, int round, const double *least)
{
    double alone = o->variant[0].sample[PART_BACKWARD][round];
    for (int i = 0; i < o->n; i++) {
        double **s = o->variant[i].sample;
        double busy = s[PART_BUSY][round];
        s[PART_GRADIENTS][round] = s[PART_BACKWARD][round] + s[PART_WAIT][round];
        s[PART_COST][round] = s[PART_GRADIENTS][round] - alone;
        s[PART_LATE][round] = s[PART_EXPOSED][round] - least[i];
        s[PART_HIDDEN][round] = share_hidden(s[PART_EXPOSED][round], busy);
        s[PART_EVEN][round] = share_hidden(least[i], busy - s[PART_LATE][round]);
    }
}

/* Runs one step of each variant. Each round begins with a different variant. Round -1 is the
 * warm-up. */
static enum status round_run(struct overlap *o, int round)
{
    double part[1 + OVERLAP_SIZES_MAX][PART_MEASURED], least[1 + OVERLAP_SIZES_MAX];
    struct comm_op minimum = {.kind = COMM_ALLREDUCE,
                              .reduction = COMM_MIN,
                              .type = DTYPE_F64,
                              .send = least,
                              .recv = least,
                              .count = o->n};
    for (int i = 0; i < o->n; i++) {
        int turned = (i + round + 1) % o->n;
        TRY(step_run(o, &o->variant[turned], part[turned]));
    }
    for (int i = 0; i < o->n; i++)
        least[i] = part[i][PART_EXPOSED];
    TRY(comm_run(o->world.comm, &minimum));
    TRY(comm_sum(o->world.comm, part[0], o->n * PART_MEASURED));
    if (round < 0)
        return STATUS_OK;
    for (int i = 0; i < o->n; i++)
        for (int k = 0; k < PART_MEASURED; k++)
            o->variant[i].sample[k][round] = part[i][k] / o->world.size;
    derive(o, round, least);
    return STATUS_OK;
}

/* Checks that all ranks have the same settings and the same layout of weights. The layout depends
 * on processor and library. */
static enum status overlap_agree(struct overlap *o)
{
    char layout[32];
    uint64_t hash;
    json_t *settings = overlap_config_json(o->config);
    enum status st;
    json_object_del(settings, "devices");
    json_object_del(settings, "threads");
    CHECK(network_layout_hash(o->net, &hash));
    snprintf(layout, sizeof layout, "%016" PRIx64, hash);
    json_put(settings, "fingerprint of the layout of weights (processor and library)",
             json_utf8(layout));
    CHECK(world_agree(&o->world, settings));
done:
    json_decref(settings);
    return st;
}

/* Returns the configuration of a variant's reducer. Buckets are as in training; a size of 0 MiB
 * means one bucket for all gradients. */
static struct reducer_config reducer_config(const struct overlap *o, int variant)
{
    struct reducer_config r = {.net = o->net, .first_bytes = SIZE_MAX, .bucket_bytes = SIZE_MAX};
    if (variant == 0)
        return r;
    double mb = o->config->bucket_mb[variant - 1];
    r.comm = o->world.comm;
    r.compress = o->config->compress;
    if (mb > 0) {
        r.bucket_bytes = (size_t)(mb * (1 << 20));
        r.first_bytes = r.bucket_bytes < 1 << 20 ? r.bucket_bytes : 1 << 20;
    }
    return r;
}

/* Connects the ranks. Each rank has one device. */
static enum status overlap_join(struct overlap *o)
{
    struct world_config meeting = world_config_default();
    const char *devices = o->config->options.devices;
    TRY(device_list_parse(devices, &o->devices));
    if (o->devices.n != 1)
        return status_fail(STATUS_USAGE, "bench overlap uses one device per process, not '%s'",
                           devices);
    meeting.via = o->config->via;
    TRY(world_open(&meeting, &o->world));
    if (o->world.size < 2)
        return status_fail(STATUS_USAGE,
                           "bench overlap needs two processes or more: start it with 'ampscale "
                           "launch --nproc N -- bench overlap ...', mpirun or srun");
    return world_check_data(&o->world);
}

static enum status overlap_measure(struct overlap *o)
{
    const struct bench_options *c = &o->config->options;
    const struct harness_job job = {o->world.comm, o->world.info, 1};
    struct harness_config quiet = c->timing;
    quiet.job = &job;
    const struct backend *b = o->devices.backend;
    TRY(graph_build(c->net, 1000, c->image_size, &o->graph));
    int threads = c->threads ? c->threads : world_threads(&o->world, 1);
    TRY(b->open(b, o->devices.index[0], threads, &o->dev));
    TRY(noise_step_open(o->dev, o->graph, c, true, &o->net));
    TRY(overlap_agree(o));
    int rounds = o->config->options.rounds;
    o->n = 1 + o->config->n_sizes;
    TRY(array_new(&o->samples, (int64_t)o->n * PART_COUNT * rounds));
    for (int i = 0; i < o->n; i++) {
        struct reducer_config r = reducer_config(o, i);
        TRY(reducer_open(&r, &o->variant[i].reducer));
        for (int k = 0; k < PART_COUNT; k++)
            o->variant[i].sample[k] = o->samples + (i * PART_COUNT + k) * rounds;
    }
    struct bar *bar = o->world.rank == 0 ? c->timing.bar : NULL;
    struct quiet q = quiet_begin(&quiet);
    do {
        bar_begin(bar, rounds + 1);
        for (int round = -1; round < rounds; round++) {
            TRY(round_run(o, round));
            bar_step(bar);
        }
        TRY(quiet_end(&q, &o->noise));
    } while (q.again);
    return o->world.rank == 0 ? overlap_report(o) : STATUS_OK;
}

enum status bench_overlap(const struct overlap_config *c)
{
    struct overlap o = {.config = c};
    enum status st = overlap_join(&o);
    st = st == STATUS_OK ? overlap_measure(&o) : st;
    if (st != STATUS_OK && o.world.size > 1)
        comm_fail(o.world.comm, st, status_message());
    for (int i = 0; i < o.n; i++)
        reducer_close(o.variant[i].reducer);
    network_close(o.net);
    device_close(o.dev);
    graph_free(o.graph);
    world_close(&o.world);
    free(o.samples);
    return st;
}
