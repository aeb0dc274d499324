/* Runs training steps operation by operation, and counts every gradient. */
#include "verify/amp_parts.h"

#include "base/array.h"
#include "input/loader.h"
#include "runners/config.h"

#include <stdlib.h>
#include <string.h>

/* The loader's limits; few decoder threads, because a report reads few batches. */
enum { WORKERS = 2, PREFETCH = 2, MAX_BAD_IMAGES = 100 };

/* An operation's output tensor that holds gradients. */
struct tap {
    int step;
    enum role role;
    enum gradient kind;
    bool handed_on; /* the operation only passes gradients on, and an earlier tap has counted the
                     * values */
    int layer;
    int64_t n;
};

struct rig {
    const struct amp_source *source;
    struct dataset *data;
    struct loader *loader;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct program *program;
    int n_taps;
    struct tap *tap; /* (n_taps) ascending by step */
    float *plain;    /* buffer for the largest tensor of all taps, in plain order */
    struct fp16_limits limits[SCALE_COUNT];
};

const char *gradient_str(enum gradient g)
{
    return g == GRADIENT_WEIGHT ? "weights" : "activations";
}

/* Returns whether tensor `role` contains gradients that fp16 training stores in fp16. If so, fills
 * in *t. */
static bool role_gradient(const struct op_desc *d, enum role role, struct tap *t)
{
    bool sum = d->t[ROLE_DY2].ndim > 0;
    t->role = role;
    t->kind = GRADIENT_ACTIVATION;
    t->handed_on = false;
    if (d->t[role].ndim == 0)
        return false;
    switch (role) {
    case ROLE_DX:
        t->handed_on = !sum && (d->kind == OP_RELU_BWD || d->kind == OP_MAXPOOL_BWD);
        return true;
    case ROLE_DZ:
        t->handed_on = !sum;
        return true;
    case ROLE_DW:
    case ROLE_DB:
        t->kind = GRADIENT_WEIGHT;
        return d->kind == OP_CONV_BWD_WEIGHTS || d->kind == OP_LINEAR_BWD_WEIGHTS;
    default:
        return d->kind == OP_ADD && role == ROLE_Y;
    }
}

/* The index in m->layer of the layer `name`; adds the layer if it is new. */
static int layer_row(struct amp_measurement *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->layer[i].name, name) == 0)
            return i;
    snprintf(m->layer[m->n].name, sizeof m->layer[m->n].name, "%s", name);
    return m->n++;
}

static enum status place_taps(struct rig *r, struct amp_measurement *m)
{
    static const enum role roles[] = {ROLE_DX, ROLE_DZ, ROLE_DW, ROLE_DB, ROLE_Y};
    enum { ROLES = sizeof roles / sizeof *roles };
    int steps = program_steps(r->program);
    int64_t most = 0;
    TRY(array_new(&r->tap, (int64_t)steps * ROLES));
    TRY(array_new(&m->layer, steps));
    for (int i = 0; i < steps; i++) {
        struct step_info s = program_step(r->program, i);
        bool gradients = s.phase == PHASE_LOSS || s.phase == PHASE_BACKWARD;
        for (int k = 0; k < ROLES && gradients; k++) {
            struct tap *t = &r->tap[r->n_taps];
            if (!role_gradient(&s.plan->desc, roles[k], t))
                continue;
            t->step = i;
            t->layer = layer_row(m, s.layer);
            t->n = tensor_count(&s.plan->desc.t[t->role]);
            most = t->n > most ? t->n : most;
            r->n_taps++;
        }
    }
    return array_new(&r->plain, most);
}

static enum status open_data(struct rig *r)
{
    const struct amp_source *s = r->source;
    if (!s->data) {
        int64_t images = (int64_t)s->batch * s->config->batches;
        TRY(dataset_dummy(images, s->classes, &r->data));
    } else {
        enum status st = dataset_open(s->data, "train", &r->data);
        if (st != STATUS_OK)
            return s->run && !s->config->data
                       ? status_context(
                             st,
                             "data of '%s' (if the data has moved, give its folder after the run)",
                             s->run->dir)
                       : st;
    }
    /* A run's images are made as the run made them. */
    const char *filter = s->run ? run_config_text(s->run, "interpolation", "") : "";
    const char *decode = s->run ? run_config_text(s->run, "decode", "fast") : "exact";
    struct loader_config l = {.data = r->data,
                              .train = true,
                              .image_size = s->image_size,
                              .filter = strcmp(filter, "bicubic") == 0,
                              .fast = strcmp(decode, "fast") == 0,
                              .batch = s->batch,
                              .drop_last = true,
                              .workers = WORKERS,
                              .prefetch = PREFETCH,
                              .seed = s->seed,
                              .world = 1,
                              .max_bad_images = MAX_BAD_IMAGES};
    return loader_open(&l, &r->loader);
}

