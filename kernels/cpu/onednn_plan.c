/* Opens engines, stores layouts, and makes plans. A plan has a primitive and the reorders that the
 * primitive needs. */
#include "kernels/cpu/onednn_plan.h"

#include "base/array.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onednn_engine *onednn_engine_of(struct device *dev)
{
    return ((struct cpu_device *)dev)->onednn;
}

const char *onednn_version(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

int onednn_vector_bits(void)
{
    int isa = dnnl_get_effective_cpu_isa();
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core)
        return 512;
    return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 ? 256 : 128;
}

/* Makes the primitive descriptor of one pass in `type`, with the gradients of weights in fp32, as
 * plans do. *fast is set to the result of onednn_is_fast(). */
static enum status try_pass(struct onednn_engine *e, enum pass pass, bool is_conv, enum dtype type,
                            bool *fast)
{
    enum { IMAGES = 2, CHANNELS = 32, SIDE = 8, KERNEL = 3 };
    enum status st;
    enum dtype weight = pass == PASS_BACKWARD_WEIGHTS ? DTYPE_F32 : type;
    struct tensor_desc t[3] = {
        is_conv ? tensor_4d(type, LAYOUT_ANY, IMAGES, CHANNELS, SIDE, SIDE)
                : tensor_2d(type, IMAGES, CHANNELS),
        is_conv ? tensor_4d(weight, LAYOUT_ANY, CHANNELS, CHANNELS, KERNEL, KERNEL)
                : tensor_2d(weight, CHANNELS, CHANNELS),
    };
    t[2] = t[0]; /* the padding makes input and result equally large */
    struct md md[3];
    memset(md, 0, sizeof md);
    struct gemm_like g = {.pass = pass,
                          .src = &md[0],
                          .weights = &md[1],
                          .dst = &md[2],
                          .is_conv = is_conv,
                          .stride = {1, 1},
                          .pad = {KERNEL / 2, KERNEL / 2}};
    dnnl_primitive_desc_t pd = NULL;
    for (int i = 0; i < 3; i++) {
        t[i].layout = LAYOUT_ANY;
        CHECK(md_from_tensor(e, &t[i], 1, &md[i]));
    }
    CHECK(pd_make(&pd, e->engine, &g));
    *fast = onednn_is_fast(pd);
done:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < 3; i++)
        md_free(&md[i]);
    return st;
}

/* Returns whether the library computes in `type`. Returns false if it has no implementation. */
static bool probe(struct onednn_engine *e, enum dtype type)
{
    for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD_WEIGHTS; pass++)
        for (int is_conv = 0; is_conv < 2; is_conv++) {
            bool fast = false;
            if (try_pass(e, (enum pass)pass, is_conv, type, &fast) != STATUS_OK || !fast)
                return false;
        }
    return true;
}

/* Finds the 16-bit types in which oneDNN computes. */
static void find_native(struct onednn_engine *e)
{
    static const enum dtype narrow[] = {DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        e->native[narrow[i]] = onednn_has_instructions(narrow[i]) && probe(e, narrow[i]);
}

bool onednn_native(const struct onednn_engine *e, enum dtype type)
{
    return e->native[type];
}

enum status onednn_engine_open(struct onednn_engine **out)
{
    enum status st;
    struct onednn_engine *e;
    TRY(array_new(&e, 1));
    CHECK(onednn_status(dnnl_engine_create(&e->engine, dnnl_cpu, 0), "dnnl_engine_create"));
    CHECK(onednn_status(dnnl_stream_create(&e->stream, e->engine, dnnl_stream_default_flags),
                        "dnnl_stream_create"));
    find_native(e);
    *out = e;
    e = NULL;
done:
    onednn_engine_close(e);
    return st;
}

void onednn_engine_close(struct onednn_engine *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->n_layouts; i++)
        md_free(&e->layout[i]);
    free(e->layout);
    if (e->stream)
        dnnl_stream_destroy(e->stream);
    if (e->engine)
        dnnl_engine_destroy(e->engine);
    free(e);
}

