/* Measures the overheads of one device and its host: launch, event, step and record. */
#include "bench/overhead.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "bench/noise_step.h"
#include "bench/timed_op.h"
#include "model/builder.h"
#include "results/record.h"

#include <math.h>
#include <stdlib.h>

enum { ELEMENTS = 8, LINES_MAX = 1 << 26 };

static double since(uint64_t begun)
{
    return (double)(clock_ns() - begun) * 1e-9;
}

/* --- launch --- */

struct launches {
    struct timed_op op;
    int64_t done;
};

static enum status sample_launch(void *context, double *seconds)
{
    struct launches *l = context;
    uint64_t begun = clock_ns();
    for (int i = 0; i < OVERHEAD_BATCH; i++)
        TRY(op_execute(l->op.plan, l->op.arg, l->op.stream));
    TRY(l->op.stream->device->backend->stream_sync(l->op.stream));
    *seconds = since(begun) / OVERHEAD_BATCH;
    l->done += OVERHEAD_BATCH;
    return STATUS_OK;
}

/* Launches X = X + Z with Z = 1, so X counts the launches. The count is exact up to 2^24. */
enum status overhead_launch(const struct harness_config *timing, const struct micro *m,
                            struct overhead_row *row)
{
    static const float zeros[ELEMENTS] = {0}, ones[ELEMENTS] = {1, 1, 1, 1, 1, 1, 1, 1};
    float count[ELEMENTS];
    struct launches l = {.done = 0};
    struct op_desc d = {.kind = OP_ADD};
    void *y = NULL;
    enum status st;
    *row = (struct overhead_row){.name = "launch"};
    d.t[ROLE_X] = d.t[ROLE_Z] = d.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_NHWC, 1, ELEMENTS, 1, 1);
    CHECK(timed_op_open(&l.op, m->stream, &d));
    CHECK(timed_op_put(&l.op, ROLE_X, zeros));
    CHECK(timed_op_put(&l.op, ROLE_Z, ones));
    y = l.op.arg[ROLE_Y];
    l.op.arg[ROLE_Y] = l.op.arg[ROLE_X];
    CHECK(harness_run(timing, sample_launch, &l, &row->time));
    CHECK(timed_op_get(&l.op, ROLE_X, count));
    row->done = (int64_t)count[0];
    row->valid = true;
    for (int i = 0; i < ELEMENTS; i++)
        row->valid &= count[i] == (float)l.done;
done:
    if (y)
        l.op.arg[ROLE_Y] = y;
    timed_op_close(&l.op);
    return st;
}

/* --- event --- */

struct events {
    struct stream *stream;
    struct event *first, *last;
    int64_t done;
    bool right;
};

static enum status sample_event(void *context, double *seconds)
{
    struct events *e = context;
    const struct backend *b = e->stream->device->backend;
    uint64_t begun = clock_ns();
    TRY(b->event_record(e->first, e->stream));
    for (int i = 1; i < OVERHEAD_BATCH; i++)
        TRY(b->event_record(e->last, e->stream));
    TRY(b->stream_sync(e->stream));
    double waited = since(begun), between = b->event_seconds(e->first, e->last);
    e->right &= between > 0 && between <= waited;
    *seconds = waited / OVERHEAD_BATCH;
    e->done += OVERHEAD_BATCH;
    return STATUS_OK;
}

enum status overhead_event(const struct harness_config *timing, const struct micro *m,
                           struct overhead_row *row)
{
    const struct backend *b = m->dev->backend;
    struct events e = {.stream = m->stream, .right = true};
    enum status st;
    *row = (struct overhead_row){.name = "event"};
    CHECK(b->event_open(m->dev, &e.first));
    CHECK(b->event_open(m->dev, &e.last));
    CHECK(harness_run(timing, sample_event, &e, &row->time));
    row->done = e.done;
    row->valid = e.right;
done:
    b->event_close(e.first);
    b->event_close(e.last);
    return st;
}

/* --- step --- */

struct steps {
    struct network *net;
    int64_t done;
};

static enum status sample_step(void *context, double *seconds)
{
    struct steps *s = context;
    TRY(noise_step_run(s->net, seconds));
    s->done++;
    return STATUS_OK;
}

