/* A backend: the memory that holds tensors, and the code that computes on them.
 *
 * `struct backend` is a table of functions and a list of the operations that it supports; `struct
 * device` is one opened device of a backend. Work is planned once and executed many times:
 *
 *     struct op_plan *plan;
 *     TRY(op_plan(device, &desc, &plan));     layouts chosen, workspace known
 *     ... op_execute(plan, args, stream) ...  allocates nothing, opens nothing
 *     op_plan_free(plan);
 *
 * A backend has a list of records. The first record that covers a description makes its plan. If no
 * record covers it, op_plan returns STATUS_UNSUPPORTED, and lowering composes the operation from
 * simpler ones.
 *
 * - ref: plain C for any layout except OPAQUE; sums in double. Tests compare other backends with it
 * - cpu: oneDNN for convolution and linear, own kernels for operations limited by memory bandwidth
 * - cuda: a module (ampscale_cuda.so). The program loads it only if a run uses a GPU, so the same
 *   build also runs on machines without a GPU */
#pragma once

#include "base/status.h"
#include "kernels/ops.h"
#include "kernels/traffic.h"

struct device;
struct stream;
struct event;
struct op_plan;
struct graph_exec;

/* The calls of `profile` (struct backend), for a profiler that has started this process. The
 * profiler records only the kernels between BEGIN and END. BEGIN and END wait for the stream;
 * without a profiler they do nothing else. MARK launches the empty kernel profile_mark: the kernels
 * after it belong to the next operation. */
enum profile_call { PROFILE_BEGIN, PROFILE_MARK, PROFILE_END };

/* Makes a plan for a description; *plan is NULL after a failure. */
typedef enum status op_planner(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan);

/* Executes a plan: see op_execute. */
typedef enum status op_executor(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                struct stream *s);

/* An entry of a backend's list of supported operations. */
struct op_record {
    uint64_t kinds;   /* a bit for each enum op_kind (OP_SET) */
    unsigned types;   /* a bit for each enum dtype that X (or DY) may have */
    unsigned layouts; /* a bit for each enum layout that X (or DY) may have */
    op_planner *plan;
};

struct backend {
    const char *name;    /* "ref", "cpu", "cuda" */
    const char *library; /* the library it uses, "oneDNN"; NULL: none */
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
    /* Whether the device can launch kernels early; see struct stream. NULL: no device of the
     * backend can launch kernels early. */
    bool (*pdl)(struct device *dev);
    /* See device_admit. NULL: every type is allowed. */
    enum status (*admit)(struct device *dev, enum dtype type);

    /* Allocates zeroed memory, aligned to 64 bytes (256 on a GPU). free, free_host, stream_close
     * and event_close accept NULL. */
    enum status (*alloc)(struct device *dev, size_t bytes, void **mem);
    void (*free)(struct device *dev, void *mem);
    /* Allocates host memory from which copies to the device have full speed (pinned memory for a
     * GPU). */
    enum status (*alloc_host)(struct device *dev, size_t bytes, void **mem);
    void (*free_host)(struct device *dev, void *mem);

    /* Copies in stream order. The host buffer must stay valid until the stream has completed the
     * copy. */
    enum status (*upload)(struct stream *s, void *dst, const void *src_host, size_t bytes);
    enum status (*download)(struct stream *s, void *dst_host, const void *src, size_t bytes);
    /* Copies within the memory of one device, or between two devices of the same backend. */
    enum status (*copy)(struct stream *s, void *dst, const void *src, size_t bytes);
    enum status (*zero)(struct stream *s, void *dst, size_t bytes);
    /* Optional (NULL if all devices share one memory): lets streams of `dev` access the memory of
     * `other`, a device of the same backend, directly. Sets *direct to whether they can; if they
     * cannot, copies go through the host. */
    enum status (*peer_open)(struct device *dev, struct device *other, bool *direct);

    enum status (*stream_open)(struct device *dev, struct stream **s);
    void (*stream_close)(struct stream *s);
    enum status (*stream_sync)(struct stream *s);

