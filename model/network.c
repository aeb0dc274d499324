/* Opens a network: plans its programs and allocates their memory; copies inputs and results. */
#include "base/array.h"
#include "model/program.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *phase_str(enum phase p)
{
    static const char *const name[PHASE_COUNT] = {"input",    "forward", "loss",
                                                  "backward", "check",   "update"};
    return name[p];
}

const char *fuse_str(enum fuse f)
{
    static const char *const name[FUSE_COUNT] = {"auto", "none", "stats", "apply", "all"};
    return name[f];
}

static struct tensor_desc param_desc(const struct param *p)
{
    struct tensor_desc t = {.type = DTYPE_F32, .ndim = p->ndim};
    memcpy(t.dim, p->dim, sizeof t.dim);
    if (p->ndim > 1)
        return t; /* LAYOUT_ANY: the first plan that uses the parameter chooses the layout */
    return tensor_1d(DTYPE_F32, p->dim[0]);
}

bool network_native(const struct network *net, enum dtype type)
{
    return type != DTYPE_TF32 && !net->emulate && device_native(net->dev, type);
}

/* Whether a convolution or linear layer reads the parameter in a native type of the device that is
 * not fp32. */
static bool is_cast(const struct network *net, enum param_kind kind, enum dtype copy)
{
    bool multiplied =
        kind == PARAM_CONV_WEIGHT || kind == PARAM_LINEAR_WEIGHT || kind == PARAM_BIAS;
    return multiplied && copy != DTYPE_F32 && network_native(net, copy);
}

enum status network_alloc(struct network *net, size_t bytes, char **out)
{
    void *mem;
    TRY(net->dev->backend->alloc(net->dev, bytes ? bytes : 1, &mem));
    *out = mem;
    return STATUS_OK;
}

/* Bytes of the workspace, rounded up so that a second workspace after it is aligned. */
static size_t program_workspace(const struct program *p)
{
    return (p->workspace_bytes + 255) / 256 * 256;
}

/* Allocates all memory whose size is known once the programs are planned. */
static enum status network_allocate(struct network *net)
{
    size_t images = 0, rows = 0;
    bool train = false, scaled = false, mixes = false;
    char *mem;
    for (int i = 0; i < net->n_programs; i++) {
        const struct program *p = net->program[i];
        size_t need = p->arena_bytes + program_workspace(p) + p->wgrad_workspace_bytes;
        net->arena_bytes = need > net->arena_bytes ? need : net->arena_bytes;
        images = p->image_bytes > images ? p->image_bytes : images;
        rows = (size_t)p->config.batch > rows ? (size_t)p->config.batch : rows;
        train = train || p->config.train;
        scaled = scaled || p->config.scaler;
        mixes = mixes || p->config.mixes;
    }
    for (int i = 0; i < net->n_segments; i++)
        if (net->refresh[i] && net->refresh[i]->workspace > net->arena_bytes)
            net->arena_bytes = net->refresh[i]->workspace;
    TRY(network_alloc(net, net->flat_bytes, &net->weights));
    if (net->has_copies)
        TRY(network_alloc(net, network_copy_bytes(net, net->flat_bytes), &net->copies));
    if (train) {
        TRY(network_alloc(net, net->flat_bytes, &net->gradients));
        TRY(network_alloc(net, net->flat_bytes, &net->momentum));
        if (net->half_type != DTYPE_F32)
            TRY(network_alloc(net, network_half_bytes(net), &net->half_gradients));
    }
    TRY(network_alloc(net, net->stats_bytes, &net->stats));
    TRY(network_alloc(net, net->arena_bytes, &net->arena));
    TRY(network_alloc(net, images, &net->images));
    TRY(network_alloc(net, rows * sizeof(int32_t), &net->labels));
    if (mixes)
        TRY(network_alloc(net, rows * sizeof(int32_t), &net->partners));
    TRY(network_alloc(net, sizeof *net->state, &mem));
    net->state = (struct step_state *)mem;
    TRY(network_alloc(net, sizeof *net->metrics, &mem));
    net->metrics = (struct loss_metrics *)mem;
    if (scaled) {
        TRY(network_alloc(net, sizeof *net->scaler, &mem));
        net->scaler = (struct scaler_state *)mem;
    }
    return input_staging_open(net, images, rows * sizeof(int32_t));
}

