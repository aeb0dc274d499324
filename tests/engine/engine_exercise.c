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
    int rows;   /* number of images in a batch */
    bool mixes; /* mixup is on, and the second image of every batch is bad */
    struct device_list list;
    struct engine_config config;
    struct graph *graph;
    struct engine *engine;
    struct comm *ranks;
    bool blank;   /* the images of this rank's last micro-batch are bad */
    uint8_t grey; /* their pixels */
    uint8_t pixels[MICRO_MAX][ROWS_MAX * SIDE * SIDE * 3]; /* pixels of this rank's micro-batches */
    int32_t label[MICRO_MAX][ROWS_MAX];
};

static bool is_blank(const struct rig *r, int micro_batch)
{
    return r->blank && micro_batch == r->config.accumulate - 1;
}

/* Each rank has different images. */
static void fill(struct rig *r)
{
    uint64_t seed = hash_splitmix64((uint64_t)comm_rank(r->ranks) + 1);
    for (int m = 0; m < MICRO_MAX; m++) {
        for (size_t i = 0; i < sizeof r->pixels[m]; i++)
            r->pixels[m][i] = is_blank(r, m) ? r->grey : (uint8_t)(hash_splitmix64(seed + i) >> 40);
        for (int i = 0; i < ROWS_MAX; i++)
            r->label[m][i] = (r->mixes && i == 1) || is_blank(r, m)
                                 ? -1
                                 : (int32_t)(hash_splitmix64(seed ^ (uint64_t)i) % CLASSES);
        seed = hash_splitmix64(seed);
    }
}

/* ImageNet's values. */
static const struct program_config imagenet = {.mean = {0.485f, 0.456f, 0.406f},
                                               .std = {0.229f, 0.224f, 0.225f}};

/* Opens the engine and copies the weights of rank 0 to all ranks. Before that, each rank has
 * different weights. */
static enum status open_engine(struct rig *r)
{
    TRY(engine_open(&r->config, &r->engine));
    TRY(network_init(engine_network(r->engine), (uint64_t)comm_rank(r->ranks)));
    return engine_share(r->engine);
}

static enum status rig_open(struct comm *ranks, const struct engine_case *c, struct rig *r)
{
    *r = (struct rig){.rows = c->rows,
                      .mixes = c->mixes,
                      .ranks = ranks,
                      .grey = c->grey,
                      .blank = c->blank && comm_rank(ranks) == 0};
    TRY(device_list_parse(c->devices, &r->list));
    if (c->backend)
        r->list.backend = c->backend;
    TRY(graph_build("resnet8", CLASSES, SIDE, &r->graph));
    r->config = (struct engine_config){.program = imagenet,
                                       .graph = r->graph,
                                       .scaler = scaler_default(),
                                       .devices = &r->list,
                                       .threads = 1,
                                       .rows = {[USE_TRAIN] = c->rows, [USE_VAL] = c->rows},
                                       .accumulate = c->accumulate ? 2 : 1,
                                       .sync_bn = c->sync_bn,
                                       .ranks = ranks,
                                       .comm_timeout = 60,
                                       .dp_reduce = c->reduce,
                                       .bucket_mb = 0.05,
                                       .grad_compress = c->compress};
    r->config.program.momentum = 0.9f;
    r->config.program.mixes = c->mixes;
    if (c->blank && comm_size(ranks) == 1 && !c->accumulate)
        r->config.program.weight_decay = 0.1f; /* an update would change weights without images */
    fill(r);
    return open_engine(r);
}

static void rig_close(struct rig *r)
{
    engine_close(r->engine);
    graph_free(r->graph);
}

/* A hash over the bits of weights, momentum and running statistics, or only of the latter. */
static uint64_t state_of(struct rig *r, bool statistics)
{
    struct network *net = engine_network(r->engine);
    size_t bytes[3];
    const char *part[] = {network_buffers(net, &bytes[0]),
                          network_flat(net, VALUE_WEIGHT, &bytes[1]),
                          network_flat(net, VALUE_MOMENTUM, &bytes[2])};
    uint64_t hash = 0;
    engine_idle(r->engine);
    for (int k = 0; k < (statistics ? 1 : 3); k++)
        for (size_t i = 0; i < bytes[k]; i++)
            hash = hash_splitmix64(hash ^ (uint64_t)(unsigned char)part[k][i]);
    return hash;
}

