/* Times a network's convolutions, and compares the sum of their times with the time of a training
 * step. */
#include "bench/conv.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "bench/micro.h"
#include "bench/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const pass_name[CONV_PASSES] = {"fwd", "bwd_data", "bwd_weights"};

/* One distinct convolution. count[p] is the number of layers of the network that run pass p of this
 * convolution. */
struct shape {
    char layer[NAME_MAX_LEN]; /* the first layer with this shape */
    struct op_desc fwd;
    int count[CONV_PASSES];
    struct timed_op op[CONV_PASSES];
    double seconds[CONV_PASSES][BENCH_ROUNDS_MAX]; /* (rounds) of each pass */
    int64_t wrong[CONV_PASSES];                    /* recomputed elements that are wrong */
};

struct conv_bench {
    const struct bench_options *options;
    struct micro micro;
    struct graph *graph;
    struct network *net; /* NULL if the step is not timed */
    int n;
    struct shape *shape;
    double *step_seconds; /* (rounds) */
    int64_t wrong;        /* number of wrong elements of all shapes */
    struct host_noise noise;
};

/* Describes the forward convolution of a node. All layouts are ANY, so the library chooses them. */
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

/* Whether two convolutions agree in all properties that `describe` sets. */
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
    TRY(array_new(&b->shape, g->n_nodes));
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        if (n->kind != NODE_CONV)
            continue;
        struct op_desc d = describe(n, b->options->batch, &g->node[n->in[0]]);
        struct shape *s = find_shape(b, n, &d);
        bool first = g->node[n->in[0]].kind == NODE_INPUT; /* the image needs no gradient */
        for (int p = 0; p < CONV_PASSES; p++)
            s->count[p] += !(first && p == 1);
    }
    return b->n == 0 ? status_fail(STATUS_USAGE, "'%s' has no convolution", g->arch) : STATUS_OK;
}

static enum status open_ops(struct conv_bench *b)
{
    for (int i = 0; i < b->n; i++) {
        for (int p = 0; p < CONV_PASSES; p++) {
            struct op_desc d = conv_pass(&b->shape[i].fwd, p);
            if (b->shape[i].count[p] == 0)
                continue;
            TRY(timed_op_open(&b->shape[i].op[p], b->micro.stream, &d));
            TRY(timed_op_warm(&b->shape[i].op[p]));
        }
    }
    return STATUS_OK;
}

/* In each round every convolution runs once, then the step runs once. */
static enum status run_rounds(struct conv_bench *b)
{
    bar_begin(b->options->timing.bar, b->options->rounds);
    for (int r = 0; r < b->options->rounds; r++) {
        for (int i = 0; i < b->n; i++)
            for (int p = 0; p < CONV_PASSES; p++)
                if (b->shape[i].count[p])
                    TRY(timed_op_time(&b->shape[i].op[p], &b->shape[i].seconds[p][r]));
        if (b->net)
            TRY(noise_step_run(b->net, &b->step_seconds[r]));
        bar_step(b->options->timing.bar);
    }
    return STATUS_OK;
}

/* Checks the results of the last round, after all timing. */
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

/* Returns the total time, in seconds, of all convolutions of a training step in round r. */
static double round_bound(const struct conv_bench *b, int r)
{
    double sum = 0;
    for (int i = 0; i < b->n; i++)
        for (int p = 0; p < CONV_PASSES; p++)
            if (b->shape[i].count[p])
                sum += b->shape[i].count[p] * b->shape[i].seconds[p][r];
    return sum;
}

static json_t *dims_json(const struct tensor_desc *t)
{
    return json_new("[I,I,I,I]", (json_int_t)t->dim[0], (json_int_t)t->dim[1],
                    (json_int_t)t->dim[2], (json_int_t)t->dim[3]);
}

static void conv_pass_columns(struct bench_table *t, const struct shape *s, int pass)
{
    static const char *const heading[CONV_PASSES] = {"fwd ms", "data ms", "weights ms"};
    const struct bench_options *o = t->context;
    const struct timed_op *op = &s->op[pass];
    struct stats time;
    bool timed = s->count[pass] && stats_of(s->seconds[pass], o->rounds, &time) == STATUS_OK;
    double seconds = timed ? time.median : NAN;
    double flops = s->count[pass] ? op_flops(&op->plan->desc) : 0;
    column_json(t, "count", json_integer(s->count[pass]));
    column_json(t, "impl", json_utf8(s->count[pass] ? op->plan->impl : ""));
    column_real(t, "seconds", heading[pass], 9, 3, 1e3, seconds);
    column_real(t, "gflops", "GFLOP/s", 7, 1, 1, flops / seconds * 1e-9);
    column_json(t, "wrong", json_integer(s->wrong[pass]));
}

