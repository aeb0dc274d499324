/* Compares training steps of an engine with gradients that separate networks compute. */
#include "engine_exercise.h"

#include "engine/engine_parts.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 6, SIDE = 8, CLASSES = 5, MICRO_MAX = 2 };

#define MIX 0.7f

struct rig {
    int rows;            /* number of images in a batch */
    bool mixes;          /* mixup is on, and the second image of every batch is bad */
    const char *devices; /* the device string, such as "cpu:2" */
    struct device_list list;
    struct engine_config config;
    struct graph *graph;
    struct engine *engine;
    struct comm *ranks;
    uint8_t pixels[MICRO_MAX][ROWS_MAX * SIDE * SIDE * 3]; /* pixels of this rank's micro-batches */
    int32_t label[MICRO_MAX][ROWS_MAX];
};

/* Each rank has different images. */
static void fill(struct rig *r)
{
    uint64_t seed = hash_splitmix64((uint64_t)comm_rank(r->ranks) + 1);
    for (int m = 0; m < MICRO_MAX; m++) {
        for (size_t i = 0; i < sizeof r->pixels[m]; i++)
            r->pixels[m][i] = (uint8_t)(hash_splitmix64(seed + i) >> 40);
        for (int i = 0; i < ROWS_MAX; i++)
            r->label[m][i] =
                r->mixes && i == 1 ? -1 : (int32_t)(hash_splitmix64(seed ^ (uint64_t)i) % CLASSES);
        seed = hash_splitmix64(seed);
    }
}

/* ImageNet's values. */
static void normalise(struct program_config *p)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    memcpy(p->mean, mean, sizeof mean);
    memcpy(p->std, std, sizeof std);
}

static void rig_close(struct rig *r)
{
    if (!r)
        return;
    engine_close(r->engine);
    graph_free(r->graph);
    free(r);
}

/* Opens the engine and copies the weights of rank 0 to all ranks. Before that, each rank has
 * different weights. */
static enum status open_engine(struct rig *r)
{
    TRY(engine_open(&r->config, &r->engine));
    TRY(network_init(engine_network(r->engine), (uint64_t)comm_rank(r->ranks)));
    return engine_share(r->engine);
}

static enum status rig_open(struct comm *ranks, const struct engine_case *c, struct rig **out)
{
    enum status st;
    struct rig *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return status_fail(STATUS_OOM, "no memory for a test");
    r->rows = c->rows;
    r->mixes = c->mixes;
    r->devices = c->devices;
    r->ranks = ranks;
    fill(r);
    CHECK(device_list_parse(c->devices, &r->list));
    CHECK(graph_build("resnet8", CLASSES, SIDE, &r->graph));
    r->config = (struct engine_config){.program = {.momentum = 0.9f, .mixes = c->mixes},
                                       .graph = r->graph,
                                       .scaler = scaler_default(),
                                       .devices = &r->list,
                                       .threads = 1,
                                       .rows = {[USE_TRAIN] = c->rows, [USE_VAL] = c->rows},
                                       .accumulate = c->accumulate ? 2 : 1,
                                       .ranks = ranks,
                                       .comm_timeout = 60,
                                       .dp_reduce = c->reduce,
                                       .bucket_mb = 0.05,
                                       .grad_compress = c->compress};
    normalise(&r->config.program);
    CHECK(open_engine(r));
    *out = r;
    r = NULL;
done:
    rig_close(r);
    return st;
}

static enum status step_scaled(struct rig *r, int number, float lr, float loss_scale)
{
    struct step_result result;
    int n = r->config.accumulate;
    int labels = n * (r->mixes ? r->rows - 1 : r->rows);
    const struct step_state state = {
        .step = (uint64_t)number, .lr = lr, .mix = MIX, .loss_scale = loss_scale};
    for (int m = 0; m < n; m++) {
        struct batch b = {.pixels = r->pixels[m], .label = r->label[m], .count = r->rows};
        struct micro_batch micro = {.batch = &b, .state = &state, .number = m, .of = n};
        TRY(engine_batch(r->engine, &micro));
    }
    TRY(engine_update(r->engine));
    TRY(engine_result(r->engine, &result));
    if (result.metrics.count != labels)
        return status_fail(STATUS_MISMATCH, "%d images of %d", (int)result.metrics.count, labels);
    return STATUS_OK;
}

static enum status step(struct rig *r, int number, float lr)
{
    return step_scaled(r, number, lr, 1);
}

/* ---- gradients ---- */

static int64_t count_trained(const struct graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_params; i++)
        if (param_is_trained(&g->param[i]))
            n += param_count(&g->param[i]);
    return n;
}

/* Adds share * x to `sum` for every gradient or momentum x of the network, in the order of the
 * graph's parameters. */
