/* Repeats steps from the same state, and compares the results with those of the first repeat. */
#include "verify/determinism.h"

#include "base/array.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/exchange.h"
#include "runners/settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Number of bytes of device memory that are copied to the host at a time. */
enum { PIECE = 1 << 16 };

/* The buffers of a network that a step reads or writes. */
enum buffer { WEIGHTS, GRADIENTS, HALF_GRADIENTS, MOMENTUM, STATISTICS, BUFFERS };

static const char *const buffer_name[BUFFERS] = {"weight", "gradient", "gradient", "momentum",
                                                 "statistics"};

struct check {
    const struct determinism_case *c;
    struct policy policy;
    struct graph *graph;
    struct network *net;
    struct program *program;
    uint8_t *pixels; /* (batch, S, S, 3) */
    int32_t *label;  /* (batch) */
    char *piece;     /* (PIECE) */
    /* The state before each repeat, and the first repeat's results after the backward phase and
     * after the update; NULL: not compared. */
    char *state[BUFFERS], *backward[BUFFERS], *update[BUFFERS];
    struct loss_metrics first;
    int step, repeat;
    uint64_t bits;
    double bytes;
};

static char *buffer_of(struct network *net, enum buffer b, size_t *bytes)
{
    static const enum param_value value[] = {
        [WEIGHTS] = VALUE_WEIGHT, [GRADIENTS] = VALUE_GRADIENT, [MOMENTUM] = VALUE_MOMENTUM};
    return b == STATISTICS       ? network_buffers(net, bytes)
           : b == HALF_GRADIENTS ? network_flat_half_gradients(net, bytes)
                                 : network_flat(net, value[b], bytes);
}

/* ---- opening ---- */

static enum status host_copies(struct check *k, char **copy, const enum buffer *of, int n)
{
    for (int i = 0; i < n; i++) {
        size_t bytes;
        buffer_of(k->net, of[i], &bytes);
        TRY(array_new(&copy[of[i]], bytes));
    }
    return STATUS_OK;
}

/* Plans a step as `train` does. */
static enum status open_network(struct check *k, struct device *dev)
{
    const struct determinism_case *c = k->c;
    const struct train_config usual = train_config_default();
    TRY(policy_find(c->precision, -1, &k->policy));
    TRY(graph_build(c->arch, c->classes, c->image_size, &k->graph));
    struct program_config config = {.batch = c->batch,
                                    .train = true,
                                    .policy = k->policy,
                                    .emulate = c->emulate,
                                    .check_finite = k->policy.scaled,
                                    .half_gradients = true,
                                    .graphs = dev->backend->capture_begin != NULL,
                                    .momentum = (float)usual.momentum,
                                    .weight_decay = (float)usual.weight_decay};
    memcpy(config.mean, train_image_mean, sizeof config.mean);
    memcpy(config.std, train_image_std, sizeof config.std);
    dev->deterministic = true;
    TRY(network_open(dev, k->graph, &config, 1, &k->net));
    k->program = network_program(k->net, 0);
    return network_init(k->net, c->seed);
}

static enum status open_check(struct check *k, struct device *dev)
{
    static const enum buffer state[] = {WEIGHTS, MOMENTUM, STATISTICS};
    static const enum buffer backward[] = {GRADIENTS, HALF_GRADIENTS, STATISTICS};
    static const enum buffer update[] = {WEIGHTS, MOMENTUM};
    if (k->c->repeats < 2 || k->c->steps < 1 || k->c->batch < 1)
        return status_fail(
            STATUS_INVALID,
            "a check of determinism needs at least 2 repeats, 1 step and a batch of 1");
    TRY(open_network(k, dev));
    const struct determinism_case *c = k->c;
    int64_t bytes = (int64_t)c->batch * 3 * c->image_size * c->image_size;
    TRY(array_new(&k->pixels, bytes));
    TRY(array_new(&k->label, c->batch));
    TRY(array_new(&k->piece, PIECE));
    struct rng rng = rng_at(c->seed, RNG_DUMMY, 0, 0);
    for (int64_t i = 0; i < bytes; i++)
        k->pixels[i] = (uint8_t)rng_u32(&rng);
    for (int i = 0; i < c->batch; i++)
        k->label[i] = (int32_t)rng_below(&rng, (uint32_t)c->classes);
    TRY(host_copies(k, k->state, state, 3));
    TRY(host_copies(k, k->backward, backward, 3));
    return host_copies(k, k->update, update, 2);
}

