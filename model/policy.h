/* Precision policies: which type each tensor of a network has.
 *
 * `--precision` takes the common names, `--opt-level` those of Apex:
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
 * "fp32, cast": the fp32 weights are rounded once per step to the type of the computation, as
 * autocast's weight cache does. Convolutions and linear layers multiply values of the type in the
 * column "compute in" and accumulate in fp32. Batch norm computes in fp32 on activations of any
 * type, as cuDNN does. Softmax and the loss are fp32 in every policy. Gradients of 16-bit weights
 * have the same 16-bit type. `keep_batchnorm_fp32` overrides the batch-norm column. (NVIDIA Apex's
 * opt levels; PyTorch's autocast op lists.) */
#pragma once

#include "base/status.h"
#include "kernels/tensor.h"
#include "model/graph.h"

struct policy {
    const char *name;      /* "fp32", "tf32", "amp", "bf16", "O0" ... "O3" */
    enum dtype operand;    /* type of the values that conv and linear layers multiply */
    enum dtype activation; /* type of stored activations and their gradients */
    enum dtype weight;     /* type of conv and linear weights and biases as the passes read them */
    enum dtype master;     /* type of conv and linear weights and biases in the optimizer */
    enum dtype batchnorm;  /* type of batch-norm parameters and running statistics */
    bool scaled;           /* dynamic loss scaling by default */
};

/* Finds a policy by its name; keep_batchnorm: 0 or 1 overrides the policy, -1 does not.
 * STATUS_USAGE for an unknown name; the message lists the known names. */
MUST_CHECK enum status policy_find(const char *name, int keep_batchnorm, struct policy *p);

/* The types of one parameter under a policy: in the optimizer (`master`), in the copy that the
 * passes read (`copy`), and of the gradient (`gradient`). */
struct param_types {
    enum dtype master, copy, gradient;
};
struct param_types policy_param(const struct policy *p, enum param_kind kind);
