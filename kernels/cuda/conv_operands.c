/* Sizes of the operands with which plans of a convolution are timed. */
#include "kernels/cuda/conv_operands.h"

/* Returns an operand for timing. It is large enough for the tensor at this port in every form. */
static struct timed_operand port_operand(const struct conv_problem *a, int port)
{
    size_t size = dtype_size(a->type);
    switch (port) {
    case CG_X:
    case CG_DX:
    case CG_BN_X:
    case CG_SHORTCUT:
    case CG_DY2:
    case CG_Z:
    case CG_APPLIED:
        return (struct timed_operand){(size_t)(a->n * a->c * a->h * a->w) * size, a->type};
    case CG_Y:
    case CG_DY:
        return (struct timed_operand){(size_t)(a->n * a->k * a->p * a->q) * size, a->type};
    case CG_W:
    case CG_DW:
        return (struct timed_operand){(size_t)(a->k * (a->c / a->conv.groups) * a->r * a->s) * size,
                                      a->type};
    case CG_PRO_SCALE:
    case CG_PRO_SHIFT:
    case CG_Z_SCALE:
    case CG_Z_SHIFT:
        return (struct timed_operand){(size_t)a->c * size, a->type};
    default: /* a value per channel of the input or of the result */
        return (struct timed_operand){(size_t)(a->k > a->c ? a->k : a->c) * sizeof(float),
                                      DTYPE_F32};
    }
}

#define PORT(name) ((uint64_t)1 << CG_##name)

/* Returns the set of a form's ports. The form must be one that conv_exec.c plans. */
static uint64_t ports_of(enum conv_form form)
{
    const uint64_t sums = PORT(SUM) | PORT(SQSUM), apply = PORT(PRO_SCALE) | PORT(PRO_SHIFT);
    const uint64_t bn = PORT(BN_X) | PORT(MEAN) | PORT(INVSTD) | PORT(GAMMA) | PORT(BETA) |
                        PORT(DGAMMA) | PORT(DBETA) | PORT(EQ_DY) | PORT(EQ_X) | PORT(EQ_BIAS);
    const uint64_t z_bn = PORT(Z) | PORT(Z_MEAN) | PORT(Z_INVSTD) | PORT(Z_GAMMA) | PORT(Z_BETA) |
                          PORT(Z_DGAMMA) | PORT(Z_DBETA) | PORT(Z_EQ_DY) | PORT(Z_EQ_X) |
                          PORT(Z_EQ_BIAS);
    switch (form) {
    case CONV_BWD_DATA:
        return PORT(DY) | PORT(W) | PORT(DX);
    case CONV_BWD_DATA_BN:
        return PORT(DY) | PORT(W) | PORT(DX) | bn;
    case CONV_BWD_DATA_ADD_BN:
        return PORT(DY) | PORT(W) | PORT(DX) | PORT(SHORTCUT) | PORT(DY2) | bn;
    case CONV_BWD_DATA_TWO_BN:
        return PORT(DY) | PORT(W) | PORT(DX) | bn | z_bn;
    case CONV_BWD_DATA_ADD_TWO_BN:
        return PORT(DY) | PORT(W) | PORT(DX) | PORT(DY2) | bn | z_bn;
    case CONV_BWD_WEIGHTS:
        return PORT(X) | PORT(DY) | PORT(DW);
    case CONV_APPLY_BWD_WEIGHTS:
        return PORT(X) | PORT(DY) | PORT(DW) | apply;
    case CONV_FWD_BIAS:
    case CONV_FWD_BIAS_RELU:
        return PORT(X) | PORT(W) | PORT(BIAS) | PORT(Y);
    case CONV_FWD_STATS:
        return PORT(X) | PORT(W) | PORT(Y) | sums;
    case CONV_APPLY_FWD_STATS:
        return PORT(X) | PORT(W) | PORT(Y) | sums | apply;
    case CONV_END_FWD_STATS:
        return PORT(X) | PORT(W) | PORT(Y) | PORT(SHORTCUT) | PORT(APPLIED) | sums | apply;
    case CONV_END_TWO_FWD_STATS:
        return PORT(X) | PORT(W) | PORT(Y) | PORT(Z) | PORT(Z_SCALE) | PORT(Z_SHIFT) |
               PORT(APPLIED) | sums | apply;
    default:
        return PORT(X) | PORT(W) | PORT(Y);
    }
}

void conv_operands(const struct conv_problem *problem, struct timed_operand operand[CG_PORT_COUNT])
{
    uint64_t ports = ports_of(problem->form);
    for (int i = 0; i < CG_PORT_COUNT; i++)
        operand[i] = ports >> i & 1 ? port_operand(problem, i) : (struct timed_operand){0};
}