static void close_check(struct check *k)
{
    network_close(k->net);
    graph_free(k->graph);
    for (int b = 0; b < BUFFERS; b++) {
        free(k->state[b]);
        free(k->backward[b]);
        free(k->update[b]);
    }
    free(k->pixels);
    free(k->label);
    free(k->piece);
}

/* ---- comparing ---- */

/* The parameter that contains byte `offset` of a buffer; NULL: the byte is padding. Sets *inside to
 * the byte's offset in the parameter. */
static const struct param *param_at(struct check *k, enum buffer b, size_t offset, size_t *inside)
{
    size_t bytes;
    const char *base = buffer_of(k->net, b, &bytes);
    for (int i = 0; i < k->graph->n_params; i++) {
        const struct param *p = &k->graph->param[i];
        enum param_value v = b == GRADIENTS || b == HALF_GRADIENTS ? VALUE_GRADIENT
                             : b == MOMENTUM                       ? VALUE_MOMENTUM
                                                                   : VALUE_WEIGHT;
        const char *at = network_place(k->net, v, i, &bytes);
        if (param_is_trained(p) == (b == STATISTICS) || !at)
            continue;
        size_t begin = (uintptr_t)at - (uintptr_t)base; /* `at` may be in another buffer */
        *inside = offset - begin;
        if (offset >= begin && offset < begin + bytes)
            return p;
    }
    return NULL;
}

/* Fails because the bytes at `got` and `want` differ. Both were copied from byte `offset` of buffer
 * b. The message names the first bit that differs. */
static enum status differs(struct check *k, enum buffer b, const char *when, const char *got,
                           const char *want, size_t offset)
{
    size_t byte = 0, inside = 0;
    int bit = 0;
    uint32_t now, before;
    while (got[byte] == want[byte])
        byte++;
    byte -= byte % sizeof now; /* start of the fp32 word */
    memcpy(&now, got + byte, sizeof now);
    memcpy(&before, want + byte, sizeof before);
    while (((now ^ before) >> bit & 1) == 0)
        bit++;
    const struct param *p = param_at(k, b, offset + byte, &inside);
    return status_fail(STATUS_MISMATCH,
                       "step %d, repeat %d: the %s of '%s' differs from the first execution, %s: "
                       "bit %d of word %zu (%08x, first %08x); this device cannot be trusted",
                       k->step, k->repeat, buffer_name[b], p ? p->name : "padding", when, bit,
                       inside / sizeof now, now, before);
}

/* Copies a buffer to the host piece by piece. If `keep` is set, stores the bytes in `first`; else
 * compares them with `first`. */
static enum status look_at(struct check *k, enum buffer b, char *first, bool keep, const char *when)
{
    size_t bytes;
    const char *at = buffer_of(k->net, b, &bytes);
    struct stream *s = network_stream(k->net);
    for (size_t offset = 0; offset < bytes; offset += PIECE) {
        size_t n = bytes - offset < PIECE ? bytes - offset : PIECE;
        char *to = keep ? first + offset : k->piece;
        TRY(s->device->backend->download(s, to, at + offset, n));
        TRY(s->device->backend->stream_sync(s));
        if (!keep && memcmp(to, first + offset, n) != 0)
            return differs(k, b, when, to, first + offset, offset);
        if (keep)
            k->bits = hash_bytes(k->bits, to, n);
    }
    k->bytes += keep ? 0 : (double)bytes;
    return STATUS_OK;
}