/* The library's logical dimensions: grouped weights have one more dimension than the tensor. */
static int library_dims(const struct tensor_desc *t, int groups, dnnl_dims_t dims)
{
    int n = 0;
    if (groups > 1)
        dims[n++] = groups;
    for (int i = 0; i < t->ndim; i++)
        dims[n++] = i == 0 && groups > 1 ? t->dim[0] / groups : t->dim[i];
    return n;
}

static dnnl_format_tag_t tag_of(enum layout layout, int ndims)
{
    static const dnnl_format_tag_t plain[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    switch (layout) {
    case LAYOUT_ANY:
        return dnnl_format_tag_any;
    case LAYOUT_NHWC:
        return dnnl_acdb;
    case LAYOUT_NCHW8C:
        return dnnl_aBcd8b;
    case LAYOUT_NCHW16C:
        return dnnl_aBcd16b;
    default:
        return plain[ndims];
    }
}

static const dnnl_data_type_t library_type[DTYPE_COUNT] = {
    [DTYPE_F32] = dnnl_f32, [DTYPE_F16] = dnnl_f16, [DTYPE_BF16] = dnnl_bf16,
    [DTYPE_U8] = dnnl_u8,   [DTYPE_I32] = dnnl_s32,
};

enum status md_from_tensor(struct onednn_engine *e, const struct tensor_desc *t, int groups,
                           struct md *out)
{
    if (t->ndim == 0) {
        md_free(out);
        return STATUS_OK;
    }
    if (t->layout == LAYOUT_OPAQUE) {
        if (t->opaque < 0 || t->opaque >= e->n_layouts)
            return status_fail(STATUS_INVALID,
                               "a tensor has a layout that belongs to another backend");
        return md_copy(out, &e->layout[t->opaque]);
    }
    dnnl_dims_t dims = {0};
    int n = library_dims(t, groups, dims);
    if (library_type[t->type] == dnnl_data_type_undef)
        return status_fail(STATUS_UNSUPPORTED, "oneDNN has no data type %s", dtype_str(t->type));
    return md_make(out, n, dims, library_type[t->type], tag_of(t->layout, n));
}

enum status md_plain_like(const struct md *like, enum dtype type, struct md *out)
{
    dnnl_dims_t dims = {0};
    int n = md_dims(like, dims);
    return md_make(out, n, dims, library_type[type], tag_of(LAYOUT_PLAIN, n));
}

/* Sets *number to the number of a layout; adds the layout if it is new. */
static enum status layout_number(struct onednn_engine *e, const struct md *m, int32_t *number)
{
    for (int i = 0; i < e->n_layouts; i++) {
        if (md_equal(&e->layout[i], m)) {
            *number = i;
            return STATUS_OK;
        }
    }
    TRY(array_reserve(&e->layout, e->n_layouts));
    TRY(md_copy(&e->layout[e->n_layouts], m));
    *number = e->n_layouts++;
    return STATUS_OK;
}

enum status md_to_tensor(struct onednn_engine *e, const struct md *m, int groups,
                         struct tensor_desc *t)
{
    static const enum layout named[] = {LAYOUT_PLAIN, LAYOUT_NHWC, LAYOUT_NCHW8C, LAYOUT_NCHW16C};
    enum status st = STATUS_OK;
    struct md probe = {0};
    t->bytes = md_bytes(m);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        struct tensor_desc as = *t;
        as.layout = named[i];
        bool image_only = named[i] != LAYOUT_PLAIN;
        if (image_only && (t->ndim != 4 || groups > 1 || t->dim[1] % tensor_block(&as) != 0))
            continue;
        CHECK(md_from_tensor(e, &as, groups, &probe));
        if (md_equal(&probe, m)) {
            t->layout = named[i];
            goto done;
        }
    }
    t->layout = LAYOUT_OPAQUE;
    CHECK(layout_number(e, m, &t->opaque));
done:
    md_free(&probe);
    return st;
}

