/* Runs one operation, and checks its memory accesses. */
#include "verify/rig.h"

#include "base/array.h"
#include "base/half_array.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, GUARD_BYTE = 0xA5, POISON_BYTE = 0xFF /* 0xFF...: NaN in every float type */ };

/* --- operands --- */

int64_t operand_count(const struct op_desc *d, enum role role)
{
    struct op_roles roles = op_roles(d->kind);
    if (!((roles.reads | roles.writes) >> role & 1))
        return 0;
    return role == ROLE_STATE || role == ROLE_METRICS ? 1 : tensor_count(&d->t[role]);
}

size_t operand_bytes(const struct op_desc *d, enum role role)
{
    size_t each = dtype_size(d->t[role].type);
    if (role == ROLE_STATE)
        each = sizeof(struct step_state);
    if (role == ROLE_METRICS)
        each = sizeof(struct loss_metrics);
    return (size_t)operand_count(d, role) * each;
}

enum status operands_new(const struct op_desc *d, struct operands *o)
{
    *o = (struct operands){{NULL}};
    for (int r = 0; r < ROLE_COUNT; r++) {
        size_t bytes = operand_bytes(d, (enum role)r);
        enum status st = bytes ? array_new((char **)&o->p[r], bytes) : STATUS_OK;
        if (st != STATUS_OK) {
            operands_free(o);
            return st;
        }
    }
    return STATUS_OK;
}

void operands_free(struct operands *o)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        free(o->p[r]);
    *o = (struct operands){{NULL}};
}

enum status operands_copy(const struct op_desc *d, const struct operands *from, struct operands *to)
{
    TRY(operands_new(d, to));
    for (int r = 0; r < ROLE_COUNT; r++)
        if (to->p[r])
            memcpy(to->p[r], from->p[r], operand_bytes(d, (enum role)r));
    return STATUS_OK;
}

enum status operands_narrow(const struct op_desc *d, const struct operands *from,
                            struct operands *to)
{
    TRY(operands_new(d, to));
    for (int r = 0; r < ROLE_COUNT; r++) {
        const float *wide = from->p[r];
        uint16_t *narrow = to->p[r];
        int64_t n = operand_count(d, (enum role)r);
        if (narrow && d->t[r].type == DTYPE_F16)
            f16_from_floats(wide, 1, narrow, n);
        else if (narrow && d->t[r].type == DTYPE_BF16)
            bf16_from_floats(wide, 1, narrow, n);
        else if (narrow)
            memcpy(narrow, wide, operand_bytes(d, (enum role)r));
    }
    return STATUS_OK;
}

void operands_widen(const struct op_desc *d, const struct operands *from, struct operands *to)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        const uint16_t *narrow = from->p[r];
        float *wide = to->p[r];
        int64_t n = operand_count(d, (enum role)r);
        if (narrow && d->t[r].type == DTYPE_F16)
            f16_to_floats(narrow, wide, n);
        else if (narrow && d->t[r].type == DTYPE_BF16)
            bf16_to_floats(narrow, wide, n);
        else if (narrow)
            memcpy(wide, narrow, operand_bytes(d, (enum role)r));
    }
}

/* --- guarded device memory --- */

struct rig_buffer {
    char *base;   /* device memory: guard, tensor, guard; NULL: the tensor uses the memory of
                   * another tensor */
    size_t bytes; /* of the tensor */
    char *host;   /* (bytes) data to upload, or downloaded data */
};

struct rig {
    struct device *dev;
    struct stream *stream;
    struct op_plan *plan;
    struct op_roles roles;
    struct rig_buffer buffer[ROLE_COUNT];
    void *arg[ROLE_COUNT];
};

static enum status buffer_open(struct rig *rig, enum role role, size_t bytes)
{
    struct rig_buffer *b = &rig->buffer[role];
    const struct backend *backend = rig->dev->backend;
    char guard[GUARD];
    void *mem;
    b->bytes = bytes;
    TRY(array_new(&b->host, bytes));
    TRY(backend->alloc(rig->dev, bytes + 2 * GUARD, &mem));
    b->base = mem;
    rig->arg[role] = b->base + GUARD;
    memset(guard, GUARD_BYTE, sizeof guard);
    TRY(backend->upload(rig->stream, b->base, guard, GUARD));
    TRY(backend->upload(rig->stream, b->base + GUARD + bytes, guard, GUARD));
    return backend->stream_sync(rig->stream);
}

