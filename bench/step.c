/* Timing a training step's operations in their places. */
#include "bench/step.h"

#include "results/stats.h"

#include <jansson.h>
#include <stdlib.h>

struct step_bench {
    const struct bench_net_config *config;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct event *from, *to;
    int n;           /* operations */
    double *seconds; /* (n, rounds) */
};

/* Sums over the operations of one kind. */
struct kind_sum {
    int n;
    double seconds, bytes, flops;
};

static enum status sample(struct step_bench *b, int i, double *seconds)
{
    struct program *p = network_program(b->net, 0);
    struct stream *s = network_stream(b->net);
    const struct backend *be = b->dev->backend;
    TRY(be->event_record(b->from, s));
    TRY(program_run_step(p, i));
    TRY(be->event_record(b->to, s));
    TRY(program_wait(p));
    *seconds = be->event_seconds(b->from, b->to);
    return STATUS_OK;
}

static enum status run_rounds(struct step_bench *b)
{
    int rounds = b->config->rounds;
    b->n = program_steps(network_program(b->net, 0));
    b->seconds = calloc((size_t)b->n * (size_t)rounds, sizeof *b->seconds);
    if (!b->seconds)
        return status_fail(STATUS_OOM, "no memory for timings");
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < b->n; i++)
            TRY(sample(b, i, &b->seconds[(size_t)i * (size_t)rounds + (size_t)r]));
    return STATUS_OK;
}

/* Bytes of every tensor that the operation names, each once: none can be left untouched. */
static double bytes_of(const struct op_desc *d)
{
    double sum = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim)
            sum += (double)d->t[r].bytes;
    return sum;
}

static void print_line(const struct step_bench *b, const struct step_info *s, double seconds)
{
    const struct op_plan *plan = s->plan;
    double flops = op_flops(&plan->desc);
    fprintf(b->config->out, "%-24s %-18s %9.3f %8.1f %8.1f  %s\n", s->layer,
            op_str(plan->desc.kind), seconds * 1e3, bytes_of(&plan->desc) / seconds * 1e-9,
            flops / seconds * 1e-9, plan->impl);
}

static json_t *line_json(const struct step_info *s, double seconds)
{
    const struct op_plan *plan = s->plan;
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "layer", s->layer, "phase",
                     phase_str(s->phase), "op", op_str(plan->desc.kind), "impl", plan->impl,
                     "seconds", seconds, "bytes", bytes_of(&plan->desc), "flops",
                     op_flops(&plan->desc));
}

static void print_kinds(const struct step_bench *b, const struct kind_sum *sum)
{
    FILE *out = b->config->out;
    double all = 0;
    for (int k = 0; k < OP_KIND_COUNT; k++)
        all += sum[k].seconds;
    fprintf(out, "\n%-18s %4s %9s %6s %8s %8s\n", "operation", "n", "ms", "share", "GB/s",
            "GFLOP/s");
    for (int k = 0; k < OP_KIND_COUNT; k++)
        if (sum[k].n)
            fprintf(out, "%-18s %4d %9.3f %5.1f%% %8.1f %8.1f\n", op_str((enum op_kind)k), sum[k].n,
                    sum[k].seconds * 1e3, 100 * sum[k].seconds / all,
                    sum[k].bytes / sum[k].seconds * 1e-9, sum[k].flops / sum[k].seconds * 1e-9);
    fprintf(out, "%-18s %4d %9.3f\n", "all", b->n, all * 1e3);
}

static enum status report(const struct step_bench *b)
{
    const struct bench_net_config *c = b->config;
    struct kind_sum sum[OP_KIND_COUNT] = {{0}};
    char about[256];
    json_t *lines = json_array();
    b->dev->backend->describe(b->dev, about, sizeof about);
    if (!c->json)
        fprintf(c->out, "%s, %d px, batch %d on %s\n%-24s %-18s %9s %8s %8s  %s\n", c->net,
                c->image_size, c->batch, about, "layer", "operation", "ms", "GB/s", "GFLOP/s",
                "implementation");
    for (int i = 0; i < b->n; i++) {
        struct step_info s = program_step(network_program(b->net, 0), i);
        struct stats t;
        TRY(stats_of(b->seconds + (size_t)i * (size_t)c->rounds, c->rounds, &t));
        struct kind_sum *k = &sum[s.plan->desc.kind];
        k->n++;
        k->seconds += t.median;
        k->bytes += bytes_of(&s.plan->desc);
        k->flops += op_flops(&s.plan->desc);
        if (c->json)
            json_array_append_new(lines, line_json(&s, t.median));
        else
            print_line(b, &s, t.median);
    }
    if (c->json) {
        json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:O}", "schema", 1, "bench",
                              "step", "device", about, "net", c->net, "batch", c->batch,
                              "image_size", c->image_size, "rounds", c->rounds, "steps", lines);
        json_dumpf(o, c->out, JSON_INDENT(1));
        fputc('\n', c->out);
        json_decref(o);
    } else {
        print_kinds(b, sum);
    }
    json_decref(lines);
    return STATUS_OK;
}

enum status bench_step(const struct bench_net_config *c)
{
    enum status st;
    struct step_bench b = {.config = c};
    CHECK(graph_build(c->net, 1000, c->image_size, &b.graph));
    CHECK(device_open(c->devices, c->threads, &b.dev));
    CHECK(b.dev->backend->event_open(b.dev, &b.from));
    CHECK(b.dev->backend->event_open(b.dev, &b.to));
    CHECK(noise_step_open(b.dev, b.graph, c, &b.net));
    CHECK(run_rounds(&b));
    CHECK(report(&b));
done:
    network_close(b.net);
    if (b.from)
        b.dev->backend->event_close(b.from);
    if (b.to)
        b.dev->backend->event_close(b.to);
    device_close(b.dev);
    graph_free(b.graph);
    free(b.seconds);
    return st;
}
