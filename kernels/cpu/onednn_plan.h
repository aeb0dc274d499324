/* Inside the oneDNN half of the CPU backend: layouts, and a plan made of one primitive with
 * reorders before and after it where the library wants another layout than the tensor has. */
#ifndef KERNELS_CPU_ONEDNN_PLAN_H
#define KERNELS_CPU_ONEDNN_PLAN_H

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_compat.h"

struct onednn_engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool native[DTYPE_COUNT];
    /* tensor_desc.opaque is an index into `layout`. Layouts live as long as the device. */
    int n_layouts;
    struct md *layout;
};

/* Fills in e->native: see onednn_native(). */
void onednn_native_find(struct onednn_engine *e);

/* Generated code, not the reference loops and not an explicit im2col. */
bool onednn_is_fast(const_dnnl_primitive_desc_t pd);

/* The engine of a CPU device. */
struct onednn_engine *onednn_engine_of(struct device *dev);

/* The library's descriptor for a tensor; groups > 1 cuts weights (O, I/g, ..) into (g, O/g, ..). */
MUST_CHECK enum status md_from_tensor(struct onednn_engine *e, const struct tensor_desc *t,
                                      int groups, struct md *out);

/* The plain descriptor with the dimensions of `like`, of which grouped weights have five. */
MUST_CHECK enum status md_plain_like(const struct md *like, enum dtype type, struct md *out);

/* Writes into `t` the layout that `m` is: one of the named ones, or opaque. Sets t->bytes. */
MUST_CHECK enum status md_to_tensor(struct onednn_engine *e, const struct md *m, int groups,
                                    struct tensor_desc *t);

/* One tensor of a primitive. */
struct binding {
    int arg; /* DNNL_ARG_SRC ... */
    enum role role;
    bool output;
    dnnl_memory_t given;      /* as the tensor lies */
    dnnl_memory_t wanted;     /* as the primitive wants it; same object when they agree */
    dnnl_primitive_t reorder; /* between the two; NULL when they agree */
    size_t offset;            /* of `wanted` in the workspace, when reordered */
    void *bound;              /* the pointer that `given` holds now */
};

enum { BINDINGS_MAX = 4 };

struct onednn_plan {
    struct op_plan base;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad; /* at the start of the workspace; NULL when not wanted */
    int n;
    struct binding binding[BINDINGS_MAX];
    void *workspace_bound;
    dnnl_exec_arg_t exec[BINDINGS_MAX + 1];
    int n_exec;
    char impl[64];
};

/* Makes an empty plan around a copy of `desc`. */
MUST_CHECK enum status onednn_plan_new(struct device *dev, const struct op_desc *desc,
                                       struct onednn_plan **plan);

/* Adds a tensor that lies as `given` and is wanted as `wanted`. */
MUST_CHECK enum status onednn_plan_bind(struct onednn_plan *p, int arg, enum role role, bool output,
                                        const struct md *given, const struct md *wanted);

/* Takes the primitive of `pd`, its scratchpad and its name. Call once, after binding. */
MUST_CHECK enum status onednn_plan_finish(struct onednn_plan *p, const_dnnl_primitive_desc_t pd);

#endif
