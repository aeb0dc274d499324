/* Times each operation of a training step while the whole step runs. */
#include "bench/step.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "bench/micro.h"
#include "bench/record.h"

#include <math.h>
#include <stdlib.h>

enum { STEP_SCHEMA = 2 };

struct step_bench {
    const struct bench_options *options;
    struct micro micro; /* with its peaks */
    struct graph *graph;
    struct network *net;
    int n;               /* number of operations */
    struct event **mark; /* (n + 1) events: before each operation, and after the last one */
    double *seconds;     /* (n, rounds) times of the operations; NULL if nothing is timed */
    struct host_noise noise;
};

/* Times a step without waiting between operations. So, on an asynchronous device, the launch of an
 * operation overlaps with the execution of earlier operations. */
static enum status run_round(struct step_bench *b, int round)
{
    struct program *p = network_program(b->net, 0);
    struct stream *s = network_stream(b->net);
    const struct backend *be = b->micro.dev->backend;
    TRY(be->event_record(b->mark[0], s));
    for (int i = 0; i < b->n; i++) {
        TRY(program_run_step(p, i));
        TRY(be->event_record(b->mark[i + 1], s));
    }
    TRY(program_wait(p));
    for (int i = 0; i < b->n; i++)
        b->seconds[(size_t)i * (size_t)b->options->rounds + (size_t)round] =
            be->event_seconds(b->mark[i], b->mark[i + 1]);
    return STATUS_OK;
}

static enum status run_rounds(struct step_bench *b)
{
    b->n = program_steps(network_program(b->net, 0));
    TRY(array_new(&b->seconds, (int64_t)b->n * b->options->rounds));
    TRY(array_new(&b->mark, b->n + 1));
    for (int i = 0; i <= b->n; i++)
        TRY(b->micro.dev->backend->event_open(b->micro.dev, &b->mark[i]));
    struct quiet q = quiet_begin(&b->options->timing);
    do {
        bar_begin(b->options->timing.bar, b->options->rounds);
        for (int r = 0; r < b->options->rounds; r++) {
            TRY(run_round(b, r));
            bar_step(b->options->timing.bar);
        }
        TRY(quiet_end(&q, &b->noise));
    } while (q.again);
    return STATUS_OK;
}

/* Runs one step, with a profiler mark before each operation. */
static enum status run_marked(struct step_bench *b)
{
    struct program *p = network_program(b->net, 0);
    struct stream *s = network_stream(b->net);
    const struct backend *be = b->micro.dev->backend;
    if (!be->profile)
        return status_fail(STATUS_DATA, "the device '%s' has no profiler", b->options->devices);
    b->n = program_steps(p);
    TRY(be->profile(s, PROFILE_BEGIN));
    for (int i = 0; i < b->n; i++) {
        TRY(be->profile(s, PROFILE_MARK));
        TRY(program_run_step(p, i));
    }
    TRY(program_wait(p));
    return be->profile(s, PROFILE_END);
}

/* --- operations --- */

/* A line of the report: one operation, or the sums over several operations. */
struct step_line {
    struct step_info info; /* used if the line is one operation */
    const char *name;      /* used if the line is a sum */
    int n;
    double seconds, bytes, flops;
    double bound_s; /* NaN: unknown */
    double of_peak; /* share of the peak that may be reached; NaN: unknown */
    const char *bound;
};

static enum status step_line(const struct step_bench *b, int i, struct step_line *l)
{
    struct step_info info = program_step(network_program(b->net, 0), i);
    const struct op_desc *d = &info.plan->desc;
    double flops = info.plan->flops > 0 ? info.plan->flops : roofline_flops(d);
    struct bound bound = roofline_bound(&b->micro.peaks, d, flops);
    struct stats t = {.median = NAN};
    int rounds = b->options->rounds;
    if (b->seconds)
        TRY(stats_of(b->seconds + (size_t)i * (size_t)rounds, rounds, &t));
    *l = (struct step_line){
        .info = info,
        .n = 1,
        .seconds = t.median,
        .bytes = roofline_bytes(d),
        .flops = roofline_flops(d),
        .bound_s = bound.seconds,
        .of_peak = bound.compute ? bound.seconds / t.median
                                 : roofline_bytes(d) / t.median /
                                       roofline_highest(&b->micro.peaks, roofline_bytes(d)),
        .bound = isnan(bound.seconds) ? "-"
                 : bound.compute      ? "compute"
                                      : "memory"};
    return STATUS_OK;
}

