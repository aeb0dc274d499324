/* Times the optimizer's update of a network's parameters. */
#include "bench/optimizer.h"

#include "base/array.h"
#include "base/json.h"
#include "bench/record.h"
#include "bench/timed_op.h"
#include "model/network.h"

#include <stdlib.h>

/* --- check --- */

enum { CHUNK = 1 << 20 }; /* elements that the reference updates at a time */

enum { WEIGHT, GRADIENT, HALF_GRADIENT, MOMENTUM, COPY, BUFFERS };
static const enum role buffer_role[BUFFERS] = {ROLE_W, ROLE_DW, ROLE_DW_HALF, ROLE_MOMENTUM,
                                               ROLE_WCOPY};

struct buffers {
    float *x[BUFFERS];
};

static enum status buffers_new(int64_t n, struct buffers *b)
{
    for (int i = 0; i < BUFFERS; i++)
        TRY(array_new(&b->x[i], n));
    return STATUS_OK;
}

static void buffers_free(struct buffers *b)
{
    for (int i = 0; i < BUFFERS; i++)
        free(b->x[i]);
}

/* Draws whole numbers from -8 to 8 for elements begin .. begin + n - 1. Sets the half-precision
 * copy to 1e6, which cannot be a result. Each segment of `sgd` uses one of two gradient buffers. In
 * the gradient buffer that a segment does not use, the elements of the segment are set to 100. */
static void draw(const struct sgd_attr *sgd, int64_t begin, int64_t n, struct buffers *b)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(begin + i) * 2654435761u;
        b->x[WEIGHT][i] = (float)((int)((bits >> 8) % 17) - 8);
        b->x[GRADIENT][i] = (float)((int)((bits >> 16) % 17) - 8);
        b->x[HALF_GRADIENT][i] = 100;
        b->x[MOMENTUM][i] = (float)((int)((bits >> 12) % 17) - 8);
        b->x[COPY][i] = 1e6f;
    }
    for (int s = 0; s < sgd->n_segments; s++)
        for (int64_t i = sgd->segment[s].begin; sgd->segment[s].half && i < sgd->segment[s].end;
             i++) {
            b->x[HALF_GRADIENT][i] = b->x[GRADIENT][i];
            b->x[GRADIENT][i] = 100;
        }
}

static bool has(const struct timed_op *t, int buffer)
{
    return t->plan->desc.t[buffer_role[buffer]].ndim != 0;
}

static enum status sgd_step(struct timed_op *t, struct buffers *b)
{
    const struct step_state state = {.lr = 0.5f, .loss_scale = 1, .grad_scale = 1};
    const struct backend *be = t->stream->device->backend;
    TRY(be->upload(t->stream, t->arg[ROLE_STATE], &state, sizeof state));
    for (int i = 0; i < BUFFERS; i++)
        if (has(t, i))
            TRY(timed_op_put(t, buffer_role[i], b->x[i]));
    TRY(timed_op_warm(t));
    for (int i = 0; i < BUFFERS; i++)
        if (has(t, i))
            TRY(timed_op_get(t, buffer_role[i], b->x[i]));
    return STATUS_OK;
}

/* Describes the operation `d` for elements begin .. begin + n - 1 only. `segment` must have space
 * for all segments of `d`. */
static struct op_desc part_of(const struct op_desc *d, int64_t begin, int64_t n,
                              struct sgd_segment *segment)
{
    struct op_desc part = *d;
    part.attr.sgd.n_segments = 0;
    part.attr.sgd.segment = segment;
    for (int i = 0; i < BUFFERS; i++)
        if (d->t[buffer_role[i]].ndim)
            part.t[buffer_role[i]] = tensor_1d(DTYPE_F32, n);
    for (int i = 0; i < d->attr.sgd.n_segments; i++) {
        struct sgd_segment s = d->attr.sgd.segment[i];
        s.begin = s.begin > begin ? s.begin - begin : 0;
        s.end = s.end < begin + n ? s.end - begin : n;
        if (s.end > s.begin)
            segment[part.attr.sgd.n_segments++] = s;
    }
    return part;
}