/* Builds a network with images of one pixel, eight features and two classes. */
static enum status draw_graph(struct graph **g)
{
    struct builder b = {.g = NULL};
    *g = NULL;
    TRY(array_new(&b.g, 1));
    snprintf(b.g->arch, sizeof b.g->arch, "nothing");
    b.g->classes = 2;
    b.g->image_size = 1;
    int x = builder_conv(
        builder_name(&b, "conv"), builder_input(&b),
        (struct conv_spec){.out = 8, .kernel = 1, .weight_init = INIT_KAIMING_NORMAL_FAN_OUT});
    x = builder_avgpool(builder_name(&b, "pool"), x, 1);
    x = builder_flatten(&b, x);
    builder_linear(builder_name(&b, "fc"), x, 2, INIT_UNIFORM_FAN_IN, INIT_UNIFORM_FAN_IN);
    if (b.st != STATUS_OK)
        graph_free(b.g);
    else
        *g = b.g;
    return b.st;
}

/* Checks the momentum of the bias, which is g (1 - 0.9^n) / 0.1 after n steps with nearly the same
 * gradient g. The effects of weight decay and learning rate are far below the tolerance. */
static enum status check_steps(struct network *net, const struct graph *g, int64_t n, bool *right)
{
    float momentum[2], gradient[2];
    int bias = g->node[g->n_nodes - 1].bias;
    TRY(network_get(net, VALUE_MOMENTUM, bias, momentum));
    TRY(network_get(net, VALUE_GRADIENT, bias, gradient));
    for (int i = 0; i < 2; i++) {
        double want = gradient[i] * (1 - pow(0.9, (double)n)) / 0.1;
        *right &= want != 0 && fabs(momentum[i] / want - 1) < 0.01;
    }
    return STATUS_OK;
}

enum status overhead_step(const struct harness_config *timing, const struct micro *m,
                          struct overhead_row *row)
{
    const struct bench_options config = {.batch = 1, .image_size = 1};
    struct graph *g = NULL;
    struct steps s = {.done = 1}; /* the warm-up step, which noise_step_open runs */
    enum status st;
    *row = (struct overhead_row){.name = "step", .valid = true};
    CHECK(draw_graph(&g));
    CHECK(noise_step_open(m->dev, g, &config, false, &s.net));
    CHECK(harness_run(timing, sample_step, &s, &row->time));
    CHECK(check_steps(s.net, g, s.done, &row->valid));
    row->done = s.done;
done:
    network_close(s.net);
    graph_free(g);
    return st;
}

/* --- record --- */

struct lines {
    struct record *record;
    int64_t done;
};

static enum status sample_record(void *context, double *seconds)
{
    struct lines *l = context;
    TRY(stop_check());
    uint64_t begun = clock_ns();
    for (int i = 0; i < OVERHEAD_BATCH; i++) {
        const struct step_record step = {.step = l->done + i, .loss = 1};
        TRY(record_step(l->record, &step));
    }
    *seconds = since(begun) / OVERHEAD_BATCH;
    l->done += OVERHEAD_BATCH;
    return STATUS_OK;
}

static enum status count_lines(const char *dir, int64_t *lines)
{
    char path[4096 + 32], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/steps.jsonl", dir);
    TRY(file_read(path, LINES_MAX, &text, &size));
    *lines = 0;
    for (size_t i = 0; i < size; i++)
        *lines += text[i] == '\n';
    free(text);
    return STATUS_OK;
}

static enum status write_lines(const struct harness_config *timing, const char *dir,
                               struct lines *l, struct overhead_row *row)
{
    char name[] = "ampscale", *argv[] = {name, NULL};
    json_t *config = json_object();
    const struct run_info info = {.argc = 1, .argv = argv, .device = "", .config = config};
    enum status st, closed;
    CHECK(record_create(dir, &info, &l->record));
    CHECK(harness_run(timing, sample_record, l, &row->time));
done:
    closed = record_close(l->record);
    json_decref(config);
    return st != STATUS_OK ? st : closed;
}

enum status overhead_record(const struct harness_config *timing, struct overhead_row *row)
{
    struct lines l = {.done = 0};
    struct temporary_dir scratch = {{0}};
    char run[4096];
    enum status st, removed;
    *row = (struct overhead_row){.name = "record"};
    stop_install(); /* so that a signal does not leave the folder behind */
    TRY(temporary_dir_make(&scratch, "/tmp", "ampscale-overhead"));
    /* The record locks its folder, so it gets a subfolder. */
    CHECK(path_format(run, sizeof run, "%s/run", scratch.path));
    CHECK(write_lines(timing, run, &l, row));
    CHECK(count_lines(run, &row->done));
    row->valid = row->done == l.done;
done:
    removed = temporary_dir_remove(&scratch);
    return st != STATUS_OK ? st : removed;
}
