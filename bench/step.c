/* Timing a training step's operations in their places. */
#include "bench/step.h"

#include "base/stats.h"
#include "bench/peak.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

struct step_bench {
    const struct bench_net_config *config;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    int n;               /* operations */
    struct event **mark; /* (n + 1): before each operation, and after the last */
    double *seconds;     /* (n, rounds) */
    struct peaks peaks;
};

/* Sums over the operations of one kind. */
struct kind_sum {
    int n;
    double seconds, bytes, flops;
    double bound; /* seconds */
};

/* A step from its first operation to its last, without waiting in between: how long the host takes
 * to start an operation of a device beside it is hidden by those that are on their way. */
static enum status run_round(struct step_bench *b, int round)
{
    struct program *p = network_program(b->net, 0);
    struct stream *s = network_stream(b->net);
    const struct backend *be = b->dev->backend;
    TRY(be->event_record(b->mark[0], s));
    for (int i = 0; i < b->n; i++) {
        TRY(program_run_step(p, i));
        TRY(be->event_record(b->mark[i + 1], s));
    }
    TRY(program_wait(p));
    for (int i = 0; i < b->n; i++)
        b->seconds[(size_t)i * (size_t)b->config->rounds + (size_t)round] =
            be->event_seconds(b->mark[i], b->mark[i + 1]);
    return STATUS_OK;
}

static enum status run_rounds(struct step_bench *b)
{
    b->n = program_steps(network_program(b->net, 0));
    b->seconds = calloc((size_t)b->n * (size_t)b->config->rounds, sizeof *b->seconds);
    b->mark = calloc((size_t)b->n + 1, sizeof(struct event *));
    if (!b->seconds || !b->mark)
        return status_fail(STATUS_OOM, "no memory for timings");
    for (int i = 0; i <= b->n; i++)
        TRY(b->dev->backend->event_open(b->dev, &b->mark[i]));
    for (int r = 0; r < b->config->rounds; r++)
        TRY(run_round(b, r));
    return STATUS_OK;
}

static void close_marks(struct step_bench *b)
{
    for (int i = 0; b->mark && i <= b->n; i++)
        if (b->mark[i])
            b->dev->backend->event_close(b->mark[i]);
    free(b->mark);
}

/* One operation as it is reported. */
struct line {
    const struct step_info *info;
    double seconds, bytes, flops;
    struct bound bound;
};

static struct line line_of(const struct step_bench *b, const struct step_info *info, double seconds)
{
    const struct op_desc *d = &info->plan->desc;
    return (struct line){.info = info,
                         .seconds = seconds,
                         .bytes = roofline_bytes(d),
                         .flops = op_flops(d),
                         .bound = roofline_bound(&b->peaks, d)};
}

static const char *bound_str(const struct bound *b)
{
    return isnan(b->seconds) ? "-" : b->compute ? "compute" : "memory";
}

static void print_line(const struct step_bench *b, const struct line *l)
{
    const struct op_plan *plan = l->info->plan;
    fprintf(b->config->out, "%-24s %-18s %9.3f %9.2f %8.3f %8.1f %8.1f  %-7s %9.3f %5.2f  %s\n",
            l->info->layer, op_str(plan->desc.kind), l->seconds * 1e3, l->bytes / 1048576,
            l->flops * 1e-9, l->bytes / l->seconds * 1e-9, l->flops / l->seconds * 1e-9,
            bound_str(&l->bound), l->bound.seconds * 1e3, l->bound.seconds / l->seconds,
            plan->impl);
}

static json_t *line_json(const struct line *l)
{
    const struct op_plan *plan = l->info->plan;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:s}", "layer", l->info->layer,
                          "phase", phase_str(l->info->phase), "op", op_str(plan->desc.kind), "impl",
                          plan->impl, "seconds", l->seconds, "bytes", l->bytes, "flops", l->flops,
                          "bound", bound_str(&l->bound));
    if (o && !isnan(l->bound.seconds)) {
        json_object_set_new(o, "bound_s", json_real(l->bound.seconds));
        json_object_set_new(o, "share", json_real(l->bound.seconds / l->seconds));
    }
    return o;
}

static void print_kind(FILE *out, const char *name, const struct kind_sum *k, double all)
{
    fprintf(out, "%-18s %4d %9.3f %5.1f%% %8.1f %8.1f %9.3f %5.2f\n", name, k->n, k->seconds * 1e3,
            100 * k->seconds / all, k->bytes / k->seconds * 1e-9, k->flops / k->seconds * 1e-9,
            k->bound * 1e3, k->bound / k->seconds);
}

static void print_kinds(const struct step_bench *b, const struct kind_sum *sum)
{
    FILE *out = b->config->out;
    struct kind_sum all = {0};
    for (int k = 0; k < OP_KIND_COUNT; k++) {
        all.n += sum[k].n;
        all.seconds += sum[k].seconds;
        all.bytes += sum[k].bytes;
        all.flops += sum[k].flops;
        all.bound += sum[k].bound;
    }
    fprintf(out, "\n%-18s %4s %9s %6s %8s %8s %9s %5s\n", "operation", "n", "ms", "part", "GB/s",
            "GFLOP/s", "bound ms", "share");
    for (int k = 0; k < OP_KIND_COUNT; k++)
        if (sum[k].n)
            print_kind(out, op_str((enum op_kind)k), &sum[k], all.seconds);
    print_kind(out, "all", &all, all.seconds);
}

