/* Timing a network's convolutions against its training step. */
#include "bench/conv.h"

#include "base/stats.h"
#include "bench/conv_pass.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const pass_name[CONV_PASSES] = {"fwd", "bwd_data", "bwd_weights"};

/* One distinct convolution; count[p] layers of the network run pass p of it. */
struct shape {
    char layer[NAME_MAX_LEN]; /* the first that has it */
    struct op_desc fwd;
    int count[CONV_PASSES];
    struct timed_op op[CONV_PASSES];
    int64_t wrong[CONV_PASSES]; /* of the elements that were computed again */
};

struct conv_bench {
    const struct bench_net_config *config;
    struct device *dev;
    struct stream *stream;
    struct graph *graph;
    struct network *net; /* NULL without the step */
    int n;
    struct shape *shape;
    double *step_seconds; /* (rounds) */
    int64_t wrong;        /* in all shapes */
};

/* ANY layout everywhere: the library's choice. */
static struct op_desc describe(const struct node *n, int64_t batch, const struct node *in)
{
    struct op_desc d = {.kind = OP_CONV_FWD,
                        .attr.conv = {.stride = {n->stride, n->stride},
                                      .pad = {n->pad, n->pad},
                                      .groups = n->groups}};
    d.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_ANY, batch, in->c, in->h, in->w);
    d.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_ANY, batch, n->c, n->h, n->w);
    d.t[ROLE_W] = tensor_4d(DTYPE_F32, LAYOUT_ANY, n->c, in->c / n->groups, n->kernel, n->kernel);
    if (n->bias >= 0)
        d.t[ROLE_B] = tensor_1d(DTYPE_F32, n->c);
    return d;
}

static bool same_dims(const struct tensor_desc *a, const struct tensor_desc *b)
{
    return memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

/* By what `describe` tells apart. */
static bool same_shape(const struct op_desc *a, const struct op_desc *b)
{
    const struct conv_attr *p = &a->attr.conv, *q = &b->attr.conv;
    return same_dims(&a->t[ROLE_X], &b->t[ROLE_X]) && same_dims(&a->t[ROLE_W], &b->t[ROLE_W]) &&
           a->t[ROLE_B].ndim == b->t[ROLE_B].ndim && p->stride[0] == q->stride[0] &&
           p->pad[0] == q->pad[0] && p->groups == q->groups;
}

static struct shape *find_shape(struct conv_bench *b, const struct node *n, const struct op_desc *d)
{
    for (int i = 0; i < b->n; i++)
        if (same_shape(&b->shape[i].fwd, d))
            return &b->shape[i];
    struct shape *s = &b->shape[b->n++];
    s->fwd = *d;
    snprintf(s->layer, sizeof s->layer, "%s", n->name);
    return s;
}

static enum status collect_shapes(struct conv_bench *b)
{
    const struct graph *g = b->graph;
    b->shape = calloc((size_t)g->n_nodes, sizeof *b->shape);
    if (!b->shape)
        return status_fail(STATUS_OOM, "no memory for a benchmark");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        if (n->kind != NODE_CONV)
            continue;
        struct op_desc d = describe(n, b->config->batch, &g->node[n->in[0]]);
        struct shape *s = find_shape(b, n, &d);
        bool first = g->node[n->in[0]].kind == NODE_INPUT; /* the image needs no gradient */
        for (int p = 0; p < CONV_PASSES; p++)
            s->count[p] += !(first && p == 1);
    }
    if (b->n == 0)
        return status_fail(STATUS_USAGE, "'%s' has no convolution", g->arch);
    return STATUS_OK;
}

static enum status open_ops(struct conv_bench *b)
{
    for (int i = 0; i < b->n; i++) {
        for (int p = 0; p < CONV_PASSES; p++) {
            struct op_desc d = conv_pass(&b->shape[i].fwd, p);
            if (b->shape[i].count[p] == 0)
                continue;
            TRY(timed_op_open(&b->shape[i].op[p], b->stream, &d, b->config->rounds));
            TRY(timed_op_warm(&b->shape[i].op[p]));
        }
    }
    return STATUS_OK;
}

/* Round by round: every convolution once, then the step once. */
static enum status run_rounds(struct conv_bench *b)
{
    for (int r = 0; r < b->config->rounds; r++) {
        for (int i = 0; i < b->n; i++)
            for (int p = 0; p < CONV_PASSES; p++)
                if (b->shape[i].count[p])
                    TRY(timed_op_sample(&b->shape[i].op[p]));
        if (b->net)
            TRY(noise_step_run(b->net, &b->step_seconds[r]));
    }
    return STATUS_OK;
}

