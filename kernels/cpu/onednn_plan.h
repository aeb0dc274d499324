/* Layouts and plans, for the files of the CPU backend that use oneDNN. A plan executes one
 * primitive or function, and reorders tensors before and after it if the library needs another
 * layout. */
#pragma once

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

/* Whether the implementation is generated code, rather than reference loops or an explicit
 * im2col. */
bool onednn_is_fast(const_dnnl_primitive_desc_t pd);

/* The engine of a CPU device. */
struct onednn_engine *onednn_engine_of(struct device *dev);

/* The library's descriptor for a tensor. If groups = g > 1, weights of shape (O, I/g, ..) get the
 * shape (g, O/g, I/g, ..). */
MUST_CHECK enum status md_from_tensor(struct onednn_engine *e, const struct tensor_desc *t,
                                      int groups, struct md *out);

/* The plain descriptor with the dimensions of `like`; grouped weights have five dimensions. */
MUST_CHECK enum status md_plain_like(const struct md *like, enum dtype type, struct md *out);

/* Sets t->layout to the layout of `m` (OPAQUE if enum layout has no name for it), and t->bytes. */
MUST_CHECK enum status md_to_tensor(struct onednn_engine *e, const struct md *m, int groups,
                                    struct tensor_desc *t);

/* One tensor of a primitive. */
struct binding {
    int arg; /* DNNL_ARG_SRC ... */
    enum role role;
    bool output;
    dnnl_memory_t given;      /* in the tensor's layout */
    dnnl_memory_t wanted;     /* the tensor in the primitive's layout; the same object as `given` if
                               * the layouts agree */
    dnnl_primitive_t reorder; /* reorders between `given` and `wanted`; NULL if the layouts agree */
    size_t offset;            /* offset of `wanted` in the workspace, if there is a reorder */
    void *bound;              /* the address that `given` has now */
};

enum { BINDINGS_MAX = 4 };

struct onednn_plan;
typedef enum status onednn_compute(struct onednn_plan *p, void *const arg[ROLE_COUNT],
                                   void *result);

struct onednn_plan {
    struct op_plan base;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    /* If not NULL, it is called in place of the primitive. It computes the plan's sole bound tensor
     * in its `wanted` layout and writes it to `result`. */
    onednn_compute *compute;
    dnnl_memory_t scratchpad; /* scratchpad at the start of the workspace; NULL: not needed */
    int n;
    struct binding binding[BINDINGS_MAX];
    void *workspace_bound;
    dnnl_exec_arg_t exec[BINDINGS_MAX + 1];
    int n_exec;
    char impl[64];
};

/* Makes a plan that contains a copy of `desc` and has no tensors yet. */
MUST_CHECK enum status onednn_plan_new(struct device *dev, const struct op_desc *desc,
                                       struct onednn_plan **plan);

/* Adds a tensor of layout `given`, for which the primitive needs `wanted`. */
MUST_CHECK enum status onednn_plan_bind(struct onednn_plan *p, int arg, enum role role, bool output,
                                        const struct md *given, const struct md *wanted);

/* Makes the primitive of `pd` and its scratchpad, and sets plan->impl to the implementation's name.
 * Call once, after binding. */
MUST_CHECK enum status onednn_plan_finish(struct onednn_plan *p, const_dnnl_primitive_desc_t pd);

/* Makes a plan that calls `compute` and reorders only the weights, W or DW, from or to `tag`. The
 * last `bytes` of the workspace are for `compute`. `name`: the algorithm. */
MUST_CHECK enum status onednn_plan_own(struct device *dev, const struct op_desc *desc,
                                       enum role weights, dnnl_format_tag_t tag, size_t bytes,
                                       onednn_compute *compute, const char *name,
                                       struct op_plan **out);
