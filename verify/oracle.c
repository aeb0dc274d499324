/* Computes the values of an oracle's case on a device. */
#include "verify/oracle.h"

#include "base/array.h"
#include "base/json.h"
#include "engine/mixup.h"
#include "model/network.h"
#include "model/oracle_fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum status read_int(const json_t *json, const char *key, int max, int *out)
{
    const json_t *v = json_object_get(json, key);
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > max)
        return status_fail(STATUS_DATA, "a case's '%s' is not a whole number from 1 to %d", key,
                           max);
    *out = (int)json_integer_value(v);
    return STATUS_OK;
}

/* Reads a number that is at least 0; an optional number that is missing is 0. */
static enum status read_real(const json_t *json, const char *key, bool optional, double *out)
{
    const json_t *v = json_object_get(json, key);
    *out = json_number_value(v);
    if ((!v && optional) || (json_is_number(v) && *out >= 0 && isfinite(*out)))
        return STATUS_OK;
    return status_fail(STATUS_DATA, "a case's '%s' is not a number of 0 or more", key);
}

/* Reads a member that must equal the argument `one` or the argument `two`. Sets *second to whether
 * it equals `two`. */
static enum status read_choice(const json_t *json, const char *key, const char *one,
                               const char *two, bool *second)
{
    const char *v = json_string_value(json_object_get(json, key));
    *second = v && strcmp(v, two) == 0;
    if (*second || (v && strcmp(v, one) == 0))
        return STATUS_OK;
    return status_fail(STATUS_DATA, "a case's '%s' is neither '%s' nor '%s'", key, one, two);
}

/* Reads the optional list of mixup weights, each from 0 to 1. */
static enum status read_mix(const json_t *json, size_t n, const json_t **mix)
{
    size_t i;
    const json_t *v;
    *mix = json_object_get(json, "mix");
    if (*mix && json_array_size(*mix) != n)
        return status_fail(STATUS_DATA, "a case's list 'mix' does not have %zu weights", n);
    json_array_foreach(*mix, i, v)
    {
        if (!(json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) <= 1))
            return status_fail(STATUS_DATA, "a case's 'mix' has a weight that is not in [0, 1]");
    }
    return STATUS_OK;
}

/* Checks that each step has a loss, because a missing value would count as passed. */
static enum status check_steps(const json_t *steps, size_t n)
{
    size_t i;
    const json_t *step;
    if (!json_is_array(steps) || json_array_size(steps) != n)
        return status_fail(STATUS_DATA, "a case's list 'step' does not have %zu steps", n);
    json_array_foreach(steps, i, step)
    {
        if (!json_is_number(json_object_get(step, "loss")))
            return status_fail(STATUS_DATA, "a case has no loss for its step %zu", i);
    }
    return STATUS_OK;
}

enum status oracle_read(const json_t *json, struct oracle_case *c)
{
    *c = (struct oracle_case){.arch = json_string_value(json_object_get(json, "arch"))};
    if (!c->arch)
        return status_fail(STATUS_DATA, "a case has no 'arch'");
    TRY(read_int(json, "classes", 1 << 20, &c->classes));
    TRY(read_int(json, "size", 4096, &c->size));
    TRY(read_int(json, "batch", 1 << 16, &c->batch));
    TRY(read_int(json, "steps", 1 << 20, &c->steps));
    TRY(read_real(json, "lr", false, &c->lr));
    TRY(read_real(json, "momentum", false, &c->momentum));
    TRY(read_real(json, "weight_decay", false, &c->weight_decay));
    TRY(read_real(json, "label_smoothing", true, &c->label_smoothing));
    TRY(read_real(json, "clip_grad_norm", true, &c->clip_grad_norm));
    TRY(read_real(json, "norm_weight_decay", true, &c->norm_weight_decay));
    if (!json_object_get(json, "norm_weight_decay"))
        c->norm_weight_decay = -1;
    TRY(read_mix(json, (size_t)c->steps, &c->mix));
    TRY(read_choice(json, "mode", "eval", "train", &c->train));
    TRY(read_choice(json, "precision", "fp32", "fp64", &c->fp64));
    return check_steps(json_object_get(json, "step"), (size_t)c->steps);
}

bool oracle_same(const struct oracle_case *a, const struct oracle_case *b)
{
    return strcmp(a->arch, b->arch) == 0 && a->classes == b->classes && a->size == b->size &&
           a->batch == b->batch && a->steps == b->steps && a->lr == b->lr &&
           a->momentum == b->momentum && a->weight_decay == b->weight_decay &&
           a->label_smoothing == b->label_smoothing && a->clip_grad_norm == b->clip_grad_norm &&
           a->norm_weight_decay == b->norm_weight_decay && a->train == b->train &&
           (a->mix == b->mix || json_equal(a->mix, b->mix));
}

/* The case that is being computed. `plain` has space for any parameter; `images` and `labels` are a
 * batch. */
struct computing {
    const struct oracle_case *c;
    struct graph *g;
    struct network *net;
    struct program *p;
    float *plain, *images, *logits;
    int32_t *labels, *partners;
};

static enum status square_sum(struct computing *k, enum param_value v, int i, double *out)
{
    TRY(network_get(k->net, v, i, k->plain));
    *out = 0;
    for (int64_t e = 0; e < param_count(&k->g->param[i]); e++)
        *out += (double)k->plain[e] * (double)k->plain[e];
    return STATUS_OK;
}

/* Sets *all to the norm over all trained parameters or, if `trained` is false, over all other
 * parameters. If `each` is not NULL, adds to `each` the norm of each of these parameters, under the
 * parameter's name. */