static void step_columns(struct bench_table *t, const void *line)
{
    const struct step_line *l = line;
    const struct op_plan *plan = l->info.plan;
    column_text(t, "layer", "layer", -24, l->info.layer);
    column_text(t, "phase", NULL, 0, phase_str(l->info.phase));
    column_text(t, "op", "operation", -18, op_str(plan->desc.kind));
    t->absent = isnan(l->seconds);
    column_real(t, "seconds", "ms", 9, 3, 1e3, l->seconds);
    t->absent = false;
    column_real(t, "bytes", "MiB", 9, 2, 0x1p-20, l->bytes);
    column_real(t, "flops", "GFLOP", 8, 3, 1e-9, l->flops);
    column_real(t, NULL, "GB/s", 8, 1, 1e-9, l->bytes / l->seconds);
    column_real(t, NULL, "GFLOP/s", 8, 1, 1e-9, l->flops / l->seconds);
    column_text(t, "bound", "bound", -7, l->bound);
    t->absent = isnan(l->bound_s);
    column_real(t, "bound_s", "bound ms", 9, 3, 1e3, l->bound_s);
    t->absent = isnan(l->bound_s / l->seconds);
    column_real(t, "share", "share", 5, 2, 1, l->bound_s / l->seconds);
    t->absent = false;
    column_text(t, "impl", "implementation", 0, plan->impl);
    column_noise(t, NULL, l->of_peak);
}

/* --- sums by kind of operation (only in the text report) --- */

static void step_kind_columns(struct bench_table *t, const void *line)
{
    const struct step_line *l = line, *all = t->context;
    column_text(t, NULL, "operation", -18, l->name);
    column_int(t, NULL, "n", 4, l->n);
    column_real(t, NULL, "ms", 9, 3, 1e3, l->seconds);
    column_real(t, NULL, "part %", 6, 1, 100, l->seconds / all->seconds);
    column_real(t, NULL, "GB/s", 8, 1, 1e-9, l->bytes / l->seconds);
    column_real(t, NULL, "GFLOP/s", 8, 1, 1e-9, l->flops / l->seconds);
    column_real(t, NULL, "bound ms", 9, 3, 1e3, l->bound_s);
    column_real(t, NULL, "share", 5, 2, 1, l->bound_s / l->seconds);
}

static void add_line(struct step_line *sum, const struct step_line *l)
{
    sum->n += l->n;
    sum->seconds += l->seconds;
    sum->bytes += l->bytes;
    sum->flops += l->flops;
    sum->bound_s += l->bound_s;
}

static void print_kinds(const struct step_bench *b, struct step_line sum[OP_KIND_COUNT])
{
    struct step_line all = {.name = "all"};
    struct bench_table t = {.out = b->options->out, .columns = step_kind_columns, .context = &all};
    for (int k = 0; k < OP_KIND_COUNT; k++)
        add_line(&all, &sum[k]);
    fputc('\n', t.out);
    bench_table_open(&t, &all);
    for (int k = 0; k < OP_KIND_COUNT; k++) {
        sum[k].name = op_str((enum op_kind)k);
        if (sum[k].n)
            bench_table_row(&t, &sum[k]);
    }
    bench_table_row(&t, &all);
}

/* --- the choices of FUSE_AUTO, and their times --- */