static enum status run(dnnl_primitive_t p, dnnl_stream_t s, int n, const dnnl_exec_arg_t *args)
{
    return onednn_status(dnnl_primitive_execute(p, s, n, args), "dnnl_primitive_execute");
}

static enum status reorder(const struct binding *b, dnnl_stream_t s)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, b->output ? b->wanted : b->given},
                              {DNNL_ARG_TO, b->output ? b->given : b->wanted}};
    return run(b->reorder, s, 2, args);
}

static enum status set_handle(dnnl_memory_t m, void *ptr)
{
    return onednn_status(dnnl_memory_set_data_handle(m, ptr), "dnnl_memory_set_data_handle");
}

/* Sets the addresses of the tensors. Usually they equal those of the previous step; then the
 * function only compares them. */
static enum status bind_pointers(struct onednn_plan *p, void *const arg[ROLE_COUNT])
{
    for (int i = 0; i < p->n; i++) {
        struct binding *b = &p->binding[i];
        if (b->bound != arg[b->role]) {
            TRY(set_handle(b->given, arg[b->role]));
            b->bound = arg[b->role];
        }
    }
    char *workspace = arg[ROLE_WORKSPACE];
    if (p->base.workspace == 0 || workspace == p->workspace_bound)
        return STATUS_OK;
    if (p->scratchpad)
        TRY(set_handle(p->scratchpad, workspace));
    for (int i = 0; i < p->n; i++)
        if (p->binding[i].reorder)
            TRY(set_handle(p->binding[i].wanted, workspace + p->binding[i].offset));
    p->workspace_bound = workspace;
    return STATUS_OK;
}

static enum status onednn_plan_execute(struct op_plan *base, void *const arg[ROLE_COUNT],
                                       struct stream *s)
{
    (void)s;
    struct onednn_plan *p = (struct onednn_plan *)base;
    /* OpenMP stores the number of threads separately for each calling thread. */
    omp_set_num_threads(base->device->threads);
    TRY(bind_pointers(p, arg));
    for (int i = 0; i < p->n; i++)
        if (p->binding[i].reorder && !p->binding[i].output)
            TRY(reorder(&p->binding[i], p->stream));
    const struct binding *sole = &p->binding[0];
    if (p->compute)
        TRY(p->compute(
            p, arg, sole->reorder ? (char *)arg[ROLE_WORKSPACE] + sole->offset : arg[sole->role]));
    else
        TRY(run(p->primitive, p->stream, p->n_exec, p->exec));
    for (int i = 0; i < p->n; i++)
        if (p->binding[i].reorder && p->binding[i].output)
            TRY(reorder(&p->binding[i], p->stream));
    return STATUS_OK;
}

static void onednn_plan_free(struct op_plan *base)
{
    struct onednn_plan *p = (struct onednn_plan *)base;
    for (int i = 0; i < p->n; i++) {
        struct binding *b = &p->binding[i];
        if (b->reorder)
            dnnl_primitive_destroy(b->reorder);
        if (b->wanted && b->wanted != b->given)
            dnnl_memory_destroy(b->wanted);
        if (b->given)
            dnnl_memory_destroy(b->given);
    }
    if (p->scratchpad)
        dnnl_memory_destroy(p->scratchpad);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    free(p);
}

enum status onednn_plan_new(struct device *dev, const struct op_desc *desc,
                            struct onednn_plan **plan)
{
    struct op_plan *base;
    TRY(op_plan_new(dev, desc, sizeof **plan, NULL, onednn_plan_execute, &base));
    struct onednn_plan *p = *plan = (struct onednn_plan *)base;
    p->base.impl = p->impl;
    p->base.free = onednn_plan_free;
    p->stream = onednn_engine_of(dev)->stream;
    omp_set_num_threads(dev->threads); /* oneDNN makes plans for this number of threads */
    return STATUS_OK;
}

