/* The operands with which plans of a convolution are timed (op_timer.h). */
#pragma once

#include "kernels/cuda/conv_problem.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/op_timer.h"

/* Sets operand[CG_...] for each port of the problem's form, which must be one that conv_exec.c
 * plans; other ports have no operand. */
void conv_operands(const struct conv_problem *problem, struct timed_operand operand[CG_PORT_COUNT]);