static void conv_columns(struct bench_table *t, const void *row)
{
    const struct shape *s = row;
    const struct tensor_desc *x = &s->fwd.t[ROLE_X], *w = &s->fwd.t[ROLE_W];
    const struct conv_attr *c = &s->fwd.attr.conv;
    char shape[64], kernel[32];
    int64_t wrong = 0;
    snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, x->dim[1], x->dim[2],
             x->dim[3]);
    snprintf(kernel, sizeof kernel, "%" PRId64 "x%" PRId64 "/%d", w->dim[2], w->dim[3],
             c->stride[0]);
    column_text(t, "layer", "layer", -24, s->layer);
    column_int(t, NULL, "n", 3, s->count[0]);
    column_text(t, NULL, "input", -13, shape);
    column_text(t, NULL, "kernel", -6, kernel);
    column_int(t, NULL, "out", 5, w->dim[0]);
    column_json(t, "x", dims_json(x));
    column_json(t, "w", dims_json(w));
    column_json(t, "stride", json_integer(c->stride[0]));
    column_json(t, "pad", json_integer(c->pad[0]));
    column_json(t, "groups", json_integer(c->groups));
    for (int p = 0; p < CONV_PASSES; p++) {
        wrong += s->wrong[p];
        if (t->format == BENCH_JSON && s->count[p] == 0)
            continue;
        column_group_begin(t, pass_name[p]);
        conv_pass_columns(t, s, p);
        column_group_end(t);
    }
    column_int(t, NULL, "#wrong", 6, wrong);
    column_noise(t, NULL, NAN);
}

/* Statistics over the rounds: seconds of the convolutions and of the step, and their ratio. */
struct summary {
    struct stats bound, step, share; /* step and share are empty if the step was not timed */
};

static enum status sum_up(const struct conv_bench *b, struct summary *s)
{
    double bound[BENCH_ROUNDS_MAX], share[BENCH_ROUNDS_MAX];
    int rounds = b->options->rounds;
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

static enum status conv_record(const struct conv_bench *b, const struct summary *s,
                               struct bench_table *t)
{
    const struct bench_options *o = b->options;
    const struct bench_head head = {"conv", 1, b->micro.about, b->micro.dev->threads};
    json_t *more = json_new("{s:s, s:i, s:i, s:i, s:s, s:I, s:f}", "net", o->net, "batch", o->batch,
                            "image_size", o->image_size, "rounds", o->rounds, "conv_algorithm",
                            conv_algorithm_str(o->conv_algorithm), "wrong", (json_int_t)b->wrong,
                            "bound_images_per_s", o->batch / s->bound.median);
    if (b->net) {
        json_put(more, "step_images_per_s", json_finite(o->batch / s->step.median));
        json_put(more, "step_share_of_bound", json_finite(s->share.median));
    }
    return bench_record_rows(&head, more, "shapes", t);
}

/* Prints the time of the convolutions (the bound), the time of the step, and their ratio. */
static void print_summary(const struct conv_bench *b, const struct summary *s)
{
    const struct bench_options *o = b->options;
    fprintf(o->out, "convolutions alone: %8.3f s per step (%.3f to %.3f), bound %.2f images/s\n",
            s->bound.median, s->bound.min, s->bound.max, o->batch / s->bound.median);
    if (b->net)
        fprintf(o->out,
                "training step:      %8.3f s          (%.3f to %.3f),       %.2f images/s: %.3f of "
                "the bound (%.3f to %.3f over %d rounds)\n",
                s->step.median, s->step.min, s->step.max, o->batch / s->step.median,
                s->share.median, s->share.min, s->share.max, o->rounds);
}

static enum status conv_report(const struct conv_bench *b)
{
    const struct bench_options *o = b->options;
    struct bench_table t = bench_table_of(o, conv_columns, o);
    struct summary s;
    t.noise = &b->noise;
    TRY(sum_up(b, &s));
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s, %d px, batch %d on %s\n", o->net, o->image_size, o->batch,
                b->micro.about);
    bench_table_rows(&t, b->shape, b->n, sizeof *b->shape);
    if (o->format == BENCH_TEXT)
        print_summary(b, &s);
    return conv_record(b, &s, &t);
}

static void close_bench(struct conv_bench *b)
{
    for (int i = 0; i < b->n; i++)
        for (int p = 0; p < CONV_PASSES; p++)
            timed_op_close(&b->shape[i].op[p]);
    network_close(b->net);
    micro_close(&b->micro);
    graph_free(b->graph);
    free(b->shape);
    free(b->step_seconds);
}

enum status bench_conv(const struct bench_options *o, bool step)
{
    enum status st;
    struct conv_bench b = {.options = o};
    CHECK(array_new(&b.step_seconds, o->rounds));
    CHECK(graph_build(o->net, 1000, o->image_size, &b.graph));
    CHECK(micro_open(o->devices, o->threads, &b.micro));
    CHECK(device_choose_conv(b.micro.dev, o->conv_algorithm, DTYPE_F32));
    CHECK(collect_shapes(&b));
    CHECK(open_ops(&b));
    if (step)
        CHECK(noise_step_open(b.micro.dev, b.graph, o, false, &b.net));
    struct quiet q = quiet_begin(&o->timing);
    do {
        CHECK(run_rounds(&b));
        CHECK(quiet_end(&q, &b.noise));
    } while (q.again);
    CHECK(check_ops(&b));
    CHECK(conv_report(&b));
    st = harness_wrong(b.wrong, "elements of convolutions are wrong");
done:
    close_bench(&b);
    return st;
}