static enum status step(struct rig *r, int number, float lr, float loss_scale)
{
    struct step_result result;
    int n = r->config.accumulate;
    int labels = (n - r->blank) * (r->mixes ? r->rows - 1 : r->rows);
    bool alone = r->blank && comm_size(r->ranks) == 1 && n == 1;
    uint64_t before = state_of(r, !alone);
    const struct step_state state = {
        .step = (uint64_t)number, .lr = lr, .mix = MIX, .loss_scale = loss_scale};
    for (int m = 0; m < n; m++) {
        struct batch b = {.pixels = r->pixels[m], .label = r->label[m], .count = r->rows};
        b.stats.bad = is_blank(r, m) ? r->rows : r->mixes;
        struct micro_batch micro = {.batch = &b, .state = &state, .number = m, .of = n};
        TRY(engine_batch(r->engine, &micro));
    }
    TRY(engine_update(r->engine));
    TRY(engine_result(r->engine, &result));
    if (result.metrics.count != labels)
        return status_fail(STATUS_MISMATCH, "%d images of %d", (int)result.metrics.count, labels);
    if (result.blank != alone)
        return status_fail(STATUS_MISMATCH, "blank is %d", result.blank);
    bool same = state_of(r, !alone) == before, keeps = r->blank && n == 1 && !r->config.sync_bn;
    return same == keeps
               ? STATUS_OK
               : status_fail(STATUS_MISMATCH, "the state is %s", same ? "the same" : "new");
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

/* Adds share * x to `sum` for every such value x of the network, in the order of the
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

/* The partner of each image in mixup: the image before it. The second image of a batch is bad. */
static void pair(int32_t partner[ROWS_MAX], int rows, bool bad)
{
    for (int i = 0; i < rows; i++)
        partner[i] = i == 0 ? rows - 1 : i - 1;
    if (bad)
        partner[rows > 2 ? 2 : 0] = 0; /* instead of the bad image, which keeps its own partner */
}

static enum status run_alone(struct program *p, const uint8_t *pixels, const int32_t *label)
{
    const struct step_state state = {.mix = MIX, .loss_scale = 1, .grad_scale = 1};
    int32_t partner[ROWS_MAX];
    int rows = program_config(p)->batch;
    TRY(program_state(p, &state));
    TRY(program_input(p, pixels, label));
    pair(partner, rows, rows > 1 && label[1] < 0);
    if (program_config(p)->mixes)
        TRY(program_partners(p, partner));
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
    struct program_config config = imagenet;
    config.batch = part.count;
    config.train = true;
    config.mixes = r->mixes;
    CHECK(b->open(b, r->list.index[device], 1, &dev));
    CHECK(network_open(dev, r->graph, &config, 1, &net));
    CHECK(network_init(net, 0));
    for (int m = 0; m < r->config.accumulate - r->blank; m++) {
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

static enum status compare(const struct rig *r, const double *mean, const double *got, int64_t n)
{
    double norm = 0, far = 0;
    for (int64_t i = 0; i < n; i++) {
        norm += mean[i] * mean[i];
        far += (got[i] - mean[i]) * (got[i] - mean[i]);
    }
    far = sqrt(far / norm);
    if (!(norm > 0) || !(far <= bound(r)))
        return status_fail(STATUS_MISMATCH, "rank %d: error relative to the mean gradient: %g",
                           comm_rank(r->ranks), far);
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

/* Executes a step with a loss scale, and compares the momentum that the optimizer computes from the
 * reduced gradients. */
static enum status compare_step(struct rig *r)
{
    enum status st;
    int64_t n = count_trained(r->graph);
    double *mean = calloc((size_t)n, sizeof *mean), *got = calloc((size_t)n, sizeof *got);
    if (!mean || !got) {
        st = status_fail(STATUS_OOM, "no memory for gradients");
        goto done;
    }
    CHECK(exact_mean(r, mean, n));
    CHECK(step(r, 0, 0, 128));
    CHECK(add_values(r->graph, engine_network(r->engine), VALUE_MOMENTUM, 1, got));
    st = compare(r, mean, got, n);
done:
    free(mean);
    free(got);
    return st;
}

/* Opens a rig on `ranks`, returns what `run` returns, and closes the rig. */
#define WITH_RIG(run)                                                                              \
    struct rig r;                                                                                  \
    enum status st = rig_open(ranks, c, &r);                                                       \
    st = st == STATUS_OK ? run : st;                                                               \
    rig_close(&r);                                                                                 \
    return st

enum status exercise_average(struct comm *ranks, const struct engine_case *c)
{
    WITH_RIG(compare_step(&r));
}

/* ---- bits ---- */

static enum status digest(struct rig *r, uint64_t *out)
{
    enum status st;
    int64_t n = count_trained(r->graph);
    double *weight = calloc((size_t)n, sizeof *weight);
    *out = 0;
    if (!weight)
        return status_fail(STATUS_OOM, "no memory for weights");
    CHECK(step(r, 0, 0.01f, 1));
    CHECK(step(r, 1, 0.01f, 1));
    CHECK(add_values(r->graph, engine_network(r->engine), VALUE_WEIGHT, 1, weight));
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &weight[i], sizeof bits);
        *out = hash_splitmix64(*out ^ bits);
    }
done:
    free(weight);
    return st;
}

enum status exercise_digest(struct comm *ranks, const struct engine_case *c, uint64_t *out)
{
    WITH_RIG(digest(&r, out));
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
    TRY(step(r, 0, 0.01f, 1));
    TRY(engine_share_buffers(r->engine));
    TRY(engine_check_replicas(r->engine, true));
    if (here && !late)
        spoil(net, what);
    TRY(step(r, 1, 0.01f, 1));
    TRY(engine_share_buffers(r->engine));
    if (here && late)
        spoil(net, what);
    return must_name(engine_check_replicas(r->engine, true), rank, device);
}

enum status exercise_damage(struct comm *ranks, const struct engine_case *c, int rank, int device,
                            enum damage what)
{
    WITH_RIG(damage(&r, rank, device, what));
}