/* What the last round has left behind, when all has been timed. */
static enum status check_ops(struct conv_bench *b)
{
    for (int i = 0; i < b->n; i++)
        for (int p = 0; p < CONV_PASSES; p++) {
            struct shape *s = &b->shape[i];
            if (s->count[p])
                TRY(conv_pass_check(&s->op[p], &s->wrong[p]));
            b->wrong += s->wrong[p];
        }
    return STATUS_OK;
}

/* Seconds of all convolutions of a step in round r. */
static double round_bound(const struct conv_bench *b, int r)
{
    double sum = 0;
    for (int i = 0; i < b->n; i++)
        for (int p = 0; p < CONV_PASSES; p++)
            if (b->shape[i].count[p])
                sum += b->shape[i].count[p] * b->shape[i].op[p].seconds[r];
    return sum;
}

static double median_of(const double *x, int n)
{
    struct stats s;
    return stats_of(x, n, &s) == STATUS_OK ? s.median : 0;
}

static json_t *pass_json(const struct shape *s, int p)
{
    const struct timed_op *t = &s->op[p];
    double seconds = median_of(t->seconds, t->n);
    return json_pack("{s:i, s:s, s:f, s:f, s:I}", "count", s->count[p], "impl", t->plan->impl,
                     "seconds", seconds, "gflops", op_flops(&t->plan->desc) / seconds * 1e-9,
                     "wrong", (json_int_t)s->wrong[p]);
}

static json_t *shape_json(const struct shape *s)
{
    const struct op_desc *d = &s->fwd;
    json_t *o = json_pack("{s:s, s:[I,I,I,I], s:[I,I,I,I], s:i, s:i, s:i}", "layer", s->layer, "x",
                          (json_int_t)d->t[ROLE_X].dim[0], (json_int_t)d->t[ROLE_X].dim[1],
                          (json_int_t)d->t[ROLE_X].dim[2], (json_int_t)d->t[ROLE_X].dim[3], "w",
                          (json_int_t)d->t[ROLE_W].dim[0], (json_int_t)d->t[ROLE_W].dim[1],
                          (json_int_t)d->t[ROLE_W].dim[2], (json_int_t)d->t[ROLE_W].dim[3],
                          "stride", d->attr.conv.stride[0], "pad", d->attr.conv.pad[0], "groups",
                          d->attr.conv.groups);
    for (int p = 0; p < CONV_PASSES; p++)
        if (s->count[p])
            json_object_set_new(o, pass_name[p], pass_json(s, p));
    return o;
}

static void print_row(FILE *out, const struct shape *s)
{
    const struct op_desc *d = &s->fwd;
    char shape[64], kernel[32];
    int64_t wrong = 0;
    snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, d->t[ROLE_X].dim[1],
             d->t[ROLE_X].dim[2], d->t[ROLE_X].dim[3]);
    snprintf(kernel, sizeof kernel, "%" PRId64 "x%" PRId64 "/%d", d->t[ROLE_W].dim[2],
             d->t[ROLE_W].dim[3], d->attr.conv.stride[0]);
    fprintf(out, "%-24s %3d  %-13s %-6s %5" PRId64, s->layer, s->count[0], shape, kernel,
            d->t[ROLE_W].dim[0]);
    for (int p = 0; p < CONV_PASSES; p++) {
        double seconds = s->count[p] ? median_of(s->op[p].seconds, s->op[p].n) : 0;
        wrong += s->wrong[p];
        if (s->count[p])
            fprintf(out, " %9.3f %7.1f", seconds * 1e3,
                    op_flops(&s->op[p].plan->desc) / seconds * 1e-9);
        else
            fprintf(out, " %9s %7s", "-", "-");
    }
    fprintf(out, " %6" PRId64 "\n", wrong);
}

static void print_table(const struct conv_bench *b)
{
    FILE *out = b->config->out;
    fprintf(out, "%-24s %3s  %-13s %-6s %5s", "layer", "n", "input", "kernel", "out");
    for (int p = 0; p < CONV_PASSES; p++)
        fprintf(out, " %17s", pass_name[p]);
    fprintf(out, "\n%-24s %3s  %-13s %-6s %5s", "", "", "", "", "");
    for (int p = 0; p < CONV_PASSES; p++)
        fprintf(out, " %9s %7s", "ms", "GFLOP/s");
    fprintf(out, " %6s\n", "#wrong");
    for (int i = 0; i < b->n; i++)
        print_row(out, &b->shape[i]);
}