static enum status sgd_reference(const struct op_desc *d, struct stream *ref, struct buffers *b)
{
    struct timed_op t = {0};
    enum status st;
    CHECK(timed_op_open(&t, ref, d));
    CHECK(ref->device->backend->alloc(ref->device, sizeof(struct step_state), &t.arg[ROLE_STATE]));
    CHECK(sgd_step(&t, b));
done:
    timed_op_close(&t);
    return st;
}

/* Runs one step of a planned OP_SGD on values whose results are exact. Counts the elements that
 * differ from the reference. t->arg has memory for all tensors of the plan and for the state. */
static enum status optimizer_check(struct timed_op *t, struct stream *ref, int64_t *wrong)
{
    const struct op_desc *d = &t->plan->desc;
    int64_t all = tensor_count(&d->t[ROLE_W]);
    struct buffers got = {{0}}, want = {{0}};
    struct sgd_segment *segment;
    enum status st;
    *wrong = 0;
    CHECK(array_new(&segment, d->attr.sgd.n_segments));
    CHECK(buffers_new(all, &got));
    CHECK(buffers_new(CHUNK, &want));
    draw(&d->attr.sgd, 0, all, &got);
    CHECK(sgd_step(t, &got));
    for (int64_t begin = 0; begin < all; begin += CHUNK) {
        int64_t n = all - begin < CHUNK ? all - begin : CHUNK;
        struct op_desc part = part_of(d, begin, n, segment);
        draw(&part.attr.sgd, begin, n, &want);
        CHECK(sgd_reference(&part, ref, &want));
        /* A segment that needs no half-precision copy still gets such a copy, in the type of the
         * buffer. No pass reads this copy. */
        for (int64_t i = 0; has(t, COPY) && i < n; i++)
            want.x[COPY][i] = dtype_round(d->t[ROLE_WCOPY].type, want.x[COPY][i]);
        for (int b = 0; b < BUFFERS; b++)
            for (int64_t i = 0; has(t, b) && i < n; i++)
                *wrong += got.x[b][begin + i] != want.x[b][i];
    }
done:
    buffers_free(&got);
    buffers_free(&want);
    free(segment);
    return st;
}

/* --- measurement --- */

/* Finds the optimizer's update in the training program of a network. *net owns the memory of
 * *update. */
static enum status find_update(const struct bench_options *o, const struct micro *m,
                               const struct graph *g, const char *precision, struct network **net,
                               const struct op_plan **update, bool *emulated)
{
    struct program_config config = {.batch = 1,
                                    .train = true,
                                    .half_gradients = true, /* as with one rank and one device */
                                    .fuse = FUSE_NONE,
                                    .emulate = o->emulate,
                                    .momentum = 0.5f,
                                    .weight_decay = 0x1p-10f,
                                    .mean = {0.5f, 0.5f, 0.5f},
                                    .std = {0.25f, 0.25f, 0.25f}};
    TRY(policy_find(precision, -1, &config.policy));
    enum dtype operand = config.policy.operand;
    *emulated = operand != DTYPE_F32 && (o->emulate || !device_native(m->dev, operand));
    /* A deterministic device plans convolutions without timing them. Timing would waste time,
     * because the convolutions are not executed. */
    bool deterministic = m->dev->deterministic;
    m->dev->deterministic = true;
    enum status st = network_open(m->dev, g, &config, 1, net);
    m->dev->deterministic = deterministic;
    TRY(st);
    const struct program *p = network_program(*net, 0);
    for (int i = 0; i < program_steps(p); i++) {
        *update = program_step(p, i).plan;
        if ((*update)->desc.kind == OP_SGD)
            return STATUS_OK;
    }
    return status_fail(STATUS_INVALID, "a training step of '%s' has no optimizer", g->arch);
}

