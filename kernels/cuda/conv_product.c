/* Chooses between cuDNN's plan and a product of cuBLASLt, and runs the product. */
#include "kernels/cuda/conv_product.h"

#include "kernels/cuda/conv_operands.h"
#include "kernels/cuda/conv_plan.h"
#include "kernels/cuda/op_timer.h"
#include "kernels/cuda/plan_file.h"

#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

static bool is_product(const struct conv_problem *a)
{
    const struct conv_attr *v = &a->conv;
    return a->form <= CONV_FWD_BIAS_RELU && a->r == 1 && a->s == 1 && v->groups == 1 &&
           v->stride[0] == 1 && v->stride[1] == 1 && v->pad[0] == 0 && v->pad[1] == 0;
}

static struct matmul_problem product_of(const struct conv_problem *a)
{
    int64_t pixels = a->n * a->h * a->w;
    struct matmul_problem p = {.type = a->type, .result = a->type, .tf32 = a->tf32};
    switch (a->form) {
    case CONV_BWD_DATA:
        p.m = pixels, p.n = a->c, p.k = a->k;
        break;
    case CONV_BWD_WEIGHTS:
        p.m = a->k, p.n = a->c, p.k = pixels;
        p.a_transposed = true;
        break;
    default:
        p.m = pixels, p.n = a->k, p.k = a->c;
        p.b_transposed = true;
        p.bias = a->form != CONV_FWD;
        p.relu = a->form == CONV_FWD_BIAS_RELU;
    }
    return p;
}

enum status conv_product_run(const struct conv_problem *a, struct matmul *product,
                             void *const port[CG_PORT_COUNT], void *workspace, cudaStream_t stream)
{
    switch (a->form) {
    case CONV_BWD_DATA:
        return matmul_run(product, port[CG_DY], port[CG_W], NULL, port[CG_DX], workspace, stream);
    case CONV_BWD_WEIGHTS:
        return matmul_run(product, port[CG_DY], port[CG_X], NULL, port[CG_DW], workspace, stream);
    default:
        return matmul_run(product, port[CG_X], port[CG_W], port[CG_BIAS], port[CG_Y], workspace,
                          stream);
    }
}

size_t conv_exec_copies(const struct conv_exec *exec)
{
    const struct conv_problem *a = &exec->problem;
    size_t bytes = (size_t)(a->n * (a->h * a->w * a->c + a->p * a->q * a->k)) * sizeof(float);
    return a->type == DTYPE_F32 && exec->workspace >= bytes ? bytes : 0;
}

/* --- times --- */

struct timed_product {
    const struct conv_problem *problem;
    struct matmul *product;
};

static enum status enqueue_product(void *context, void *const port[], void *workspace,
                                   struct cuda_stream *s)
{
    const struct timed_product *t = context;
    return conv_product_run(t->problem, t->product, port, workspace, s->raw);
}

/* Sets *fact to the product's time or, if it cannot be executed, to PLAN_LACKING. Fails if the
 * execution broke the GPU, or if the device lacks the memory. */
static enum status time_product(struct cuda_device *dev, struct timed_product *p,
                                struct plan_choice *fact)
{
    struct timed_operand operand[CG_PORT_COUNT];
    struct timed_work work = {enqueue_product, p, p->product->workspace};
    struct timed_seconds time = {0};
    struct op_trial *trial;
    conv_operands(p->problem, operand);
    TRY(op_trial_open(dev, operand, CG_PORT_COUNT, &trial));
    enum status st = op_trial_time(trial, &work, 0, &time);
    *fact = (struct plan_choice){.fact = PLAN_TIMED, .nanoseconds = (int64_t)(time.median * 1e9)};
    if (st != STATUS_OK)
        *fact = (struct plan_choice){.fact = PLAN_LACKING};
    else if (fact->nanoseconds < 1)
        fact->nanoseconds = 1;
    if (st == STATUS_UNSUPPORTED || (st == STATUS_LIBRARY && op_trial_lives(trial)))
        st = STATUS_OK;
    op_trial_close(trial);
    return st;
}

/* Stores what timing has found; if the product broke the GPU, before the process ends. */
static enum status take_time(struct cuda_device *dev, struct timed_product *p, const char *key,
                             struct plan_choice *fact)
{
    struct first_failure failure = {0};
    enum status st = time_product(dev, p, fact);
    if (st == STATUS_LIBRARY)
        st = status_context(st,
                            "the product for '%s' broke the GPU as it was timed; later processes "
                            "do not use it",
                            key);
    first_failure_keep(&failure, st);
    if (st == STATUS_OK || st == STATUS_LIBRARY)
        first_failure_keep(&failure, plan_file_add(key, fact));
    if (st == STATUS_LIBRARY)
        plan_file_save();
    return first_failure_return(&failure);
}

static bool takes_less(const struct plan_choice *fact, double seconds)
{
    return fact->fact == PLAN_TIMED && (double)fact->nanoseconds * 1e-9 < seconds;
}

/* Finds the stored time of the product, or the fact that it cannot be executed. Writes the key
 * under which the device stores its own. */
static bool find_time(const struct cuda_device *dev, const struct conv_problem *a,
                      char key[PLAN_KEY_MAX], struct plan_choice *fact)
{
    struct cudnn_device props = {.sm = dev->sm};
    snprintf(props.name, sizeof props.name, "%.63s", dev->name);
    conv_plan_key(&props, a, &(struct plan_limits){.plans = 0}, key);
    size_t n = strlen(key);
    snprintf(key + n, PLAN_KEY_MAX - n, " cublaslt%zu", cublasLtGetVersion());
    if (plan_file_find(key, fact))
        return true;
    if (!cuda_times_once(dev))
        return false;
    n = strlen(key);
    snprintf(key + n, PLAN_KEY_MAX - n, " once");
    return plan_file_find(key, fact);
}

/* --- the choice --- */

/* Opens the product, and closes it again if it does not take less time than `seconds`. */
static enum status choose_faster(struct cuda_device *dev, const struct conv_problem *a,
                                 double seconds, struct matmul **product)
{
    const struct matmul_problem m = product_of(a);
    struct plan_choice fact;
    char key[PLAN_KEY_MAX];
    enum status st;
    bool known = find_time(dev, a, key, &fact);
    if (known ? !takes_less(&fact, seconds) : dev->base.plans == 1)
        return STATUS_OK;
    CHECK(matmul_open(dev, &m, product));
    if (!known)
        CHECK(take_time(dev, &(struct timed_product){a, *product}, key, &fact));
    (*product)->seconds = (double)fact.nanoseconds * 1e-9;
    if (takes_less(&fact, seconds))
        return STATUS_OK;
done:
    matmul_close(*product);
    *product = NULL;
    return st == STATUS_UNSUPPORTED || st == STATUS_OOM ? STATUS_OK : st;
}

enum status conv_product_choose(struct cuda_device *dev, const struct conv_problem *a,
                                const struct conv_exec *exec, struct matmul **product)
{
    *product = NULL;
    if (!is_product(a))
        return STATUS_OK;
    /* A GPU that is only described has no times. By the model (gpu_time.h) the product takes less
     * time if cuDNN's plan copies tensors, and otherwise the same. */
    if (!exec || (dev->described && conv_exec_copies(exec) > 0)) {
        const struct matmul_problem m = product_of(a);
        return matmul_open(dev, &m, product);
    }
    return exec->seconds > 0 ? choose_faster(dev, a, exec->seconds, product) : STATUS_OK;
}
