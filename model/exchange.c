/* Finds flat buffers and the loss's tensors, hashes layouts, and rounds gradients before a
 * reduction. */
#include "model/exchange.h"

#include "base/array.h"
#include "base/rng.h"
#include "model/program.h"

#include <stdlib.h>

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
    const struct tensor_desc t =
        v == VALUE_GRADIENT ? network_gradient_desc(net, i) : net->place[i].desc;
    if (!at || bit < 0 || bit / 32 >= n)
        return status_fail(STATUS_INVALID,
                           "parameter '%s' has no such value, or the value has no bit %lld",
                           net->graph->param[i].name, (long long)bit);
    unsigned char *plain;
    size_t size = dtype_size(t.type);
    TRY(array_new(&plain, n * (int64_t)size));
    enum status st = tensor_download(net->stream, &t, at, plain);
    if (st == STATUS_OK) {
        size_t in = (size_t)bit % 32 % (8 * size); /* bit within the little-endian element */
        plain[(size_t)(bit / 32) * size + in / 8] ^= (unsigned char)(1u << in % 8);
        st = tensor_upload(net->stream, &t, at, plain);
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

/* ---- the hash of a layout ---- */

static uint64_t hash_number(uint64_t h, uint64_t x)
{
    return hash_splitmix64(h ^ x);
}

/* Hashes an opaque layout by the position of each element: stores a tensor with the values 0, 1, 2
 * ... in the layout, and hashes the stored bytes. The layout's number and size do not suffice: the
 * number is valid on one device only, and different layouts may have the same size. */
static enum status hash_opaque(struct network *net, const struct tensor_desc *t, uint64_t *h)
{
    const struct backend *b = net->dev->backend;
    int64_t n = tensor_count(t);
    enum status st;
    void *on_device = NULL;
    float *ramp = NULL;
    char *seen = NULL;
    CHECK(array_new(&ramp, n));
    CHECK(array_new(&seen, t->bytes));
    for (int64_t i = 0; i < n; i++)
        ramp[i] = (float)i;
    CHECK(b->alloc(net->dev, t->bytes, &on_device));
    CHECK(tensor_upload(net->stream, t, on_device, ramp));
    CHECK(b->download(net->stream, seen, on_device, t->bytes));
    CHECK(b->stream_sync(net->stream));
    *h = hash_bytes(*h, seen, t->bytes);
done:
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

/* Adjacent gradients of one type, within the range to be rounded. */
struct piece {
    int64_t begin, end;
    enum dtype type;
    struct op_plan *plan;
};

struct rounding {
    struct network *net;
    void *workspace; /* not the network's workspace, which a step may be using */
    int n_pieces;
    struct piece piece[];
};

/* Adds a piece for the part of [begin, end) that the k-th parameter of the flat buffer covers,
 * unless that parameter's gradient is fp32. If the previous piece is adjacent and has the same
 * type, extends that piece instead. */
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
    if (net->half_gradients)
        return status_fail(STATUS_INVALID, "gradients in half precision are rounded already");
    if (!net->gradients || begin < 0 || begin > end ||
        (size_t)end > net->flat_bytes / sizeof(float))
        return status_fail(STATUS_INVALID, "the range is outside of the network's gradients");
    struct rounding *r = calloc(1, sizeof *r + pieces * sizeof *r->piece);
    if (!r)
        return status_fail(STATUS_OOM, "no memory to plan the rounding of gradients");
    r->net = net;
    for (int k = 0; k < net->n_trained; k++)
        add_piece(r, k, begin, end);
    enum status st = plan_pieces(r);
    if (st == STATUS_OK)
        *out = r;
    else
        rounding_free(r);
    return st;
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
    r->net->dev->backend->free(r->net->dev, r->workspace);
    free(r);
}