static void *ref_resolve(const struct program *p, struct ref r)
{
    struct network *net = p->net;
    switch (r.space) {
    case SPACE_NONE:
        return NULL;
    case SPACE_VALUE:
        return net->arena + p->value[r.index].offset;
    case SPACE_WEIGHT:
        return (param_is_trained(&net->graph->param[r.index]) ? net->weights : net->stats) +
               net->place[r.index].offset;
    case SPACE_COPY:
        return net->copies + network_copy_bytes(net, net->place[r.index].offset);
    case SPACE_GRADIENT:
        return network_gradient_at(net, r.index);
    case SPACE_FLAT_WEIGHT:
        return net->weights;
    case SPACE_FLAT_GRADIENT:
        return net->gradients;
    case SPACE_FLAT_HALF_GRADIENT:
        return net->half_gradients;
    case SPACE_FLAT_MOMENTUM:
        return net->momentum;
    case SPACE_FLAT_COPY:
        return net->copies;
    case SPACE_IMAGES:
        return net->images;
    case SPACE_LABELS:
        return net->labels;
    case SPACE_PARTNERS:
        return net->partners;
    case SPACE_STATE:
        return net->state;
    case SPACE_METRICS:
        return net->metrics;
    case SPACE_SCALER:
        return net->scaler;
    case SPACE_WORKSPACE:
        return net->arena + p->arena_bytes;
    case SPACE_WGRAD_WORKSPACE:
        return net->arena + p->arena_bytes + program_workspace(p);
    }
    return NULL;
}

/* Makes each range begin where the previous range ends. An earlier operation has already completed
 * the gradients between the two ranges. */
static void join_ranges(struct program *p)
{
    int64_t end = 0;
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->step[i];
        if (s->grad_begin == s->grad_end)
            continue;
        s->grad_begin = end;
        end = s->grad_end;
    }
}

/* Sets the addresses and gradient ranges of the operations, after all memory is allocated. */
static void bind(struct program *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->step[i];
        for (int r = 0; r < ROLE_COUNT; r++) {
            s->arg[r] = ref_resolve(p, s->ref[r]);
            if (s->ref[r].space != SPACE_GRADIENT || r == ROLE_Z_DGAMMA || r == ROLE_Z_DBETA)
                continue;
            const struct placement *at = &p->net->place[s->ref[r].index];
            int64_t begin = (int64_t)(at->offset / sizeof(float));
            int64_t end = (int64_t)((at->offset + at->desc.bytes + 63) / 64 * 64 / sizeof(float));
            bool first = s->grad_begin == s->grad_end;
            s->grad_begin = first || begin < s->grad_begin ? begin : s->grad_begin;
            s->grad_end = end > s->grad_end ? end : s->grad_end;
        }
    }
    join_ranges(p);
}

static enum status add_program(struct network *net, const struct program_config *config)
{
    struct program *p;
    TRY(array_new(&p, 1));
    net->program[net->n_programs++] = p;
    p->net = net;
    p->config = *config;
    TRY(program_lower(p));
    if (!net->segment)
        TRY(network_segments(net, config));
    return config->train ? program_lower_update(p) : STATUS_OK;
}

enum status network_open(struct device *dev, const struct graph *g,
                         const struct program_config *config, int n, struct network **out)
{
    enum status st;
    struct network *net;
    *out = NULL;
    TRY(device_admit(dev, config->policy.operand));
    TRY(array_new(&net, 1));
    net->dev = dev;
    net->graph = g;
    net->emulate = config->emulate;
    CHECK(array_new(&net->place, g->n_params));
    CHECK(array_new(&net->order, g->n_params));
    CHECK(array_new(&net->program, n));
    CHECK(dev->backend->stream_open(dev, &net->stream));
    for (int i = 0; i < g->n_params; i++) {
        net->place[i].desc = param_desc(&g->param[i]);
        struct param_types types = policy_param(&config->policy, g->param[i].kind);
        net->place[i].types = types;
        net->place[i].cast = is_cast(net, g->param[i].kind, types.copy);
    }
    CHECK(network_choose_half_gradients(net, config));
    for (int i = 0; i < n; i++)
        CHECK(add_program(net, &config[i]));
    CHECK(network_allocate(net));
    CHECK(wgrad_stream_open(net));
    for (int i = 0; i < n; i++) {
        bind(net->program[i]);
        CHECK(program_cut(net->program[i]));
    }
    *out = net;
    net = NULL;
done:
    network_close(net);
    return st;
}

/* Waits until the device has finished. After an earlier failure, this wait fails too and replaces
 * the message by a less specific message. The earlier message is therefore restored. */
