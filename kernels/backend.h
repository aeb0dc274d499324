/* A backend: where tensors live and who computes on them.
 *
 * `struct backend` is a table of functions and a list of what they cover; `struct device` is one
 * opened device of it. Work is planned once and executed many times:
 *
 *     struct op_plan *plan;
 *     TRY(op_plan(device, &desc, &plan));     layouts chosen, workspace known
 *     ... op_execute(plan, args, stream) ...  allocates nothing, opens nothing
 *     op_plan_free(plan);
 *
 * A backend registers records; the first record that covers a description plans it. A description
 * that none covers is STATUS_UNSUPPORTED, and lowering then composes it from simpler operations.
 *
 * ref   plain C with double accumulation: the oracle, for any layout but OPAQUE
 * cpu   oneDNN for convolution and linear, own kernels for what memory bandwidth bounds
 * cuda  a module loaded at run time (ampscale_cuda.so), so that one build serves machines with
 *       and without a GPU and a CPU run never loads it */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "base/status.h"
#include "kernels/ops.h"

struct device;
struct stream;
struct event;
struct op_plan;
struct graph_exec;

/* To a profiler that this process runs under, which looks only at the kernels between BEGIN and
 * END; without one they do nothing. Both wait for the stream. MARK launches PROFILE_MARK_KERNEL,
 * which does nothing: kernels after it are those of the next operation. */
enum profile_call { PROFILE_BEGIN, PROFILE_MARK, PROFILE_END };
#define PROFILE_MARK_KERNEL "profile_mark"

/* One line of a backend's list of abilities. */
struct op_record {
    enum op_kind kind;
    unsigned types;   /* bit per enum dtype that X (or DY) may have */
    unsigned layouts; /* bit per enum layout that X (or DY) may have */
    enum status (*plan)(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
};

struct backend {
    const char *name;    /* "ref", "cpu", "cuda" */
    const char *library; /* what it stands on, "oneDNN"; NULL: nothing */
    const char *(*library_version)(void);
    int n_records;
    const struct op_record *record;

    /* Opens device `index` with `threads` host threads (0: all cores this process may use). */
    enum status (*open)(const struct backend *b, int index, int threads, struct device **dev);
    void (*close)(struct device *dev);
    /* One line that names hardware and library: "Intel Xeon ..., oneDNN 2.6.3, 2 threads". */
    void (*describe)(struct device *dev, char *out, size_t size);

    /* See device_native. */
    bool (*native)(struct device *dev, enum dtype type);

    /* 64-byte aligned, on a GPU 256-byte, zeroed. */
    enum status (*alloc)(struct device *dev, size_t bytes, void **mem);
    void (*free)(struct device *dev, void *mem);
    /* Host memory that copies to the device at full speed (pinned, on a GPU). */
    enum status (*alloc_host)(struct device *dev, size_t bytes, void **mem);
    void (*free_host)(struct device *dev, void *mem);

    /* In stream order; the host buffer must stay until the stream has passed the copy. */
    enum status (*upload)(struct stream *s, void *dst, const void *src_host, size_t bytes);
    enum status (*download)(struct stream *s, void *dst_host, const void *src, size_t bytes);
    /* Between device memory of this device or of another one of the same backend. */
    enum status (*copy)(struct stream *s, void *dst, const void *src, size_t bytes);
    enum status (*zero)(struct stream *s, void *dst, size_t bytes);
    /* Optional (NULL where all memory is one): lets streams of `dev` reach the memory of another
     * device of the same backend by themselves, from now on. *direct: they can; where not, copies
     * go by way of the host. */
    enum status (*peer_open)(struct device *dev, struct device *other, bool *direct);

    enum status (*stream_open)(struct device *dev, struct stream **s);
    /* One whose work goes before that of other streams where both wait: for communication. */
    enum status (*stream_open_urgent)(struct device *dev, struct stream **s);
    void (*stream_close)(struct stream *s);
    enum status (*stream_sync)(struct stream *s);

    /* A mark in a stream, and the time between two marks that have passed. */
    enum status (*event_open)(struct device *dev, struct event **e);
    void (*event_close)(struct event *e);
    enum status (*event_record)(struct event *e, struct stream *s);
    double (*event_seconds)(const struct event *from, const struct event *to);

