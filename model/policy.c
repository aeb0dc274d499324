/* The table of precision policies. */
#include "model/policy.h"

#include <string.h>

static const struct policy policies[] = {
    /* name, operand, activation, weight, master, batch norm, scaled */
    {"fp32", DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, false},
    {"O0", DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, false},
    {"tf32", DTYPE_TF32, DTYPE_F32, DTYPE_TF32, DTYPE_F32, DTYPE_F32, false},
    {"amp", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32, DTYPE_F32, true},
    {"O1", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32, DTYPE_F32, true},
    {"O2", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32, DTYPE_F32, true},
    {"O3", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F16, false},
    {"bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, DTYPE_F32, false},
};

enum status policy_find(const char *name, int keep_batchnorm, struct policy *p)
{
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        if (strcmp(name, policies[i].name) != 0)
            continue;
        *p = policies[i];
        if (keep_batchnorm >= 0)
            p->batchnorm = keep_batchnorm ? DTYPE_F32 : p->activation;
        return STATUS_OK;
    }
    return status_fail(STATUS_USAGE,
                       "unknown precision '%s'; use fp32, tf32, amp or bf16, or O0 to O3", name);
}

static enum dtype stored(enum dtype t)
{
    return t == DTYPE_TF32 ? DTYPE_F32 : t;
}

struct param_types policy_param(const struct policy *p, enum param_kind kind)
{
    switch (kind) {
    case PARAM_CONV_WEIGHT:
    case PARAM_LINEAR_WEIGHT:
        /* TF32 is a type of operands only; gradients are stored in fp32. */
        return (struct param_types){p->master, p->weight, stored(p->weight)};
    case PARAM_BIAS:
        return (struct param_types){p->master, stored(p->weight), stored(p->weight)};
    default:
        return (struct param_types){p->batchnorm, p->batchnorm, p->batchnorm};
    }
}