    /* An event is a mark in a stream. event_seconds returns the seconds between two events, both of
     * which must be complete. */
    enum status (*event_open)(struct device *dev, struct event **e);
    void (*event_close)(struct event *e);
    enum status (*event_record)(struct event *e, struct stream *s);
    double (*event_seconds)(const struct event *from, const struct event *to);

    /* True: streams work asynchronously to the calling thread; the work of a call is complete only
     * when its stream has executed it, and events order the streams of a device. False: the calling
     * thread does the work, which is complete when the call returns. */
    bool asynchronous;
    /* Makes all later work of `s` wait until the most recent record of the event is complete. */
    enum status (*stream_wait)(struct stream *s, const struct event *e);
    /* Waits until the most recent record of the event is complete. */
    enum status (*event_wait)(const struct event *e);

    /* capture_begin starts to record the work of this stream's calls as a graph, and capture_end
     * stops. capture_launch executes the graph. All are NULL if a graph would save no time. */
    enum status (*capture_begin)(struct stream *s);
    enum status (*capture_end)(struct stream *s, struct graph_exec **g);
    enum status (*capture_launch)(struct graph_exec *g, struct stream *s);
    void (*capture_free)(struct graph_exec *g);

    /* Optional (NULL if no profiler records the device's kernels): see enum profile_call. */
    enum status (*profile)(struct stream *s, enum profile_call call);

    /* Lists the kernels that one execution of a plan launches (traffic.h). Optional: NULL if the
     * backend cannot list them. */
    void (*traffic)(const struct op_plan *plan, struct traffic *t);
};

/* Maximum number of a library's plans for a problem. For a convolution cuDNN's heuristics name 29
 * to 40 configurations, best first. */
enum { PLANS_MAX = 20 };

/* How a CPU computes 3x3 convolutions of stride 1 in fp32. WINOGRAD: by F(4x4, 3x3) in each pass
 * that has a kernel for it, which multiplies up to four times less, with errors several times as
 * large. DIRECT: never. AUTO: where it is expected to be faster, a decision that depends only on
 * the shapes and on the processor's instructions. */
enum conv_algorithm { CONV_AUTO, CONV_DIRECT, CONV_WINOGRAD };
#define CONV_ALGORITHM_WORDS "auto|direct|winograd"

/* Every backend's device begins with this struct. */
struct device {
    const struct backend *backend;
    int index;
    int threads; /* host threads that its operations use */
    /* True: plans give the same bits in every run, even if such plans are slower. The caller sets
     * it after device_open, before the first plan. Plans of ref and cpu always give the same bits
     * (with the same number of threads). */
    bool deterministic;
    /* Number of the library's plans that are timed for a problem; 0: PLANS_MAX. If it is less than
     * PLANS_MAX, each is timed once; 1: nothing is timed. The caller sets it like `deterministic`.
     * Only cuda times plans. */
    int plans;
    /* The caller sets it like `deterministic`. Only cpu has more than one algorithm. */
    enum conv_algorithm conv_algorithm;
};

struct stream {
    struct device *device;
    /* Programmatic dependent launch: the backend's own kernels are launched before the previous
     * kernel of the stream is complete, and wait for it on the device. The results have the same
     * bits. The caller may change this between calls, but may set it only if the backend's pdl()
     * returns true for the device. */
    bool pdl;
};

/* Every backend's plan begins with this struct. */
struct op_plan {
    struct device *device;
    struct op_desc desc; /* as given, but ANY is resolved and `bytes` is filled in */
    size_t workspace;    /* bytes needed at ROLE_WORKSPACE; 0: no workspace */
    const char *impl;    /* the implementation: "jit:avx512_core", "own:avx512", "ref" */
    double flops;        /* FLOPs of the algorithm, if fewer than op_flops; 0: all of op_flops */
    /* See op_seconds; optional. */
    enum status (*seconds)(struct op_plan *plan, double *seconds);
    op_executor *execute;
    void (*free)(struct op_plan *plan);
};