static enum status buffer_poison(struct rig *rig, enum role role)
{
    struct rig_buffer *b = &rig->buffer[role];
    memset(b->host, POISON_BYTE, b->bytes);
    return rig->dev->backend->upload(rig->stream, b->base + GUARD, b->host, b->bytes);
}

static enum status buffer_remember(struct rig *rig, enum role role)
{
    struct rig_buffer *b = &rig->buffer[role];
    return rig->dev->backend->download(rig->stream, b->host, b->base + GUARD, b->bytes);
}

static enum status buffer_check_guards(struct rig *rig, enum role role)
{
    struct rig_buffer *b = &rig->buffer[role];
    const struct backend *backend = rig->dev->backend;
    unsigned char before[GUARD], after[GUARD];
    TRY(backend->download(rig->stream, before, b->base, GUARD));
    TRY(backend->download(rig->stream, after, b->base + GUARD + b->bytes, GUARD));
    TRY(backend->stream_sync(rig->stream));
    for (size_t i = 0; i < GUARD; i++) {
        if (before[i] != GUARD_BYTE)
            return status_fail(STATUS_MISMATCH, "byte %zu before %s was overwritten", GUARD - i,
                               role_str(role));
        if (after[i] != GUARD_BYTE)
            return status_fail(STATUS_MISMATCH, "byte %zu after the end of %s was overwritten", i,
                               role_str(role));
    }
    return STATUS_OK;
}

static enum status buffer_check_unchanged(struct rig *rig, enum role role)
{
    struct rig_buffer *b = &rig->buffer[role];
    char *now;
    enum status st;
    CHECK(array_new(&now, b->bytes));
    CHECK(rig->dev->backend->download(rig->stream, now, b->base + GUARD, b->bytes));
    CHECK(rig->dev->backend->stream_sync(rig->stream));
    if (memcmp(now, b->host, b->bytes) != 0)
        st = status_fail(STATUS_MISMATCH, "input %s was changed", role_str(role));
done:
    free(now);
    return st;
}

/* --- the rig --- */

enum status rig_open(struct device *dev, const struct op_desc *d, const struct in_place *share,
                     struct rig **out)
{
    struct rig *rig;
    *out = NULL;
    TRY(array_new(&rig, 1));
    rig->dev = dev;
    rig->roles = op_roles(d->kind);
    enum status st;
    CHECK(dev->backend->stream_open(dev, &rig->stream));
    CHECK(op_plan(dev, d, &rig->plan));
    const struct op_desc *planned = &rig->plan->desc;
    for (int r = 0; r < ROLE_COUNT; r++) {
        size_t bytes = operand_bytes(planned, (enum role)r);
        if (bytes && !(share && r == (int)share->out))
            CHECK(buffer_open(rig, (enum role)r, planned->t[r].ndim ? planned->t[r].bytes : bytes));
    }
    if (rig->plan->workspace)
        CHECK(buffer_open(rig, ROLE_WORKSPACE, rig->plan->workspace));
    if (share && !tensor_same(&planned->t[share->out], &planned->t[share->in]))
        CHECK(status_fail(STATUS_UNSUPPORTED, "%s and %s were given different layouts",
                          role_str(share->out), role_str(share->in)));
    if (share)
        rig->arg[share->out] = rig->arg[share->in];
done:
    if (st != STATUS_OK) {
        rig_close(rig);
        return st;
    }
    *out = rig;
    return STATUS_OK;
}

void rig_close(struct rig *rig)
{
    if (!rig)
        return;
    for (int r = 0; r < ROLE_COUNT; r++) {
        free(rig->buffer[r].host);
        rig->dev->backend->free(rig->dev, rig->buffer[r].base);
    }
    op_plan_free(rig->plan);
    rig->dev->backend->stream_close(rig->stream);
    free(rig);
}

const struct op_desc *rig_desc(const struct rig *rig)
{
    return &rig->plan->desc;
}

const char *rig_impl(const struct rig *rig)
{
    return rig->plan->impl;
}