static void print_head(const struct step_bench *b)
{
    const struct bench_net_config *c = b->config;
    char about[256];
    b->dev->backend->describe(b->dev, about, sizeof about);
    fprintf(c->out, "%s, %d px, batch %d on %s\n", c->net, c->image_size, c->batch, about);
    fprintf(c->out, "%-24s %-18s %9s %9s %8s %8s %8s  %-7s %9s %5s  %s\n", "layer", "operation",
            "ms", "MiB", "GFLOP", "GB/s", "GFLOP/s", "bound", "bound ms", "share",
            "implementation");
}

/* What FUSE_AUTO decided, and by which times. */
static void print_fusions(const struct step_bench *b)
{
    int n;
    const struct fusion *c = program_fusions(network_program(b->net, 0), &n);
    if (n == 0)
        return;
    fprintf(b->config->out, "\n%-24s %-8s %9s %9s  %s\n", "layer", "form", "fused ms", "parts ms",
            "choice");
    for (int i = 0; i < n; i++) {
        const char *choice = c[i].taken ? "fused" : c[i].parts > 0 ? "parts" : "parts, not timed";
        fprintf(b->config->out, "%-24s %-8s %9.3f %9.3f  %s\n", c[i].layer, c[i].form,
                c[i].fused * 1e3, c[i].parts * 1e3, choice);
    }
}

static json_t *fusions_json(const struct step_bench *b)
{
    int n;
    const struct fusion *c = program_fusions(network_program(b->net, 0), &n);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:b}", "layer", c[i].layer,
                                              "form", c[i].form, "fused_s", c[i].fused, "parts_s",
                                              c[i].parts, "taken", c[i].taken));
    return list;
}

static enum status print_json(const struct step_bench *b, json_t *lines)
{
    const struct bench_net_config *c = b->config;
    char about[256];
    b->dev->backend->describe(b->dev, about, sizeof about);
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:O}", "schema",
                          2, "bench", "step", "device", about, "net", c->net, "batch", c->batch,
                          "image_size", c->image_size, "rounds", c->rounds, "precision",
                          c->precision ? c->precision : "fp32", "fuse", fuse_str(c->fuse), "peaks",
                          peaks_json(&b->peaks), "fusions", fusions_json(b), "steps", lines);
    if (!o)
        return status_fail(STATUS_OOM, "no memory for the record");
    json_dumpf(o, c->out, JSON_INDENT(1));
    fputc('\n', c->out);
    json_decref(o);
    return STATUS_OK;
}

static enum status report(const struct step_bench *b)
{
    const struct bench_net_config *c = b->config;
    enum status st = STATUS_OK;
    struct kind_sum sum[OP_KIND_COUNT] = {{0}};
    json_t *lines = json_array();
    if (!c->json)
        print_head(b);
    for (int i = 0; i < b->n; i++) {
        struct step_info s = program_step(network_program(b->net, 0), i);
        struct stats t;
        CHECK(stats_of(b->seconds + (size_t)i * (size_t)c->rounds, c->rounds, &t));
        struct line l = line_of(b, &s, t.median);
        struct kind_sum *k = &sum[s.plan->desc.kind];
        k->n++;
        k->seconds += l.seconds;
        k->bytes += l.bytes;
        k->flops += l.flops;
        k->bound += l.bound.seconds;
        if (c->json)
            json_array_append_new(lines, line_json(&l));
        else
            print_line(b, &l);
    }
    if (c->json)
        CHECK(print_json(b, lines));
    else {
        print_kinds(b, sum);
        print_fusions(b);
    }
done:
    json_decref(lines);
    return st;
}

/* Adds to the message of `st`, a failure of a library, what may not fail. */
static enum status without_fusion(enum status st)
{
    char why[STATUS_MESSAGE_MAX];
    snprintf(why, sizeof why, "%s", status_message());
    return status_fail(st, "%s; --fuse none times the step without fused operations", why);
}

enum status bench_step(const struct bench_net_config *c)
{
    enum status st;
    struct step_bench b = {.config = c};
    CHECK(graph_build(c->net, 1000, c->image_size, &b.graph));
    CHECK(device_open(c->devices, c->threads, &b.dev));
    CHECK(c->peak ? peaks_read(c->peak, &b.peaks) : peak_measure(b.dev, c->rounds, 0, &b.peaks));
    CHECK(noise_step_open(b.dev, b.graph, c, &b.net));
    CHECK(run_rounds(&b));
    CHECK(report(&b));
done:
    if (st == STATUS_LIBRARY && c->fuse != FUSE_NONE && b.dev && b.dev->backend->asynchronous)
        st = without_fusion(st);
    network_close(b.net);
    close_marks(&b);
    device_close(b.dev);
    graph_free(b.graph);
    free(b.seconds);
    return st;
}
