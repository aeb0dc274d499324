/* Flat buffers, the loss's ends, the fingerprint of a layout, and rounding before a reduction. */
#include "model/exchange.h"

#include "base/rng.h"
#include "model/program.h"

#include <stdlib.h>
#include <string.h>

void *network_flat(struct network *net, enum param_value v, size_t *bytes)
{
    void *flat = v == VALUE_WEIGHT     ? net->weights
                 : v == VALUE_GRADIENT ? net->gradients
                                       : net->momentum;
    *bytes = flat ? net->flat_bytes : 0;
    return flat;
}

void *network_place(struct network *net, enum param_value v, int i, size_t *bytes)
{
    char *flat = network_flat(net, v, bytes);
    if (!param_is_trained(&net->graph->param[i]))
        flat = v == VALUE_WEIGHT ? net->stats : NULL;
    *bytes = flat ? net->place[i].desc.bytes : 0;
    return flat ? flat + net->place[i].offset : NULL;
}

void *network_buffers(struct network *net, size_t *bytes)
{
    *bytes = net->stats_bytes;
    return net->stats;
}

enum status network_flip(struct network *net, enum param_value v, int i, int64_t bit)
{
    size_t bytes;
    void *at = network_place(net, v, i, &bytes);
    int64_t n = param_count(&net->graph->param[i]);
    if (!at || bit < 0 || bit / 32 >= n)
        return status_fail(STATUS_INVALID, "'%s' has no such value, or no bit %lld of it",
                           net->graph->param[i].name, (long long)bit);
    uint32_t *plain = malloc((size_t)n * sizeof *plain);
    if (!plain)
        return status_fail(STATUS_OOM, "no memory for '%s'", net->graph->param[i].name);
    enum status st = tensor_download(net->stream, &net->place[i].desc, at, plain);
    if (st == STATUS_OK) {
        plain[bit / 32] ^= UINT32_C(1) << (bit % 32);
        st = tensor_upload(net->stream, &net->place[i].desc, at, plain);
    }
    if (v == VALUE_WEIGHT)
        network_touched(net);
    free(plain);
    return st;
}

void network_touched(struct network *net)
{
    net->copies_stale = net->has_copies;
}

struct program_loss_ends program_loss_ends(struct program *p)
{
    struct program_loss_ends ends = {0};
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        if (s->plan->desc.kind != OP_SOFTMAX_XENT)
            continue;
        ends.logits = s->plan->desc.t[ROLE_X];
        ends.logits_at = s->arg[ROLE_X];
        ends.grad = s->plan->desc.t[ROLE_DX];
        ends.grad_at = s->arg[ROLE_DX];
    }
    return ends;
}

/* ---- the fingerprint of a layout ---- */

static uint64_t hash_number(uint64_t h, uint64_t x)
{
    return hash_splitmix64(h ^ x);
}

/* An opaque layout's number means nothing to another device, and its bytes may be the same: it is
 * told by what it makes of the tensor 0, 1, 2 ... */