/* Over the rounds: seconds of the convolutions, of the step, and what share they are of it. */
struct summary {
    struct stats bound, step, share; /* the last two of nothing without the step */
};

static enum status sum_up(const struct conv_bench *b, struct summary *s)
{
    double bound[64], share[64];
    int rounds = b->config->rounds;
    *s = (struct summary){.step.n = 0};
    for (int r = 0; r < rounds; r++) {
        bound[r] = round_bound(b, r);
        share[r] = b->net ? bound[r] / b->step_seconds[r] : 0;
    }
    TRY(stats_of(bound, rounds, &s->bound));
    if (!b->net)
        return STATUS_OK;
    TRY(stats_of(b->step_seconds, rounds, &s->step));
    return stats_of(share, rounds, &s->share);
}

static enum status print_json(const struct conv_bench *b, const char *about,
                              const struct summary *s)
{
    const struct bench_net_config *c = b->config;
    json_t *shapes = json_array();
    for (int i = 0; i < b->n; i++)
        json_array_append_new(shapes, shape_json(&b->shape[i]));
    json_t *o =
        json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:I, s:f}", "schema", 1, "bench",
                  "conv", "device", about, "net", c->net, "batch", c->batch, "image_size",
                  c->image_size, "rounds", c->rounds, "shapes", shapes, "wrong",
                  (json_int_t)b->wrong, "bound_images_per_s", c->batch / s->bound.median);
    if (!o)
        return status_fail(STATUS_OOM, "no memory for the record");
    if (b->net) {
        json_object_set_new(o, "step_images_per_s", json_real(c->batch / s->step.median));
        json_object_set_new(o, "step_share_of_bound", json_real(s->share.median));
    }
    json_dumpf(o, c->out, JSON_INDENT(1));
    fputc('\n', c->out);
    json_decref(o);
    return STATUS_OK;
}

/* The bound, the step, and their ratio. */
static enum status report(const struct conv_bench *b)
{
    const struct bench_net_config *c = b->config;
    char about[256];
    struct summary s;
    TRY(sum_up(b, &s));
    b->dev->backend->describe(b->dev, about, sizeof about);
    if (c->json)
        return print_json(b, about, &s);
    fprintf(c->out, "%s, %d px, batch %d on %s\n", c->net, c->image_size, c->batch, about);
    print_table(b);
    fprintf(c->out, "convolutions alone: %8.3f s per step (%.3f to %.3f), bound %.2f images/s\n",
            s.bound.median, s.bound.min, s.bound.max, c->batch / s.bound.median);
    if (b->net)
        fprintf(c->out,
                "training step:      %8.3f s          (%.3f to %.3f),       %.2f images/s: %.3f of "
                "the bound (%.3f to %.3f over %d rounds)\n",
                s.step.median, s.step.min, s.step.max, c->batch / s.step.median, s.share.median,
                s.share.min, s.share.max, c->rounds);
    return STATUS_OK;
}

static void close_bench(struct conv_bench *b)
{
    for (int i = 0; i < b->n; i++)
        for (int p = 0; p < CONV_PASSES; p++)
            timed_op_close(&b->shape[i].op[p]);
    network_close(b->net);
    if (b->stream)
        b->dev->backend->stream_close(b->stream);
    device_close(b->dev);
    graph_free(b->graph);
    free(b->shape);
    free(b->step_seconds);
}

enum status bench_conv(const struct bench_net_config *c)
{
    enum status st;
    struct conv_bench b = {.config = c};
    b.step_seconds = calloc((size_t)c->rounds, sizeof *b.step_seconds);
    if (!b.step_seconds)
        return status_fail(STATUS_OOM, "no memory for a benchmark");
    CHECK(graph_build(c->net, 1000, c->image_size, &b.graph));
    CHECK(device_open(c->devices, c->threads, &b.dev));
    CHECK(b.dev->backend->stream_open(b.dev, &b.stream));
    CHECK(collect_shapes(&b));
    CHECK(open_ops(&b));
    if (!c->no_step)
        CHECK(noise_step_open(b.dev, b.graph, c, &b.net));
    CHECK(run_rounds(&b));
    CHECK(check_ops(&b));
    CHECK(report(&b));
    if (b.wrong > 0)
        st =
            status_fail(STATUS_MISMATCH, "%" PRId64 " elements of convolutions are wrong", b.wrong);
done:
    close_bench(&b);
    return st;
}
