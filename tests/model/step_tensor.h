/* Tensors of a program's steps, from outside. */
#pragma once

#include "model/program.h"

/* The tensor of this role in plain layout, as it is: not rounded, but values of a narrow type
 * become floats. The caller frees. */
void *step_tensor_read(const struct step *s, struct stream *stream, int role);

/* Replaces the tensor by the values in `plain`, which are in the same form. */
void step_tensor_write(const struct step *s, struct stream *stream, int role, const void *plain);
