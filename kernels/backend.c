/* Plans operations with a backend's list of records, and copies between tensors and host arrays. */
#include "kernels/backend.h"

#include "base/array.h"
#include "base/half_array.h"

#include <stdlib.h>

void device_close(struct device *dev)
{
    if (dev)
        dev->backend->close(dev);
}

enum status op_plan(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    *plan = NULL;
    TRY(op_check(desc));
    const struct backend *b = dev->backend;
    static const enum role leading[] = {ROLE_X, ROLE_DY, ROLE_W, ROLE_DW};
    const struct tensor_desc *x = &desc->t[ROLE_X];
    for (size_t i = 0; x->ndim == 0 && i < sizeof leading / sizeof *leading; i++)
        x = &desc->t[leading[i]];
    enum status st =
        status_fail(STATUS_UNSUPPORTED, "no record of the backend covers this operation");
    for (int i = 0; i < b->n_records; i++) {
        const struct op_record *r = &b->record[i];
        if (!op_in(desc->kind, r->kinds) || !(r->types >> x->type & 1) ||
            !(r->layouts >> x->layout & 1))
            continue;
        st = r->plan(dev, desc, plan);
        if (st != STATUS_UNSUPPORTED)
            return st;
    }
    return status_context(st, "device '%s' has no operation %s for %s %s", b->name,
                          op_str(desc->kind), dtype_str(x->type), layout_str(x->layout));
}

static void plan_free(struct op_plan *plan)
{
    free(plan);
}

enum status op_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                        const char *impl, op_executor *execute, struct op_plan **plan)
{
    *plan = calloc(1, size);
    if (!*plan)
        return status_fail(STATUS_OOM, "no memory for a plan of %s", op_str(desc->kind));
    **plan = (struct op_plan){
        .device = dev, .desc = *desc, .impl = impl, .execute = execute, .free = plan_free};
    return STATUS_OK;
}

void op_plan_free(struct op_plan *plan)
{
    if (plan)
        plan->free(plan);
}

/* Reorders `src` to `dst` once, with a plan and a workspace that it frees afterwards. */
static enum status reorder_once(struct stream *s, const struct tensor_desc *x, const void *src,
                                const struct tensor_desc *y, void *dst)
{
    enum status st;
    void *workspace = NULL;
    struct op_plan *plan = NULL;
    struct op_desc d = {.kind = OP_REORDER};
    d.t[ROLE_X] = *x;
    d.t[ROLE_Y] = *y;
    const struct backend *b = s->device->backend;
    CHECK(op_plan(s->device, &d, &plan));
    if (plan->workspace)
        CHECK(b->alloc(s->device, plan->workspace, &workspace));
    void *arg[ROLE_COUNT] = {[ROLE_X] = (void *)src, [ROLE_Y] = dst, [ROLE_WORKSPACE] = workspace};
    CHECK(op_execute(plan, arg, s));
    CHECK(b->stream_sync(s));
done:
    b->free(s->device, workspace);
    op_plan_free(plan);
    return st;
}

static struct tensor_desc plain_of(const struct tensor_desc *t)
{
    struct tensor_desc p = *t;
    p.layout = LAYOUT_PLAIN;
    p.opaque = 0;
    p.bytes = (size_t)tensor_count(t) * dtype_size(t->type);
    return p;
}

enum status tensor_upload(struct stream *s, const struct tensor_desc *desc, void *dst,
                          const void *plain)
{
    const struct backend *b = s->device->backend;
    struct tensor_desc p = plain_of(desc);
    if (desc->layout == LAYOUT_PLAIN) {
        TRY(b->upload(s, dst, plain, p.bytes));
        return b->stream_sync(s);
    }
    void *staged = NULL;
    enum status st;
    CHECK(b->alloc(s->device, p.bytes, &staged));
    CHECK(b->upload(s, staged, plain, p.bytes));
    CHECK(reorder_once(s, &p, staged, desc, dst));
done:
    b->free(s->device, staged);
    return st;
}

enum status tensor_download(struct stream *s, const struct tensor_desc *desc, const void *src,
                            void *plain)
{
    const struct backend *b = s->device->backend;
    struct tensor_desc p = plain_of(desc);
    if (desc->layout == LAYOUT_PLAIN) {
        TRY(b->download(s, plain, src, p.bytes));
        return b->stream_sync(s);
    }
    void *staged = NULL;
    enum status st;
    CHECK(b->alloc(s->device, p.bytes, &staged));
    CHECK(reorder_once(s, desc, src, &p, staged));
    CHECK(b->download(s, plain, staged, p.bytes));
    CHECK(b->stream_sync(s));
done:
    b->free(s->device, staged);
    return st;
}

enum status tensor_upload_floats(struct stream *s, const struct tensor_desc *desc, void *dst,
                                 const float *plain)
{
    int64_t n = tensor_count(desc);
    uint16_t *narrow;
    if (desc->type == DTYPE_F32)
        return tensor_upload(s, desc, dst, plain);
    TRY(array_new(&narrow, n));
    (desc->type == DTYPE_F16 ? f16_from_floats : bf16_from_floats)(plain, 1, narrow, n);
    enum status st = tensor_upload(s, desc, dst, narrow);
    free(narrow);
    return st;
}

enum status tensor_download_floats(struct stream *s, const struct tensor_desc *desc,
                                   const void *src, float *plain)
{
    int64_t n = tensor_count(desc);
    uint16_t *narrow;
    if (desc->type == DTYPE_F32)
        return tensor_download(s, desc, src, plain);
    TRY(array_new(&narrow, n));
    enum status st = tensor_download(s, desc, src, narrow);
    if (st == STATUS_OK)
        (desc->type == DTYPE_F16 ? f16_to_floats : bf16_to_floats)(narrow, plain, n);
    free(narrow);
    return st;
}
