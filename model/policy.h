/* Precision policies: which type each tensor of a network has.
 *
 * `--precision` names the field's recipes, `--opt-level` Apex's:
 *
 *               weights      conv, linear   batch norm's   activations     master    loss
 *               (stored)     compute in     parameters     and gradients   weights   scaling
 *   fp32 / O0   fp32         fp32           fp32           fp32            -         no
 *   tf32        fp32         tf32           fp32           fp32            -         no
 *   amp  / O1   fp32, cast   fp16           fp32           fp16            -         dynamic
 *   O2          fp16         fp16           fp32           fp16            fp32      dynamic
 *   O3          fp16         fp16           fp16           fp16            -         1
 *   bf16        fp32, cast   bf16           fp32           bf16            -         no
 *
 * "fp32, cast": the fp32 weights are rounded once per step to what the network computes with, as
 * autocast's weight cache does. Convolution and linear multiply narrow values and accumulate in
 * fp32; batch norm computes in fp32 on narrow tensors, as cuDNN does; softmax and the loss are fp32
 * in every policy. Gradients of narrow weights are narrow. `keep_batchnorm_fp32` overrides the
 * batch-norm column. (NVIDIA Apex's opt levels; PyTorch's autocast op lists.) */
#ifndef MODEL_POLICY_H
#define MODEL_POLICY_H

#include "base/status.h"
#include "kernels/tensor.h"
#include "model/graph.h"

struct policy {
    const char *name;      /* "fp32", "tf32", "amp", "bf16", "O0" ... "O3" */
    enum dtype operand;    /* that convolution and linear multiply */
    enum dtype activation; /* activations and their gradients are stored as */
    enum dtype weight;     /* conv and linear weights and biases that the passes read */
    enum dtype master;     /* what the optimizer keeps of them */
    enum dtype batchnorm;  /* batch-norm parameters and running statistics */
    bool scaled;           /* dynamic loss scaling unless told otherwise */
};

/* By `--precision` or `--opt-level`; keep_batchnorm: -1 as the policy says, 0 or 1. STATUS_USAGE
 * names the known ones. */
MUST_CHECK enum status policy_find(const char *name, int keep_batchnorm, struct policy *p);

/* The types of one parameter under a policy: as the optimizer keeps it, as the passes read it, and
 * as its gradient arrives. */
struct param_types {
    enum dtype master, copy, gradient;
};
struct param_types policy_param(const struct policy *p, enum param_kind kind);
#endif
