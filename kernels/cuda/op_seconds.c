/* Times an operation on its device, for op_seconds() of kernels/backend.h. */
#include "base/rng.h"
#include "config.h"
#include "kernels/cuda/cudnn_desc.h"
#include "kernels/cuda/op_timer.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/plan_file.h"
#include "kernels/cuda/traffic.h"
#include "kernels/gpu_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 2048 };

/* Writes to the key those attributes that determine the time. Returns false if lowering does not
 * compare operations of this kind. */
static bool put_attributes(FILE *out, const struct op_desc *d)
{
    const uint64_t bn = OP_SET(BN_FWD_TRAIN) | OP_SET(BN_BWD) | OP_SET(BN_FINALIZE) |
                        OP_SET(BN_APPLY) | OP_SET(BN_BWD_APPLY);
    const struct conv_attr *conv = &d->attr.conv;
    const struct pool_attr *pool = op_in(d->kind, OPS_MAXPOOL) ? &d->attr.pool : &d->attr.bn.pool;
    if (op_in(d->kind, OPS_CONV | OPS_CONV_FUSED))
        fprintf(out, " s%dx%d p%dx%d g%d relu%d", conv->stride[0], conv->stride[1], conv->pad[0],
                conv->pad[1], conv->groups, conv->relu);
    else if (op_in(d->kind, bn))
        fprintf(out, " relu%d", d->attr.bn.relu);
    else if (op_in(d->kind, OPS_MAXPOOL | OPS_BN_POOL))
        fprintf(out, " k%dx%d s%dx%d p%dx%d", pool->kernel[0], pool->kernel[1], pool->stride[0],
                pool->stride[1], pool->pad[0], pool->pad[1]);
    else if (d->kind == OP_ADD_STRIDED)
        fprintf(out, " s%dx%d", d->attr.grid.stride[0], d->attr.grid.stride[1]);
    else
        return false;
    return true;
}

static void put_tensor(FILE *out, enum role role, const struct tensor_desc *t)
{
    fprintf(out, " %s:%s:%s:%s:%d:%d", role_str(role), dtype_str(t->type), dtype_str(t->rounds),
            layout_str(t->layout), t->opaque, t->raw);
    for (int i = 0; i < t->ndim; i++)
        fprintf(out, ":%" PRId64, t->dim[i]);
}

/* Writes the key: a readable summary of the operation and a hash of its whole description. Returns
 * false if lowering does not compare operations of this kind. */
static bool key_of(const struct op_plan *plan, char key[PLAN_KEY_MAX])
{
    const struct op_desc *d = &plan->desc;
    const struct cuda_device *dev = cuda_device_of(plan->device);
    const struct tensor_desc *x = &d->t[ROLE_X];
    char text[TEXT_MAX] = "", size[64] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    if (!out)
        return false;
    bool compared = put_attributes(out, d);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim)
            put_tensor(out, (enum role)r, &d->t[r]);
    if (fclose(out) != 0 || text[TEXT_MAX - 2] != '\0' || !compared)
        return false;
    for (int r = 0; x->ndim != 4 && r < ROLE_COUNT; r++)
        if (d->t[r].ndim == 4)
            x = &d->t[r];
    for (int i = 0, n = 0; i < x->ndim; i++)
        n += snprintf(size + n, sizeof size - (size_t)n, "%s%" PRId64, i ? "x" : "", x->dim[i]);
    snprintf(key, PLAN_KEY_MAX, "%.127s sm%d cudnn%s ampscale%s %s %s %s %s #%016" PRIx64 "%s",
             dev->name, dev->sm, cudnn_version(), AMPSCALE_VERSION, op_str(d->kind), plan->impl,
             dtype_str(x->type), size, hash_fnv1a64(text), cuda_times_once(dev) ? " once" : "");
    return true;
}

static enum status run_plan(void *context, void *const operand[], void *workspace,
                            struct cuda_stream *s)
{
    void *arg[ROLE_COUNT];
    memcpy(arg, operand, sizeof arg);
    arg[ROLE_WORKSPACE] = workspace;
    return op_execute(context, arg, &s->base);
}

static enum status time_own_plan(struct op_plan *plan, double *seconds)
{
    struct timed_operand operand[ROLE_COUNT] = {{0}};
    struct timed_work work = {run_plan, plan, plan->workspace};
    struct op_trial *trial;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (plan->desc.t[r].ndim)
            operand[r] = (struct timed_operand){plan->desc.t[r].bytes, plan->desc.t[r].type};
    TRY(op_trial_open(cuda_device_of(plan->device), operand, ROLE_COUNT, &trial));
    struct timed_seconds time = {0};
    enum status st = op_trial_time(trial, &work, 0, &time);
    *seconds = time.median;
    op_trial_close(trial);
    return st;
}

/* Times the operation without attr.bn.sync, for two reasons. The sums over ranks take the same time
 * in fused and plain forms. To time them, all ranks would have to call attr.bn.sync at the same
 * time. */
static enum status time_alone(struct op_plan *plan, double *seconds)
{
    struct op_desc alone = plan->desc;
    struct op_plan *of_alone;
    alone.attr.bn.sync = NULL;
    TRY(op_plan(plan->device, &alone, &of_alone));
    enum status st = cuda_op_seconds(of_alone, seconds);
    op_plan_free(of_alone);
    return st;
}

/* The predicted seconds of a plan for a described GPU. */
static double described_seconds(const struct op_plan *plan)
{
    struct traffic t;
    double seconds = 0;
    cuda_traffic(plan, &t);
    for (int i = 0; i < t.n; i++)
        seconds += gpu_time_of(cuda_device_of(plan->device)->described, &plan->desc, &t.kernel[i],
                               NULL, NULL)
                       .seconds;
    return seconds;
}

enum status cuda_op_seconds(struct op_plan *plan, double *seconds)
{
    struct cuda_device *dev = cuda_device_of(plan->device);
    struct plan_choice known;
    char key[PLAN_KEY_MAX];
    *seconds = 0;
    if (dev->base.deterministic)
        return STATUS_OK;
    if (dev->described) {
        *seconds = described_seconds(plan);
        return STATUS_OK;
    }
    if (op_in(plan->desc.kind, OPS_BN_SUMS) && plan->desc.attr.bn.sync)
        return time_alone(plan, seconds);
    if (!key_of(plan, key))
        return STATUS_OK;
    TRY(plan_file_open(dev));
    bool stale = plan_file_find(key, &known);
    if (stale && known.fact == PLAN_TIMED) {
        *seconds = (double)known.nanoseconds * 1e-9;
        return STATUS_OK;
    }
    if (dev->base.plans == 1)
        return STATUS_OK;
    enum status st = time_own_plan(plan, seconds);
    if (st == STATUS_OOM) { /* not enough device memory for timing; training may still have
                             * enough */
        *seconds = 0;
        return STATUS_OK;
    }
    TRY(st);
    struct plan_choice timed = {.fact = PLAN_TIMED, .nanoseconds = (int64_t)(*seconds * 1e9)};
    if (timed.nanoseconds < 1)
        timed.nanoseconds = 1;
    TRY(stale ? plan_file_replace(key, &timed) : plan_file_add(key, &timed));
    *seconds = (double)timed.nanoseconds * 1e-9; /* rounded to nanoseconds, because the next run
                                                  * reads the rounded value from the file */
    return STATUS_OK;
}