static enum status look_at_loss(struct check *k)
{
    struct loss_metrics m;
    TRY(program_metrics(k->program, &m));
    if (k->repeat == 0) {
        k->first = m;
        k->bits = hash_bytes(k->bits, &m, sizeof m);
        return STATUS_OK;
    }
    if (memcmp(&m, &k->first, sizeof m) == 0)
        return STATUS_OK;
    return status_fail(
        STATUS_MISMATCH,
        "step %d, repeat %d: the loss is %.17g with %lld top-1 and %lld top-5 hits, but %.17g with "
        "%lld and %lld in the first execution; this device cannot be trusted",
        k->step, k->repeat, m.loss_sum, (long long)m.top1, (long long)m.top5, k->first.loss_sum,
        (long long)k->first.top1, (long long)k->first.top5);
}

/* ---- repeating ---- */

static enum status flip_if_due(struct check *k, enum param_value v)
{
    const struct determinism_fault *f = k->c->fault;
    if (!f || f->value != v || f->step != k->step || f->repeat != k->repeat)
        return STATUS_OK;
    return network_flip(k->net, v, f->param, f->bit);
}

/* Copies the state from which a repeat starts: from the host to the device, or back. */
static enum status move_state(struct check *k, bool to_device)
{
    struct stream *s = network_stream(k->net);
    const struct backend *backend = s->device->backend;
    for (int b = 0; b < BUFFERS; b++) {
        size_t bytes;
        char *at = buffer_of(k->net, (enum buffer)b, &bytes);
        if (k->state[b] && bytes)
            TRY(to_device ? backend->upload(s, at, k->state[b], bytes)
                          : backend->download(s, k->state[b], at, bytes));
    }
    if (!to_device)
        return backend->stream_sync(s);
    network_touched(k->net);
    return STATUS_OK;
}

static enum status repeat_step(struct check *k)
{
    static const char after_backward[] = "before the update", after_update[] = "after the update";
    bool first = k->repeat == 0;
    TRY(move_state(k, true));
    TRY(flip_if_due(k, VALUE_WEIGHT));
    double scale = k->policy.scaled ? 1024 : 1;
    const struct step_state state = {.seed = k->c->seed,
                                     .step = (uint64_t)k->step,
                                     .divisor = 1,
                                     .share = 1,
                                     .lr = 0.01f,
                                     .loss_scale = (float)scale,
                                     .grad_scale = scaler_grad_scale(scale, 1)};
    TRY(program_state(k->program, &state));
    TRY(program_input(k->program, k->pixels, k->label));
    for (int phase = PHASE_INPUT; phase <= PHASE_BACKWARD; phase++)
        TRY(program_run(k->program, (enum phase)phase));
    TRY(program_wait(k->program));
    TRY(flip_if_due(k, VALUE_GRADIENT));
    TRY(look_at(k, WEIGHTS, k->state[WEIGHTS], false, after_backward)); /* a cause, so first */
    TRY(look_at_loss(k));
    TRY(look_at(k, GRADIENTS, k->backward[GRADIENTS], first, after_backward));
    TRY(look_at(k, HALF_GRADIENTS, k->backward[HALF_GRADIENTS], first, after_backward));
    TRY(look_at(k, STATISTICS, k->backward[STATISTICS], first, after_backward));
    TRY(program_run(k->program, PHASE_CHECK));
    TRY(program_run(k->program, PHASE_UPDATE));
    TRY(program_wait(k->program));
    TRY(look_at(k, WEIGHTS, k->update[WEIGHTS], first, after_update));
    return look_at(k, MOMENTUM, k->update[MOMENTUM], first, after_update);
}