enum status onednn_plan_bind(struct onednn_plan *p, int arg, enum role role, bool output,
                             const struct md *given, const struct md *wanted)
{
    dnnl_engine_t engine = onednn_engine_of(p->base.device)->engine;
    struct binding *b = &p->binding[p->n++];
    b->arg = arg;
    b->role = role;
    b->output = output;
    TRY(memory_make(&b->given, given, engine));
    if (md_equal(given, wanted)) {
        b->wanted = b->given;
        return STATUS_OK;
    }
    b->offset = p->base.workspace;
    p->base.workspace += cpu_align(md_bytes(wanted));
    enum status st;
    dnnl_primitive_desc_t pd = NULL;
    CHECK(pd_make_reorder(&pd, engine, b->output ? wanted : given, b->output ? given : wanted));
    CHECK(onednn_status(dnnl_primitive_create(&b->reorder, pd), "dnnl_primitive_create"));
    CHECK(memory_make(&b->wanted, wanted, engine));
done:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return st;
}

enum status onednn_plan_finish(struct onednn_plan *p, const_dnnl_primitive_desc_t pd)
{
    enum status st;
    struct md scratch = {0};
    dnnl_engine_t engine = onednn_engine_of(p->base.device)->engine;
    CHECK(onednn_status(dnnl_primitive_create(&p->primitive, pd), "dnnl_primitive_create"));
    CHECK(md_query(&scratch, pd, dnnl_query_scratchpad_md));
    for (p->n_exec = 0; p->n_exec < p->n; p->n_exec++)
        p->exec[p->n_exec] =
            (dnnl_exec_arg_t){p->binding[p->n_exec].arg, p->binding[p->n_exec].wanted};
    size_t need = cpu_align(md_bytes(&scratch));
    if (need) {
        /* The scratchpad is first in the workspace, so all other pieces move up by its size. */
        CHECK(memory_make(&p->scratchpad, &scratch, engine));
        p->exec[p->n_exec++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratchpad};
        for (int i = 0; i < p->n; i++)
            p->binding[i].offset += need;
        p->base.workspace += need;
    }
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success)
        snprintf(p->impl, sizeof p->impl, "onednn:%s", name);
done:
    md_free(&scratch);
    return st;
}

enum status onednn_plan_own(struct device *dev, const struct op_desc *desc, enum role weights,
                            dnnl_format_tag_t tag, size_t bytes, onednn_compute *compute,
                            const char *name, struct op_plan **out)
{
    enum status st;
    struct op_desc d = *desc;
    struct md given = {0}, wanted = {0};
    struct onednn_plan *plan = NULL;
    struct tensor_desc *w = &d.t[weights];
    const dnnl_dims_t dims = {w->dim[0], w->dim[1], w->dim[2], w->dim[3]};
    CHECK(md_make(&wanted, 4, dims, dnnl_f32, tag));
    if (w->layout == LAYOUT_ANY)
        CHECK(md_to_tensor(onednn_engine_of(dev), &wanted, 1, w));
    CHECK(md_from_tensor(onednn_engine_of(dev), w, 1, &given));
    w->bytes = md_bytes(&given);
    w->raw = weights == ROLE_DW && w->rounds != DTYPE_F32;
    CHECK(onednn_plan_new(dev, &d, &plan));
    CHECK(onednn_plan_bind(plan, 0, weights, weights == ROLE_DW, &given, &wanted));
    plan->compute = compute;
    plan->base.workspace += bytes;
    snprintf(plan->impl, sizeof plan->impl, "own:%s:%s", name, cpu_device_of(dev)->kernels->isa);
    *out = &plan->base;
    plan = NULL;
done:
    md_free(&given);
    md_free(&wanted);
    if (plan)
        op_plan_free(&plan->base);
    return st;
}
