/* The optimizer and the check for overflows. When a plan is made, it uploads the segments and their
 * chunks. */
#include "base/array.h"
#include "kernels/cuda/plan.h"

#include <stdlib.h>
#include <string.h>

struct sgd_plan {
    struct op_plan base;
    struct cu_segments segments; /* in device memory */
    struct sgd_segment *host;    /* the plan's own copy of the description's segments */
    bool lars;
};

static struct cu_sgd sgd_of(const struct sgd_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    return (struct cu_sgd){.momentum = d->attr.sgd.momentum,
                           .nesterov = d->attr.sgd.nesterov,
                           .lars = p->lars,
                           .clip = d->attr.sgd.clip,
                           .state = arg[ROLE_STATE],
                           .gradient = d->t[ROLE_DW].type,
                           .half = d->t[ROLE_DW_HALF].type,
                           .copy = d->t[ROLE_WCOPY].type,
                           .dw = arg[ROLE_DW],
                           .dw_half = d->t[ROLE_DW_HALF].ndim ? arg[ROLE_DW_HALF] : NULL,
                           .w = arg[ROLE_W],
                           .v = arg[ROLE_MOMENTUM],
                           .wcopy = d->t[ROLE_WCOPY].ndim ? arg[ROLE_WCOPY] : NULL};
}

static enum status run_sgd(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    struct sgd_plan *p = (struct sgd_plan *)plan;
    struct cu_sgd a = sgd_of(p, arg);
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return plan->desc.kind == OP_SGD ? cu_sgd(&q, &a, &p->segments, arg[ROLE_WORKSPACE])
                                     : cu_check_finite(&q, &a, &p->segments, arg[ROLE_STATE]);
}

static void sgd_free(struct op_plan *plan)
{
    struct sgd_plan *p = (struct sgd_plan *)plan;
    cuda_free(plan->device, (void *)p->segments.segment);
    cuda_free(plan->device, (void *)p->segments.chunk);
    free(p->host);
    free(p);
}

/* Copies `bytes` to new device memory of a GPU that is present. Waits until the copy is complete: a
 * copy from pageable memory may continue after cudaMemcpy returns, and the streams of plans do not
 * wait for the default stream. */
static enum status send(struct device *dev, const void *host, size_t bytes, const void **out)
{
    void *mem;
    *out = NULL;
    if (cuda_device_of(dev)->described)
        return STATUS_OK;
    TRY(cuda_alloc(dev, bytes, &mem));
    *out = mem;
    TRY(cuda_check(cudaMemcpy(mem, host, bytes, cudaMemcpyHostToDevice), "send %zu bytes", bytes));
    return cuda_check(cudaStreamSynchronize(NULL), "send %zu bytes", bytes);
}

static enum status send_segments(struct sgd_plan *p)
{
    struct sgd_attr *attr = &p->base.desc.attr.sgd;
    size_t bytes = (size_t)attr->n_segments * sizeof *attr->segment;
    int64_t n_chunks = cu_chunks_cut(attr, NULL);
    struct cu_chunk *chunk = NULL;
    enum status st;
    const void *sent;
    CHECK(array_new(&chunk, n_chunks));
    CHECK(array_new(&p->host, attr->n_segments));
    memcpy(p->host, attr->segment, bytes);
    attr->segment = p->host;
    cu_chunks_cut(attr, chunk);
    CHECK(send(p->base.device, p->host, bytes, &sent));
    p->segments.segment = sent;
    CHECK(send(p->base.device, chunk, (size_t)n_chunks * sizeof *chunk, &sent));
    p->segments.chunk = sent;
    p->segments.n_segments = attr->n_segments;
    p->segments.n_chunks = n_chunks;
done:
    free(chunk);
    return st;
}

enum status cuda_plan_sgd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(cuda_resolve(&d, LAYOUT_NHWC));
    TRY(cuda_plan_new(dev, &d, sizeof(struct sgd_plan), run_sgd, plan));
    struct sgd_plan *p = (struct sgd_plan *)*plan;
    p->base.free = sgd_free;
    for (int i = 0; i < d.attr.sgd.n_segments; i++)
        p->lars = p->lars || (d.kind == OP_SGD && d.attr.sgd.segment[i].trust > 0);
    enum status st = send_segments(p);
    if (st != STATUS_OK) {
        sgd_free(*plan);
        *plan = NULL;
        return st;
    }
    void *const none[ROLE_COUNT] = {NULL};
    struct cu_sgd a = sgd_of(p, none);
    if (d.kind == OP_SGD)
        p->base.workspace = cu_sgd_workspace(&a, &p->segments);
    return STATUS_OK;
}