static enum status hash_opaque(struct network *net, const struct tensor_desc *t, uint64_t *h)
{
    const struct backend *b = net->dev->backend;
    int64_t n = tensor_count(t);
    enum status st = STATUS_OK;
    void *on_device = NULL;
    float *ramp = malloc((size_t)n * sizeof *ramp);
    char *seen = malloc(t->bytes);
    if (!ramp || !seen) {
        st = status_fail(STATUS_OOM, "no memory to compare layouts");
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        ramp[i] = (float)i;
    CHECK(b->alloc(net->dev, t->bytes, &on_device));
    CHECK(tensor_upload(net->stream, t, on_device, ramp));
    CHECK(b->download(net->stream, seen, on_device, t->bytes));
    CHECK(b->stream_sync(net->stream));
    *h = hash_bytes(*h, seen, t->bytes);
done:
    if (on_device)
        b->free(net->dev, on_device);
    free(ramp);
    free(seen);
    return st;
}

enum status network_layout_hash(struct network *net, uint64_t *hash)
{
    *hash = 0;
    for (int i = 0; i < net->graph->n_params; i++) {
        const struct placement *at = &net->place[i];
        const struct tensor_desc *t = &at->desc;
        uint64_t h = hash_number(*hash, hash_fnv1a64(net->graph->param[i].name));
        h = hash_number(h, at->offset);
        h = hash_number(h, (uint64_t)t->type);
        h = hash_number(h, (uint64_t)t->layout);
        h = hash_number(h, t->bytes);
        for (int d = 0; d < t->ndim; d++)
            h = hash_number(h, (uint64_t)t->dim[d]);
        if (t->layout == LAYOUT_OPAQUE)
            TRY(hash_opaque(net, t, &h));
        *hash = h;
    }
    return STATUS_OK;
}

/* ---- rounding before a reduction ---- */

/* A part of the range whose gradients have one type. */
struct piece {
    int64_t begin, end;
    enum dtype type;
    struct op_plan *plan;
};

struct rounding {
    struct network *net;
    void *workspace; /* its own: a step may be under way */
    int n_pieces;
    struct piece piece[];
};

/* Adds what is to be rounded of parameter number `k` in the flat buffer, as far as it lies in
 * [begin, end); to the piece before where that ends here and has the same type. */
static void add_piece(struct rounding *r, int k, int64_t begin, int64_t end)
{
    const struct network *net = r->net;
    const struct placement *at = &net->place[net->order[k]];
    size_t after = k + 1 < net->n_trained ? net->place[net->order[k + 1]].offset : net->flat_bytes;
    struct piece p = {.begin = (int64_t)(at->offset / sizeof(float)),
                      .end = (int64_t)(after / sizeof(float)),
                      .type = at->types.gradient};
    struct piece *before = r->piece + r->n_pieces - 1;
    p.begin = p.begin > begin ? p.begin : begin;
    p.end = p.end < end ? p.end : end;
    if (p.begin >= p.end || p.type == DTYPE_F32)
        return;
    if (r->n_pieces > 0 && before->end == p.begin && before->type == p.type)
        before->end = p.end;
    else
        r->piece[r->n_pieces++] = p;
}

static enum status plan_pieces(struct rounding *r)
{
    struct device *dev = r->net->dev;
    size_t workspace = 0;
    for (int i = 0; i < r->n_pieces; i++) {
        struct piece *p = &r->piece[i];
        struct op_desc d = {.kind = OP_ROUND};
        d.t[ROLE_X] = d.t[ROLE_Y] = tensor_1d(DTYPE_F32, p->end - p->begin);
        d.t[ROLE_Y].rounds = p->type;
        TRY(op_plan(dev, &d, &p->plan));
        workspace = p->plan->workspace > workspace ? p->plan->workspace : workspace;
    }
    return workspace ? dev->backend->alloc(dev, workspace, &r->workspace) : STATUS_OK;
}

enum status network_plan_rounding(struct network *net, int64_t begin, int64_t end,
                                  struct rounding **out)
{
    size_t pieces = (size_t)net->n_trained;
    *out = NULL;
    if (!net->gradients || begin < 0 || begin > end ||
        (size_t)end > net->flat_bytes / sizeof(float))
        return status_fail(STATUS_INVALID, "the network has no such range of gradients");
    struct rounding *r = calloc(1, sizeof *r + pieces * sizeof *r->piece);
    if (!r)
        return status_fail(STATUS_OOM, "no memory to plan the rounding of gradients");
    r->net = net;
    for (int k = 0; k < net->n_trained; k++)
        add_piece(r, k, begin, end);
    enum status st = plan_pieces(r);
    if (st != STATUS_OK) {
        rounding_free(r);
        return st;
    }
    *out = r;
    return STATUS_OK;
}

enum status rounding_execute(struct rounding *r)
{
    for (int i = 0; i < r->n_pieces; i++) {
        float *at = (float *)(void *)r->net->gradients + r->piece[i].begin;
        void *arg[ROLE_COUNT] = {[ROLE_X] = at, [ROLE_Y] = at, [ROLE_WORKSPACE] = r->workspace};
        TRY(op_execute(r->piece[i].plan, arg, r->net->stream));
    }
    return STATUS_OK;
}

void rounding_free(struct rounding *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_pieces; i++)
        op_plan_free(r->piece[i].plan);
    if (r->workspace)
        r->net->dev->backend->free(r->net->dev, r->workspace);
    free(r);
}