static enum status add_values(const struct graph *g, struct network *net, enum param_value value,
                              double share, double *sum)
{
    enum status st = STATUS_OK;
    float *plain = malloc((size_t)count_trained(g) * sizeof *plain);
    if (!plain)
        return status_fail(STATUS_OOM, "no memory for gradients");
    for (int i = 0; i < g->n_params; i++) {
        int64_t n = param_count(&g->param[i]);
        if (!param_is_trained(&g->param[i]))
            continue;
        CHECK(network_get(net, value, i, plain));
        for (int64_t k = 0; k < n; k++)
            *sum++ += share * (double)plain[k];
    }
done:
    free(plain);
    return st;
}

/* Returns the partner of each image in mixup, for a batch of 2, 3, 5 or 6 images. The tables are
 * written by hand. If `bad` is true, the second image is bad. */
static const int32_t *pairs_of(int rows, bool bad)
{
    static const int32_t pairs[][2][ROWS_MAX] = {{{0}, {0}},
                                                 {{0}, {0}},
                                                 {{1, 0}, {0, 0}},
                                                 {{2, 0, 1}, {2, 0, 0}},
                                                 {{3, 0, 1, 2}, {3, 0, 0, 2}},
                                                 {{4, 0, 1, 2, 3}, {4, 0, 0, 2, 3}},
                                                 {{5, 0, 1, 2, 3, 4}, {5, 0, 0, 2, 3, 4}}};
    return pairs[rows][bad];
}

static enum status run_alone(struct program *p, const uint8_t *pixels, const int32_t *label)
{
    const struct step_state state = {.mix = MIX, .loss_scale = 1, .grad_scale = 1};
    int rows = program_config(p)->batch;
    TRY(program_state(p, &state));
    TRY(program_input(p, pixels, label));
    if (program_config(p)->mixes)
        TRY(program_partners(p, pairs_of(rows, rows > 1 && label[1] < 0)));
    for (int phase = PHASE_INPUT; phase <= PHASE_BACKWARD; phase++)
        TRY(program_run(p, (enum phase)phase));
    return program_wait(p);
}

/* Computes the gradients of one device's part of the batch with a separate network, and adds them
 * to `sum`. */
static enum status alone(const struct rig *r, int device, double *sum)
{
    enum status st;
    struct device *dev = NULL;
    struct network *net = NULL;
    const struct backend *b = r->list.backend;
    struct part part = part_of(r->rows, r->list.n, device);
    struct program_config config = {.batch = part.count, .train = true, .mixes = r->mixes};
    normalise(&config);
    CHECK(b->open(b, r->list.index[device], 1, &dev));
    CHECK(network_open(dev, r->graph, &config, 1, &net));
    CHECK(network_init(net, 0));
    for (int m = 0; m < r->config.accumulate; m++) {
        CHECK(run_alone(network_program(net, 0), r->pixels[m] + part.first * SIDE * SIDE * 3,
                        r->label[m] + part.first));
        double share = (double)part.count / r->rows / r->config.accumulate / comm_size(r->ranks);
        CHECK(add_values(r->graph, net, VALUE_GRADIENT, share, sum));
    }
done:
    network_close(net);
    device_close(dev);
    return st;
}

/* The largest error of `got` that rounding can cause, as a fraction of the norm of `mean`. */
static double bound(const struct rig *r)
{
    double unit = r->config.grad_compress == DTYPE_F16    ? 0x1p-11
                  : r->config.grad_compress == DTYPE_BF16 ? 0x1p-8
                                                          : 0;
    bool even = r->rows % r->list.n == 0;
    return unit > 0 ? unit * comm_size(r->ranks) : even ? 1e-6 : 1e-5;
}

static enum status compare(const struct rig *r, const char *what, const double *mean,
                           const double *got, int64_t n)
{
    double norm = 0, far = 0;
    for (int64_t i = 0; i < n; i++) {
        norm += mean[i] * mean[i];
        far += (got[i] - mean[i]) * (got[i] - mean[i]);
    }
    far = sqrt(far / norm);
    if (comm_rank(r->ranks) == 0)
        printf("%d x %s, %d images: %s: error relative to the mean gradient: %.2g\n",
               comm_size(r->ranks), r->devices, r->rows, what, far);
    if (!(norm > 0) || !(far <= bound(r)))
        return status_fail(STATUS_MISMATCH, "rank %d: %s: error relative to the mean gradient: %g",
                           comm_rank(r->ranks), what, far);
    return STATUS_OK;
}

/* Computes the gradients of each device of each rank with separate networks, and their mean over
 * all ranks. */
static enum status exact_mean(struct rig *r, double *mean, int64_t n)
{
    struct comm_op sum = {.kind = COMM_ALLREDUCE,
                          .reduction = COMM_SUM,
                          .type = DTYPE_F64,
                          .send = mean,
                          .recv = mean,
                          .count = n};
    for (int i = 0; i < r->list.n; i++)
        TRY(alone(r, i, mean));
    return comm_run(r->ranks, &sum);
}

/* Executes a step. Compares the mean gradients with the reduced gradients (VALUE_GRADIENT), or with
 * the momentum that the optimizer computes from the reduced gradients. */