static enum status open_network(struct rig *r, struct amp_measurement *m)
{
    const struct amp_source *s = r->source;
    struct program_config config = {.batch = s->batch,
                                    .train = true,
                                    .fuse = FUSE_NONE, /* every gradient is a tensor of its own */
                                    .label_smoothing = (float)s->label_smoothing};
    memcpy(config.mean, train_image_mean, sizeof config.mean);
    memcpy(config.std, train_image_std, sizeof config.std);
    TRY(graph_build(s->arch, r->data->classes, s->image_size, &r->graph));
    TRY(device_open(s->config->devices, s->config->threads, &r->dev));
    TRY(network_open(r->dev, r->graph, &config, 1, &r->net));
    r->program = network_program(r->net, 0);
    m->classes = r->graph->classes;
    r->dev->backend->describe(r->dev, m->device, sizeof m->device);
    return s->weights[0] ? weights_load(s->weights, r->net, r->graph, NULL)
                         : network_init(r->net, s->seed);
}

/* Runs one training step without the update; counts the gradients that each operation writes. */
static enum status measure_step(struct rig *r, struct amp_measurement *m)
{
    int t = 0;
    for (int i = 0; i < program_steps(r->program); i++) {
        enum phase phase = program_step(r->program, i).phase;
        if (phase == PHASE_CHECK || phase == PHASE_UPDATE)
            continue;
        TRY(program_run_step(r->program, i));
        for (; t < r->n_taps && r->tap[t].step == i; t++) {
            const struct tap *tap = &r->tap[t];
            struct histogram *c = &m->layer[tap->layer].histogram[tap->kind];
            TRY(program_step_tensor(r->program, i, tap->role, r->plain));
            if (tap->handed_on)
                histogram_look(c, r->plain, tap->n);
            else
                histogram_add(c, r->limits, r->plain, tap->n);
        }
    }
    return STATUS_OK;
}

/* Gets the next batch; at the end of an epoch, the first batch of the next epoch. */
static enum status next_batch(struct rig *r, int64_t *epoch, struct batch **b)
{
    TRY(loader_next(r->loader, b));
    if (*b)
        return STATUS_OK;
    TRY(loader_start(r->loader, ++*epoch, 0));
    return loader_next(r->loader, b);
}

static enum status measure_batches(struct rig *r, struct amp_measurement *m)
{
    const struct amp_source *s = r->source;
    int64_t epoch = s->state.epoch, images = 0;
    double loss = 0;
    TRY(loader_start(r->loader, epoch, 0));
    for (int i = 0; i < s->config->batches; i++) {
        struct batch *b;
        struct loss_metrics metrics;
        struct step_state state = {.seed = s->seed,
                                   .step = (uint64_t)(s->state.step + i),
                                   .loss_scale = 1,
                                   .grad_scale = 1};
        TRY(next_batch(r, &epoch, &b));
        TRY(program_state(r->program, &state));
        TRY(program_input(r->program, b->pixels, b->label));
        TRY(measure_step(r, m));
        TRY(program_metrics(r->program, &metrics));
        loader_release(r->loader, b);
        loss += metrics.loss_sum;
        images += metrics.count;
    }
    if (images == 0)
        return status_fail(STATUS_DATA, "no training image could be decoded");
    m->loss = loss / (double)images;
    return STATUS_OK;
}

static void rig_close(struct rig *r)
{
    loader_close(r->loader);
    network_close(r->net);
    graph_free(r->graph);
    device_close(r->dev);
    dataset_free(r->data);
    free(r->tap);
    free(r->plain);
}

enum status amp_measure(const struct amp_source *s, struct amp_measurement *m)
{
    enum status st;
    struct rig r = {.source = s, .limits = {fp16_limits(1), fp16_limits(s->scale)}};
    *m = (struct amp_measurement){0};
    CHECK(open_data(&r));
    CHECK(open_network(&r, m));
    CHECK(place_taps(&r, m));
    CHECK(measure_batches(&r, m));
    for (int i = 0; i < m->n; i++)
        for (int g = 0; g < GRADIENT_COUNT; g++)
            histogram_merge(&m->total[g], &m->layer[i].histogram[g]);
done:
    rig_close(&r);
    if (st != STATUS_OK)
        amp_measurement_free(m);
    return st;
}

void amp_measurement_free(struct amp_measurement *m)
{
    free(m->layer);
    *m = (struct amp_measurement){0};
}