    /* Streams go on beside the calling thread: a call has been carried out only when its stream has
     * passed it, and several streams of a device order themselves by events. Where false, a stream
     * is the calling thread, and every call has been carried out when it returns. */
    bool asynchronous;
    /* What is put on `s` after this begins when the event, as last recorded, has passed. */
    enum status (*stream_wait)(struct stream *s, const struct event *e);
    /* Returns when the event, as last recorded, has passed. */
    enum status (*event_wait)(const struct event *e);

    /* Optional (NULL where steps are not worth recording): the calls between begin and end are
     * kept as a graph that launch replays. */
    enum status (*capture_begin)(struct stream *s);
    enum status (*capture_end)(struct stream *s, struct graph_exec **g);
    enum status (*capture_launch)(struct graph_exec *g, struct stream *s);
    void (*capture_free)(struct graph_exec *g);

    /* Optional (NULL where no profiler of the device's kernels exists): see enum profile_call. */
    enum status (*profile)(struct stream *s, enum profile_call call);
};

/* Every backend's device begins with this. */
struct device {
    const struct backend *backend;
    int index;
    int threads; /* host threads that its operations use */
    /* Plans that are made from now on give the same bits in every run, at whatever cost; set by who
     * opens the device, before it plans. Those of ref and cpu always do (with the same threads). */
    bool deterministic;
};

struct stream {
    struct device *device;
};

/* Every backend's plan begins with this. */
struct op_plan {
    struct device *device;
    struct op_desc desc; /* as asked, every ANY resolved and `bytes` filled in */
    size_t workspace;    /* bytes wanted at ROLE_WORKSPACE; 0: none */
    const char *impl;    /* what will run: "jit:avx512_core", "own:avx512", "ref" */
    /* See op_seconds; optional. */
    enum status (*seconds)(struct op_plan *plan, double *seconds);
    enum status (*execute)(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s);
    void (*free)(struct op_plan *plan);
};

/* "cpu", "ref" or "cuda"; the last loads the module, and says in one line what is missing. */
MUST_CHECK enum status backend_find(const char *name, const struct backend **b);

/* Opens "cpu", "cpu:0", "ref" ... with `threads` per device. */
MUST_CHECK enum status device_open(const char *spec, int threads, struct device **dev);
void device_close(struct device *dev); /* NULL is fine */

/* Whether the device stores and multiplies a type (F32, F16, BF16, TF32) as it is, in every
 * operation that a network has, by instructions made for it. Where not, fp32 that rounds stands for
 * the type (see tensor_desc.rounds); the results are the same but for the order of sums. (A CPU's
 * products of bf16 also take subnormal values, below 2^-126, for 0.) */
static inline bool device_native(struct device *dev, enum dtype type)
{
    return dev->backend->native(dev, type);
}

/* Checks the description, then asks the records in order. On failure *plan is NULL; that none
 * covers it is told with what the last that was asked said. */
MUST_CHECK enum status op_plan(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan);
void op_plan_free(struct op_plan *plan); /* NULL is fine */

/* arg[role] points into device memory for each tensor present (and STATE, METRICS, WORKSPACE where
 * the kind uses them). Not for two threads at once on one plan. */
MUST_CHECK static inline enum status op_execute(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                                struct stream *s)
{
    return plan->execute(plan, arg, s);
}

/* Seconds that an execution takes, for lowering to compare forms by; 0: unknown. A backend times it
 * when it is first asked, which takes memory of the device for as long; a plan that is not asked
 * costs no time. */
MUST_CHECK static inline enum status op_seconds(struct op_plan *plan, double *seconds)
{
    *seconds = 0;
    return plan->seconds ? plan->seconds(plan, seconds) : STATUS_OK;
}

/* Copies between a plain host array and a device tensor of any layout, planning what is needed;
 * for set-up, checkpoints and tests, not for steps. `plain` has the logical order. */
MUST_CHECK enum status tensor_upload(struct stream *s, const struct tensor_desc *desc, void *dst,
                                     const void *plain);
MUST_CHECK enum status tensor_download(struct stream *s, const struct tensor_desc *desc,
                                       const void *src, void *plain);
#endif