enum status optimizer_measure(const struct bench_options *o, const struct micro *m,
                              const struct graph *g, const char *precision,
                              struct optimizer_row *row)
{
    const struct step_state state = {.lr = 1e-6f, .loss_scale = 1, .grad_scale = 1};
    const struct backend *b = m->dev->backend;
    const struct op_plan *update = NULL;
    struct network *net = NULL;
    struct timed_op t = {0};
    enum status st;
    *row = (struct optimizer_row){.precision = precision};
    CHECK(find_update(o, m, g, precision, &net, &update, &row->emulated));
    CHECK(timed_op_open(&t, m->stream, &update->desc));
    CHECK(b->alloc(m->dev, sizeof state, &t.arg[ROLE_STATE]));
    CHECK(b->upload(m->stream, t.arg[ROLE_STATE], &state, sizeof state));
    row->parameters = tensor_count(&update->desc.t[ROLE_W]);
    row->segments = update->desc.attr.sgd.n_segments;
    row->bytes = roofline_bytes(&update->desc);
    snprintf(row->impl, sizeof row->impl, "%s", t.plan->impl);
    CHECK(harness_run(&o->timing, timed_op_time, &t, &row->time));
    CHECK(optimizer_check(&t, m->ref, &row->wrong));
done:
    timed_op_close(&t);
    network_close(net);
    return st;
}

/* --- printing --- */

static void optimizer_columns(struct bench_table *t, const void *row)
{
    const struct optimizer_row *w = row;
    const struct micro *m = t->context;
    double bandwidth = w->bytes / w->time.median;
    char name[32];
    snprintf(name, sizeof name, "%s%s", w->precision, w->emulated ? " emulated" : "");
    column_text(t, NULL, "precision", -14, name);
    column_text(t, "precision", NULL, 0, w->precision);
    column_bool(t, "emulated", w->emulated);
    column_int(t, "parameters", "parameters", 11, w->parameters);
    column_int(t, "segments", "segments", 8, w->segments);
    column_int(t, "bytes", NULL, 0, (int64_t)w->bytes);
    column_real(t, NULL, "MiB", 9, 1, 0x1p-20, w->bytes);
    harness_columns(t, "n", &w->time);
    column_real(t, NULL, "ms", 9, 3, 1e3, w->time.median);
    column_real(t, "gb_per_s", "GB/s", 8, 1, 1, bandwidth * 1e-9);
    column_real(t, "share", "share", 5, 2, 1, bandwidth / roofline_bandwidth(&m->peaks, w->bytes));
    column_int(t, "wrong", "#wrong", 6, w->wrong);
    column_text(t, "impl", "implementation", 0, w->impl);
    column_noise(t, &w->time.noise, bandwidth / roofline_highest(&m->peaks, w->bytes));
}

static enum status measure_rows(const struct bench_options *o, const struct micro *m,
                                const struct graph *g, struct bench_table *t)
{
    const struct bench_head head = {"optimizer", 1, m->about, m->dev->threads};
    static const char *const several[] = {"fp32", "amp", "O2"};
    const char *const *precision = o->precision ? &o->precision : several;
    int n = o->precision ? 1 : 3;
    struct optimizer_row row = {.precision = ""};
    int64_t wrong = 0;
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s on %s\n", o->net, m->about);
    bench_table_open(t, &row);
    bar_begin(o->timing.bar, n);
    for (int i = 0; i < n; i++) {
        TRY(optimizer_measure(o, m, g, precision[i], &row));
        bench_table_row(t, &row);
        wrong += row.wrong;
    }
    TRY(bench_record_rows(
        &head, json_new("{s:s, s:o}", "net", o->net, "peaks", peaks_json(&m->peaks)), "rows", t));
    return harness_wrong(wrong, "elements of the update are wrong");
}

enum status bench_optimizer(const struct bench_options *o)
{
    enum { IMAGE_SIZE = 224 }; /* the parameters do not depend on the image size */
    struct micro m = {.dev = NULL};
    struct bench_table t = bench_table_of(o, optimizer_columns, &m);
    struct graph *g = NULL;
    enum status st;
    CHECK(graph_build(o->net, 1000, IMAGE_SIZE, &g));
    CHECK(micro_open(o->devices, o->threads, &m));
    CHECK(micro_peaks(&m, o->peak, MICRO_PEAK_ROUNDS));
    CHECK(measure_rows(o, &m, g, &t));
done:
    bench_table_close(&t);
    micro_close(&m);
    graph_free(g);
    return st;
}