static void fusion_columns(struct bench_table *t, const void *row)
{
    const struct fusion *f = row;
    column_text(t, "layer", "layer", -24, f->layer);
    column_text(t, "form", "form", -8, f->form);
    column_real(t, "fused_s", "fused ms", 9, 3, 1e3, f->fused);
    column_real(t, "parts_s", "parts ms", 9, 3, 1e3, f->parts);
    column_bool(t, "taken", f->taken);
    if (f->why[0])
        column_text(t, "why", NULL, 0, f->why);
    column_text(t, NULL, "choice", 0,
                f->taken       ? "fused"
                : f->why[0]    ? f->why
                : f->parts > 0 ? "parts"
                               : "parts, not timed");
}

void step_fusions(const struct bench_options *o, const struct program *p, struct bench_table *t)
{
    int n;
    const struct fusion *f = program_fusions(p, &n);
    *t = bench_table_of(o, fusion_columns, NULL);
    if (n > 0 && t->format == BENCH_TEXT)
        fputc('\n', t->out);
    bench_table_rows(t, f, n, sizeof *f);
}

/* --- the benchmark --- */

static enum status step_record(const struct step_bench *b, struct bench_table *lines)
{
    const struct bench_options *o = b->options;
    const struct bench_head head = {"step", STEP_SCHEMA, b->micro.about, b->micro.dev->threads};
    struct bench_table fusions = {.rows = NULL};
    if (o->format != BENCH_CSV)
        step_fusions(o, network_program(b->net, 0), &fusions);
    json_t *choices = bench_table_take(&fusions);
    return bench_record_rows(&head,
                             json_new("{s:s, s:i, s:i, s:i, s:s, s:s, s:o, s:o*}", "net", o->net,
                                      "batch", o->batch, "image_size", o->image_size, "rounds",
                                      o->rounds, "precision", bench_precision(o), "fuse",
                                      fuse_str(o->fuse), "peaks", peaks_json(&b->micro.peaks),
                                      "fusions", choices),
                             "steps", lines);
}

static enum status step_report(const struct step_bench *b)
{
    const struct bench_options *o = b->options;
    struct bench_table t = bench_table_of(o, step_columns, NULL);
    struct step_line l, sum[OP_KIND_COUNT] = {{.n = 0}};
    enum status st;
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s, %d px, batch %d on %s\n", o->net, o->image_size, o->batch,
                b->micro.about);
    t.noise = b->seconds ? &b->noise : NULL;
    CHECK(step_line(b, 0, &l));
    bench_table_open(&t, &l);
    for (int i = 0; i < b->n; i++) {
        CHECK(step_line(b, i, &l));
        add_line(&sum[l.info.plan->desc.kind], &l);
        bench_table_row(&t, &l);
    }
    if (o->format == BENCH_TEXT)
        print_kinds(b, sum);
    st = step_record(b, &t);
done:
    bench_table_close(&t);
    return st;
}

/* Called after a library failed with status `st`. Adds to the message of the failure how to disable
 * fusion. */
static enum status without_fusion(enum status st)
{
    char why[STATUS_MESSAGE_MAX];
    snprintf(why, sizeof why, "%s", status_message());
    return status_fail(st, "%s; --fuse none times the step without fused operations", why);
}

enum status bench_step(const struct bench_options *options, bool marked)
{
    struct bench_options o = *options;
    struct step_bench b = {.options = &o};
    enum status st;
    if (marked)
        o.format = BENCH_JSON;
    CHECK(graph_build(o.net, 1000, o.image_size, &b.graph));
    CHECK(micro_open(o.devices, o.threads, &b.micro));
    CHECK(micro_peaks(&b.micro, o.peak, o.rounds));
    CHECK(noise_step_open(b.micro.dev, b.graph, &o, false, &b.net));
    CHECK(marked ? run_marked(&b) : run_rounds(&b));
    CHECK(step_report(&b));
done:
    if (st == STATUS_LIBRARY && o.fuse != FUSE_NONE && b.micro.dev &&
        b.micro.dev->backend->asynchronous)
        st = without_fusion(st);
    network_close(b.net);
    for (int i = 0; b.mark && i <= b.n; i++)
        b.micro.dev->backend->event_close(b.mark[i]);
    free(b.mark);
    micro_close(&b.micro);
    graph_free(b.graph);
    free(b.seconds);
    return st;
}
