/* The interface of oneDNN for the rest of the CPU backend. */
#pragma once

#include "kernels/backend.h"

struct onednn_engine;

/* Opens the oneDNN engine of a device, with its stream and its list of opaque layouts. */
MUST_CHECK enum status onednn_engine_open(struct onednn_engine **e);
void onednn_engine_close(struct onednn_engine *e); /* NULL is fine */

/* Returns the version of the loaded library, such as "2.6.3". */
const char *onednn_version(void);

/* Returns whether the processor has instructions that multiply this type (F16, BF16), and the
 * library uses them for convolution and linear, in the forward pass and in both backward passes. */
bool onednn_native(const struct onednn_engine *e, enum dtype type);

/* Bits of the widest registers that the library may use: 512, 256 or 128 on x86-64.
 * ONEDNN_MAX_CPU_ISA may limit them to less than the machine has. */
int onednn_vector_bits(void);

/* Plan functions for the backend's records (see struct op_record). */
op_planner onednn_plan_conv;
op_planner onednn_plan_linear;
op_planner onednn_plan_reorder;
