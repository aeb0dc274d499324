/* Prints those values of a run's record that do not depend on the clock: a line for each step and
 * each epoch, with all digits. Equal runs have equal text. */
#pragma once

#include "results/run.h"

#include <stdio.h>

void values_print(const struct run *run, FILE *out);