/* Finds "cpu", "ref" or "cuda"; "cuda" loads the module, or fails with one line that names the
 * missing part. Defined in module.c, the only file that refers to all backends. */
MUST_CHECK enum status backend_find(const char *name, const struct backend **b);

/* Opens "cpu", "cpu:0", "ref" ... with `threads` host threads per device. */
MUST_CHECK enum status device_open(const char *spec, int threads, struct device **dev);
void device_close(struct device *dev); /* NULL is fine */

/* Sets dev->conv_algorithm, for networks whose operands have this type. STATUS_USAGE if the device
 * or the type allows no such choice. */
MUST_CHECK enum status device_choose_conv(struct device *dev, enum conv_algorithm a,
                                          enum dtype operand);
const char *conv_algorithm_str(enum conv_algorithm a); /* "auto" ... */

/* Returns whether the device supports a type (F32, F16, BF16, TF32) in every operation of a
 * network: it can store the type and has instructions that multiply it. If not, the type is
 * emulated by fp32 with rounding (see tensor_desc.rounds). Emulation changes only the order of
 * sums; on a CPU, native bf16 products also treat subnormal values (below 2^-126) as 0. */
static inline bool device_native(struct device *dev, enum dtype type)
{
    return dev->backend->native(dev, type);
}

/* STATUS_USAGE if the device cannot run a network whose operands have this type, even if the type
 * is emulated. */
MUST_CHECK static inline enum status device_admit(struct device *dev, enum dtype type)
{
    return dev->backend->admit ? dev->backend->admit(dev, type) : STATUS_OK;
}

/* Checks the description, then tries the records in order. On failure *plan is NULL; if no record
 * covers the description, the message ends with the reason given by the last record tried. */
MUST_CHECK enum status op_plan(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan);
void op_plan_free(struct op_plan *plan); /* NULL is fine */

/* For backends: allocates a plan of `size` bytes. The plan begins with a struct op_plan, which
 * contains a copy of `desc`. The bytes after that struct are 0. op_plan_free calls the plan's
 * member `free`; if the backend has not set it, op_plan_free calls free(). A plan that owns more
 * memory needs its own `free`. */
MUST_CHECK enum status op_plan_new(struct device *dev, const struct op_desc *desc, size_t size,
                                   const char *impl, op_executor *execute, struct op_plan **plan);

/* arg[role] is a pointer to device memory for each tensor of the plan, and for STATE, METRICS,
 * SCALER and WORKSPACE if the plan uses them. Two threads must not execute one plan at the same
 * time. */
MUST_CHECK static inline enum status op_execute(struct op_plan *plan, void *const arg[ROLE_COUNT],
                                                struct stream *s)
{
    return plan->execute(plan, arg, s);
}

/* Sets *seconds to the time of one execution; 0: unknown. Lowering compares alternative forms of an
 * operation by this time. The first call for a plan measures it, and needs additional device memory
 * until the call returns. */
MUST_CHECK static inline enum status op_seconds(struct op_plan *plan, double *seconds)
{
    *seconds = 0;
    return plan->seconds ? plan->seconds(plan, seconds) : STATUS_OK;
}

/* Copies between `plain`, a host array in logical order, and a device tensor of any layout. Each
 * call makes a plan and is therefore too slow for steps. Use it for set-up, checkpoints and tests.
 */
MUST_CHECK enum status tensor_upload(struct stream *s, const struct tensor_desc *desc, void *dst,
                                     const void *plain);
MUST_CHECK enum status tensor_download(struct stream *s, const struct tensor_desc *desc,
                                       const void *src, void *plain);

/* The same for a tensor of any float type, from and to floats. An upload rounds them. */
MUST_CHECK enum status tensor_upload_floats(struct stream *s, const struct tensor_desc *desc,
                                            void *dst, const float *plain);
MUST_CHECK enum status tensor_download_floats(struct stream *s, const struct tensor_desc *desc,
                                              const void *src, float *plain);