/* Makes the result `from` of a buffer its state before the next step. */
static void keep(struct check *k, enum buffer b, const char *from)
{
    size_t bytes;
    buffer_of(k->net, b, &bytes);
    memcpy(k->state[b], from, bytes);
}

enum status determinism_check(struct device *dev, const struct determinism_case *c,
                              struct determinism_result *r)
{
    enum status st;
    struct check k = {.c = c};
    CHECK(open_check(&k, dev));
    CHECK(move_state(&k, false));
    for (k.step = 0; k.step < c->steps; k.step++) {
        for (k.repeat = 0; k.repeat < c->repeats; k.repeat++)
            CHECK(repeat_step(&k));
        keep(&k, WEIGHTS, k.update[WEIGHTS]);
        keep(&k, MOMENTUM, k.update[MOMENTUM]);
        keep(&k, STATISTICS, k.backward[STATISTICS]);
    }
    *r = (struct determinism_result){
        .loss = k.first.loss_sum / (double)k.first.count, .bits = k.bits, .bytes = k.bytes};
done:
    close_check(&k);
    return st;
}

/* ---- the built-in cases ---- */

enum { STEPS = 2, CLASSES = 10 };

struct shape {
    const char *arch;
    int image_size, batch;
};

/* The shapes of the cases; with config->quick, only the cases of the first shape run. */
static const struct shape shapes[] = {{"resnet8", 32, 8}, {"resnet18", 64, 8}, {"resnet50", 64, 4}};
static const char *const precisions[] = {"fp32", "tf32", "amp", "bf16"};

static void print_case(FILE *out, const struct determinism_case *c,
                       const struct determinism_result *r, bool holds)
{
    fprintf(out, "%s %-8s %3d px, batch %d, %s: ", holds ? "PASS" : "FAIL", c->arch, c->image_size,
            c->batch, c->precision);
    if (holds)
        fprintf(out, "%d steps, %d times each, bits %016" PRIx64 "\n", c->steps, c->repeats,
                r->bits);
    else
        fprintf(out, "%s\n", status_message());
}

static void report_case(json_t *report, const struct determinism_case *c,
                        const struct determinism_result *r, bool holds)
{
    char bits[32] = "";
    if (holds)
        snprintf(bits, sizeof bits, "%016" PRIx64, r->bits);
    json_add(report, json_new("{s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:s, s:s}", "arch", c->arch,
                              "image_size", c->image_size, "batch", c->batch, "precision",
                              c->precision, "steps", c->steps, "repeats", c->repeats, "ok", holds,
                              "bits", bits, "difference", holds ? "" : status_message()));
}

static void repeat_case(struct suite *s, const struct determinism_case *c)
{
    struct determinism_result r;
    enum status st = determinism_check(s->dev, c, &r);
    if (st != STATUS_OK && st != STATUS_MISMATCH)
        st = status_context(st, "%s in %s", c->arch, c->precision);
    if (s->config->json)
        report_case(s->report, c, &r, st == STATUS_OK);
    else if (st != STATUS_OK || s->config->verbose)
        print_case(s->lines, c, &r, st == STATUS_OK);
    suite_end_case(s, st);
}

static enum status repeat_cases(struct suite *s, void *context)
{
    (void)context;
    size_t n = s->config->quick ? 1 : sizeof shapes / sizeof *shapes;
    bar_begin(s->config->bar, (int64_t)(n * sizeof precisions / sizeof *precisions));
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
            const struct determinism_case c = {.arch = shapes[i].arch,
                                               .precision = precisions[p],
                                               .classes = CLASSES,
                                               .image_size = shapes[i].image_size,
                                               .batch = shapes[i].batch,
                                               .steps = STEPS,
                                               .repeats = s->config->repeats};
            if (suite_begin_case(s))
                repeat_case(s, &c);
        }
    return STATUS_OK;
}

enum status determinism_run(const struct selftest_config *config)
{
    return suite_run(config, repeat_cases, NULL, "give the same bits each time");
}