/* Copies a tensor from plain order to its layout or back. It does not use OP_REORDER, because an
 * error in the device's reorder could hide an error in the operation. */
static void permute(const struct tensor_desc *t, char *plain, char *packed, bool pack)
{
    size_t size = dtype_size(t->type);
    int64_t b = tensor_block(t);
    for (int64_t n = 0; n < t->dim[0]; n++)
        for (int64_t c = 0; c < t->dim[1]; c++)
            for (int64_t h = 0; h < t->dim[2]; h++)
                for (int64_t w = 0; w < t->dim[3]; w++, plain += size) {
                    char *at = packed + (size_t)tensor_at(t, b, n, c, h, w) * size;
                    memcpy(pack ? at : plain, pack ? plain : at, size);
                }
}

static bool is_permuted(const struct tensor_desc *t)
{
    return t->ndim == 4 && t->layout != LAYOUT_PLAIN && t->layout != LAYOUT_OPAQUE;
}

static enum status rig_put(struct rig *rig, enum role role, const void *plain)
{
    const struct tensor_desc *t = &rig->plan->desc.t[role];
    struct rig_buffer *b = &rig->buffer[role];
    if (t->layout == LAYOUT_OPAQUE)
        return tensor_upload(rig->stream, t, rig->arg[role], plain);
    if (is_permuted(t))
        permute(t, (char *)plain, b->host, true);
    else
        memcpy(b->host, plain, b->bytes);
    TRY(rig->dev->backend->upload(rig->stream, rig->arg[role], b->host, b->bytes));
    return rig->dev->backend->stream_sync(rig->stream);
}

static enum status rig_get(struct rig *rig, enum role role, void *plain)
{
    const struct tensor_desc *t = &rig->plan->desc.t[role];
    size_t bytes = operand_bytes(&rig->plan->desc, role);
    if (t->layout == LAYOUT_OPAQUE)
        return tensor_download(rig->stream, t, rig->arg[role], plain);
    char *packed;
    enum status st;
    CHECK(array_new(&packed, bytes));
    CHECK(rig->dev->backend->download(rig->stream, packed, rig->arg[role], bytes));
    CHECK(rig->dev->backend->stream_sync(rig->stream));
    if (is_permuted(t))
        permute(t, plain, packed, false);
    else
        memcpy(plain, packed, bytes);
done:
    free(packed);
    return st;
}

enum status rig_put_all(struct rig *rig, const struct operands *o)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (rig->roles.reads >> r & 1 && rig->arg[r])
            TRY(rig_put(rig, (enum role)r, o->p[r]));
    return STATUS_OK;
}

enum status rig_get_all(struct rig *rig, struct operands *o)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (rig->roles.writes >> r & 1 && rig->arg[r])
            TRY(rig_get(rig, (enum role)r, o->p[r]));
    return STATUS_OK;
}

/* Whether the operation may write the memory of `role`, because `role` is an output, or because an
 * in-place output uses the same memory. */
static bool is_written(const struct rig *rig, int role)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (rig->arg[r] == rig->arg[role] && rig->roles.writes >> r & 1)
            return true;
    return role == ROLE_WORKSPACE;
}

enum status rig_run(struct rig *rig)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (!rig->buffer[r].base)
            continue;
        if (!(rig->roles.reads >> r & 1))
            TRY(buffer_poison(rig, (enum role)r));
        else if (!is_written(rig, r))
            TRY(buffer_remember(rig, (enum role)r));
    }
    TRY(rig->dev->backend->stream_sync(rig->stream));
    TRY(op_execute(rig->plan, rig->arg, rig->stream));
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (!rig->buffer[r].base)
            continue;
        TRY(buffer_check_guards(rig, (enum role)r));
        if (!is_written(rig, r))
            TRY(buffer_check_unchanged(rig, (enum role)r));
    }
    return STATUS_OK;
}

enum status run_once(struct device *dev, const struct op_desc *d, struct operands *o)
{
    struct rig *rig = NULL;
    enum status st;
    CHECK(rig_open(dev, d, NULL, &rig));
    CHECK(rig_put_all(rig, o));
    CHECK(rig_run(rig));
    CHECK(rig_get_all(rig, o));
done:
    rig_close(rig);
    return st;
}