void network_idle(struct network *net)
{
    const struct backend *b = net->dev->backend;
    struct first_failure before = {0};
    first_failure_keep(&before, STATUS_INVALID);
    if (net->input_staging.stream)
        b->stream_sync(net->input_staging.stream);
    if (net->wgrad.stream)
        b->stream_sync(net->wgrad.stream);
    if (net->stream)
        b->stream_sync(net->stream);
    enum status st = first_failure_return(&before);
    (void)st;
}

void network_close(struct network *net)
{
    if (!net)
        return;
    network_idle(net);
    for (int i = 0; i < net->n_programs; i++)
        program_free(net->program[i]);
    input_staging_close(net);
    wgrad_stream_close(net);
    char *memory[] = {net->weights,         net->gradients, net->momentum,       net->stats,
                      net->arena,           net->images,    net->labels,         (char *)net->state,
                      (char *)net->metrics, net->copies,    (char *)net->scaler, net->partners,
                      net->half_gradients};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        net->dev->backend->free(net->dev, memory[i]);
    for (int i = 0; net->refresh && i < net->n_segments; i++)
        op_plan_free(net->refresh[i]);
    net->dev->backend->stream_close(net->stream);
    free(net->refresh);
    free(net->segment);
    free(net->program);
    free(net->place);
    free(net->order);
    free(net);
}

bool network_has_pdl(const struct network *net)
{
    return net->dev->backend->pdl && net->dev->backend->pdl(net->dev);
}

void network_use_pdl(struct network *net, bool use)
{
    net->pdl = use && network_has_pdl(net);
    net->stream->pdl = net->pdl;
    if (net->wgrad.stream)
        net->wgrad.stream->pdl = net->pdl;
}

struct program *network_program(struct network *net, int i)
{
    return net->program[i];
}

struct stream *network_stream(struct network *net)
{
    return net->stream;
}

size_t network_param_bytes(const struct network *net)
{
    size_t half = net->half_gradients ? network_half_bytes(net) : 0;
    return net->flat_bytes * (net->momentum ? 3 : 1) + half + net->stats_bytes;
}

size_t network_arena_bytes(const struct network *net)
{
    return net->arena_bytes;
}

enum status program_state(struct program *p, const struct step_state *state)
{
    size_t bytes = p->net->scaler ? offsetof(struct step_state, loss_scale) : sizeof *state;
    return p->net->dev->backend->upload(p->net->stream, p->net->state, state, bytes);
}

enum status program_partners(struct program *p, const int32_t *partner)
{
    return p->net->dev->backend->upload(p->net->stream, p->net->partners, partner,
                                        (size_t)p->config.batch * sizeof *partner);
}

enum status program_step_tensor(struct program *p, int i, enum role role, void *plain)
{
    const struct step *s = &p->step[i];
    if (s->plan->desc.t[role].ndim == 0)
        return status_fail(STATUS_INVALID, "layer '%s': %s has no tensor %s", s->layer,
                           op_str(s->plan->desc.kind), role_str(role));
    return tensor_download(p->net->stream, &s->plan->desc.t[role], s->arg[role], plain);
}

enum status program_wait(struct program *p)
{
    return p->net->dev->backend->stream_sync(p->net->stream);
}

enum status network_set_scaler(struct network *net, const struct scaler_state *s)
{
    if (!net->scaler)
        return STATUS_OK;
    TRY(net->dev->backend->upload(net->stream, net->scaler, s, sizeof *s));
    return net->dev->backend->stream_sync(net->stream);
}

enum status program_fetch_metrics(struct program *p, struct loss_metrics *m)
{
    return p->net->dev->backend->download(p->net->stream, m, p->net->metrics, sizeof *m);
}

enum status program_fetch_outcome(struct program *p, struct step_outcome *o)
{
    const struct backend *b = p->net->dev->backend;
    TRY(b->download(p->net->stream, &o->state, p->net->state, sizeof o->state));
    if (!p->net->scaler)
        return STATUS_OK;
    return b->download(p->net->stream, &o->scaler, p->net->scaler, sizeof o->scaler);
}

enum status program_metrics(struct program *p, struct loss_metrics *m)
{
    TRY(program_fetch_metrics(p, m));
    return program_wait(p);
}

const struct program_config *program_config(const struct program *p)
{
    return &p->config;
}

const struct fusion *program_fusions(const struct program *p, int *n)
{
    *n = p->n_fusions;
    return p->fusion;
}

int program_steps(const struct program *p)
{
    return p->n_steps;
}

struct step_info program_step(const struct program *p, int i)
{
    const struct step *s = &p->step[i];
    return (struct step_info){s->phase, s->layer, s->plan, s->arg, s->grad_begin, s->grad_end};
}