static enum status norms(struct computing *k, enum param_value v, bool trained, json_t *each,
                         double *all)
{
    *all = 0;
    for (int i = 0; i < k->g->n_params; i++) {
        double sum;
        if (param_is_trained(&k->g->param[i]) != trained)
            continue;
        TRY(square_sum(k, v, i, &sum));
        *all += sum;
        if (each)
            json_put(each, k->g->param[i].name, json_finite(sqrt(sum)));
    }
    *all = sqrt(*all);
    return STATUS_OK;
}

static enum status backward_and_update(struct computing *k, bool first, json_t *rec)
{
    double norm;
    json_t *each = first ? json_object() : NULL;
    TRY(program_run(k->p, PHASE_BACKWARD));
    if (each)
        json_put(rec, "grad_norms", each); /* the record owns it from here */
    TRY(norms(k, VALUE_GRADIENT, true, each, &norm));
    json_put(rec, "grad_norm", json_finite(norm));
    TRY(program_run(k->p, PHASE_UPDATE));
    TRY(norms(k, VALUE_WEIGHT, true, NULL, &norm));
    json_put(rec, "weight_norm", json_finite(norm));
    return STATUS_OK;
}

/* Copies the state, images and labels of step `s` to the device. */
static enum status input_step(struct computing *k, int s)
{
    const struct oracle_case *c = k->c;
    struct step_state state = {.step = (uint64_t)s,
                               .lr = (float)c->lr,
                               .mix = (float)json_number_value(json_array_get(c->mix, (size_t)s)),
                               .loss_scale = 1,
                               .grad_scale = 1};
    oracle_fill_labels(s, c->batch, c->classes, k->labels);
    TRY(program_state(k->p, &state));
    if (c->mix) {
        oracle_fill_pixels(s, c->batch, c->size, (uint8_t *)k->images);
        mixup_pair(k->labels, c->batch, k->partners);
        TRY(program_partners(k->p, k->partners));
    } else {
        oracle_fill_images(s, c->batch, c->size, k->images);
    }
    TRY(program_input(k->p, k->images, k->labels));
    return program_wait(k->p);
}

static enum status compute_step(struct computing *k, int s, json_t *rec)
{
    const struct oracle_case *c = k->c;
    struct loss_metrics m;
    TRY(input_step(k, s));
    TRY(program_run(k->p, PHASE_INPUT));
    TRY(program_run(k->p, PHASE_FORWARD));
    TRY(program_run(k->p, PHASE_LOSS));
    TRY(program_metrics(k->p, &m));
    json_put(rec, "loss", json_finite(m.loss_sum / (double)c->batch));
    json_put(rec, "top1", json_integer((json_int_t)m.top1));
    json_put(rec, "top5", json_integer((json_int_t)m.top5));
    if (s == 0) {
        json_t *row = json_array();
        json_put(rec, "logits_row0", row);
        TRY(program_logits(k->p, k->logits));
        for (int j = 0; j < c->classes; j++)
            json_add(row, json_finite((double)k->logits[j]));
    }
    return c->train ? backward_and_update(k, s == 0, rec) : STATUS_OK;
}

static enum status open_case(struct computing *k, struct device *dev)
{
    const struct oracle_case *c = k->c;
    struct program_config config = {.batch = c->batch,
                                    .train = c->train,
                                    .float_input = !c->mix,
                                    .mixes = c->mix,
                                    .mean = {0.485f, 0.456f, 0.406f}, /* torchvision's */
                                    .std = {0.229f, 0.224f, 0.225f},
                                    .no_dropout = true,
                                    .label_smoothing = (float)c->label_smoothing,
                                    .momentum = (float)c->momentum,
                                    .clip = (float)c->clip_grad_norm,
                                    .norm_decays = c->norm_weight_decay >= 0,
                                    .norm_weight_decay = (float)c->norm_weight_decay,
                                    .weight_decay = (float)c->weight_decay};
    int64_t largest = 0;
    TRY(graph_build(c->arch, c->classes, c->size, &k->g));
    for (int i = 0; i < k->g->n_params; i++) {
        int64_t n = param_count(&k->g->param[i]);
        largest = n > largest ? n : largest;
    }
    TRY(array_new(&k->plain, largest));
    TRY(array_new(&k->images, (int64_t)c->batch * 3 * c->size * c->size));
    TRY(array_new(&k->labels, c->batch));
    TRY(array_new(&k->partners, c->batch));
    TRY(array_new(&k->logits, (int64_t)c->batch * c->classes));
    TRY(network_open(dev, k->g, &config, 1, &k->net));
    k->p = network_program(k->net, 0);
    for (int i = 0; i < k->g->n_params; i++) {
        oracle_fill_param(&k->g->param[i], k->plain);
        TRY(network_set(k->net, VALUE_WEIGHT, i, k->plain));
    }
    return STATUS_OK;
}

enum status oracle_compute(struct device *dev, const struct oracle_case *c, json_t **values)
{
    enum status st;
    struct computing k = {.c = c};
    double norm;
    json_t *out = json_object(), *steps = json_array(), *buffers = json_object();
    *values = NULL;
    json_object_set(out, "step", steps);
    if (c->train)
        json_object_set(out, "buffer_norms", buffers);
    CHECK(open_case(&k, dev));
    json_put(out, "params", json_integer((json_int_t)graph_params_trained(k.g)));
    for (int s = 0; s < c->steps; s++) {
        json_t *rec = json_object();
        json_add(steps, rec);
        CHECK(compute_step(&k, s, rec));
    }
    CHECK(norms(&k, VALUE_WEIGHT, false, buffers, &norm));
    *values = json_incref(out);
done:
    json_decref(out);
    json_decref(steps);
    json_decref(buffers);
    network_close(k.net);
    graph_free(k.g);
    free(k.plain);
    free(k.images);
    free(k.labels);
    free(k.partners);
    free(k.logits);
    return st;
}