static enum status compare_step(struct rig *r, enum param_value value)
{
    enum status st;
    bool gradient = value == VALUE_GRADIENT;
    int64_t n = count_trained(r->graph);
    double share = gradient ? 1.0 / r->config.accumulate / comm_size(r->ranks) : 1;
    double *mean = calloc((size_t)n, sizeof *mean), *got = calloc((size_t)n, sizeof *got);
    if (!mean || !got) {
        st = status_fail(STATUS_OOM, "no memory for gradients");
        goto done;
    }
    CHECK(exact_mean(r, mean, n));
    /* The update only reads the gradient buffer: the gradients are still there after the step. */
    CHECK(gradient ? step(r, 0, 0) : step_scaled(r, 0, 0, 128));
    CHECK(add_values(r->graph, engine_network(r->engine), value, share, got));
    st = compare(r, gradient ? "reduced gradients" : "momentum", mean, got, n);
done:
    free(mean);
    free(got);
    return st;
}

static enum status exercise(struct comm *ranks, const struct engine_case *c, enum param_value value)
{
    struct rig *r;
    TRY(rig_open(ranks, c, &r));
    enum status st = compare_step(r, value);
    rig_close(r);
    return st;
}

enum status exercise_gradients(struct comm *ranks, const struct engine_case *c)
{
    return exercise(ranks, c, VALUE_GRADIENT);
}

enum status exercise_average(struct comm *ranks, const struct engine_case *c)
{
    return exercise(ranks, c, VALUE_MOMENTUM);
}

/* ---- bits ---- */

static enum status digest(struct rig *r, uint64_t *out)
{
    enum status st;
    int64_t n = count_trained(r->graph), at = 0;
    float *plain = malloc((size_t)n * sizeof *plain);
    *out = 0;
    if (!plain)
        return status_fail(STATUS_OOM, "no memory for weights");
    CHECK(step(r, 0, 0.01f));
    CHECK(step(r, 1, 0.01f));
    for (int i = 0; i < r->graph->n_params; i++) {
        if (!param_is_trained(&r->graph->param[i]))
            continue;
        CHECK(network_get(engine_network(r->engine), VALUE_WEIGHT, i, plain + at));
        at += param_count(&r->graph->param[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &plain[i], sizeof bits);
        *out = hash_splitmix64(*out ^ bits);
    }
    st = STATUS_OK;
done:
    free(plain);
    return st;
}

enum status exercise_digest(struct comm *ranks, const struct engine_case *c, uint64_t *out)
{
    struct rig *r;
    TRY(rig_open(ranks, c, &r));
    enum status st = digest(r, out);
    rig_close(r);
    return st;
}

/* ---- replicas ---- */

/* Flips one bit in the middle of the network's weights, momentum, gradients or statistics. */
static void spoil(struct network *net, enum damage what)
{
    static const enum param_value value[] = {[DAMAGE_WEIGHT] = VALUE_WEIGHT,
                                             [DAMAGE_MOMENTUM] = VALUE_MOMENTUM,
                                             [DAMAGE_GRADIENT] = VALUE_GRADIENT};
    size_t bytes;
    uint32_t *word = what == DAMAGE_STATISTICS ? network_buffers(net, &bytes)
                                               : network_flat(net, value[what], &bytes);
    word[bytes / sizeof *word / 2] ^= 1 << 10;
    network_touched(net);
}

static enum status must_name(enum status st, int rank, int device)
{
    char name[64];
    snprintf(name, sizeof name, "rank %d, device %d differ", rank, device);
    if (st == STATUS_MISMATCH && strstr(status_message(), name))
        return STATUS_OK;
    if (st != STATUS_OK)
        return status_context(st, "check after damage to rank %d, device %d", rank, device);
    return status_fail(STATUS_MISMATCH, "no damage was found on rank %d, device %d", rank, device);
}

/* A step computes new gradients. engine_share_buffers copies the first replica's statistics to all
 * other replicas. The step would remove earlier damage to gradients, and the copy would remove
 * earlier damage to statistics: both are therefore damaged after these two calls. */
static enum status damage(struct rig *r, int rank, int device, enum damage what)
{
    bool here = comm_rank(r->ranks) == rank;
    bool late = what == DAMAGE_STATISTICS || what == DAMAGE_GRADIENT;
    struct network *net = r->engine->replica[device].net;
    TRY(step(r, 0, 0.01f));
    TRY(engine_share_buffers(r->engine));
    TRY(engine_check_replicas(r->engine, true));
    if (here && !late)
        spoil(net, what);
    TRY(step(r, 1, 0.01f));
    TRY(engine_share_buffers(r->engine));
    if (here && late)
        spoil(net, what);
    return must_name(engine_check_replicas(r->engine, true), rank, device);
}

enum status exercise_damage(struct comm *ranks, const struct engine_case *c, int rank, int device,
                            enum damage what)
{
    struct rig *r;
    TRY(rig_open(ranks, c, &r));
    enum status st = damage(r, rank, device, what);
    rig_close(r);
    return st;
}
