/* Reads and writes tensors of a program's steps. */
#pragma once

#include "model/program.h"

/* Returns the tensor of a role in plain layout. 16-bit values become floats; nothing is rounded.
 * The caller frees it. */
void *step_tensor_read(const struct step *s, struct stream *stream, int role);

/* Replaces the tensor by the values in `plain`, which have the format of step_tensor_read. */
void step_tensor_write(const struct step *s, struct stream *stream, int role, const void *plain);
