/* Reads and writes the values of a network's parameters on the device, and its logits. */
#include "base/array.h"
#include "base/half.h"
#include "model/program.h"

#include <math.h>
#include <stdlib.h>

struct tensor_desc network_gradient_desc(const struct network *net, int i)
{
    const struct placement *at = &net->place[i];
    struct tensor_desc t = at->desc;
    if (!at->half_gradient) {
        t.rounds = at->types.gradient;
        return t;
    }
    t.type = net->half_type;
    t.bytes = t.bytes / sizeof(float) * dtype_size(t.type);
    return t;
}

char *network_gradient_at(const struct network *net, int i)
{
    const struct placement *at = &net->place[i];
    if (!at->half_gradient)
        return net->gradients + at->offset;
    return net->half_gradients + at->offset / sizeof(float) * dtype_size(net->half_type);
}

void *network_flat(struct network *net, enum param_value v, size_t *bytes)
{
    void *flat = v == VALUE_WEIGHT     ? net->weights
                 : v == VALUE_GRADIENT ? net->gradients
                                       : net->momentum;
    *bytes = flat ? net->flat_bytes : 0;
    return flat;
}

void *network_flat_half_gradients(struct network *net, size_t *bytes)
{
    *bytes = net->half_gradients ? network_half_bytes(net) : 0;
    return net->half_gradients;
}

void *network_place(struct network *net, enum param_value v, int i, size_t *bytes)
{
    char *flat = network_flat(net, v, bytes);
    if (!param_is_trained(&net->graph->param[i]))
        flat = v == VALUE_WEIGHT ? net->stats : NULL;
    if (flat && v == VALUE_GRADIENT) {
        *bytes = network_gradient_desc(net, i).bytes;
        return network_gradient_at(net, i);
    }
    *bytes = flat ? net->place[i].desc.bytes : 0;
    return flat ? flat + net->place[i].offset : NULL;
}

static enum status no_such_value(const struct network *net, int i)
{
    return status_fail(STATUS_INVALID, "parameter '%s' has no value of the requested kind",
                       net->graph->param[i].name);
}

/* Sets the weights or the momentum of parameter i to `plain`, rounded to `type`. The optimizer also
 * stores both rounded to that type. */
static enum status set_rounded(struct network *net, int i, enum dtype type, void *at,
                               const float *plain)
{
    int64_t n = param_count(&net->graph->param[i]);
    float *narrow;
    TRY(array_new(&narrow, n));
    for (int64_t e = 0; e < n; e++)
        narrow[e] = type == DTYPE_F16 ? round_f16(plain[e]) : round_bf16(plain[e]);
    enum status st = tensor_upload(net->stream, &net->place[i].desc, at, narrow);
    free(narrow);
    return st;
}

enum status network_set(struct network *net, enum param_value v, int i, const float *plain)
{
    size_t bytes;
    void *at = network_place(net, v, i, &bytes);
    if (!at)
        return no_such_value(net, i);
    enum dtype kept = net->place[i].types.master;
    net->copies_stale = net->has_copies;
    if (kept != DTYPE_F32 && v != VALUE_GRADIENT)
        return set_rounded(net, i, kept, at, plain);
    bool half = v == VALUE_GRADIENT && net->place[i].half_gradient;
    const struct tensor_desc t = half ? network_gradient_desc(net, i) : net->place[i].desc;
    return tensor_upload_floats(net->stream, &t, at, plain);
}

enum status network_get(struct network *net, enum param_value v, int i, float *plain)
{
    size_t bytes;
    void *at = network_place(net, v, i, &bytes);
    if (!at)
        return no_such_value(net, i);
    const struct tensor_desc t =
        v == VALUE_GRADIENT ? network_gradient_desc(net, i) : net->place[i].desc;
    return tensor_download_floats(net->stream, &t, at, plain);
}

enum status network_init(struct network *net, uint64_t seed)
{
    for (int i = 0; i < net->graph->n_params; i++) {
        const struct param *p = &net->graph->param[i];
        float *values;
        TRY(array_new(&values, param_count(p)));
        param_init_values(p, seed, values);
        enum status st = network_set(net, VALUE_WEIGHT, i, values);
        free(values);
        TRY(st);
    }
    return net->momentum ? net->dev->backend->zero(net->stream, net->momentum, net->flat_bytes)
                         : STATUS_OK;
}

enum status program_poison(struct program *p)
{
    static const float infinite = INFINITY;
    static const uint16_t f16_infinite = 0x7c00, bf16_infinite = 0x7f80;
    const struct network *net = p->net;
    int first = net->order[0];
    struct tensor_desc t = network_gradient_desc(net, first);
    const void *value = t.type == DTYPE_F16    ? (const void *)&f16_infinite
                        : t.type == DTYPE_BF16 ? (const void *)&bf16_infinite
                                               : (const void *)&infinite;
    return net->dev->backend->upload(net->stream, network_gradient_at(net, first), value,
                                     dtype_size(t.type));
}

enum status program_logits(struct program *p, float *logits)
{
    const struct value *v = &p->value[p->logits];
    return tensor_download_floats(p->net->stream, &v->desc, p->net->arena + v->offset, logits);
}
