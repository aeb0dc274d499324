/* Checks the values of a study's file with the checks of `ampscale train`. */
#pragma once

#include "study/study_plan.h"

/* Checks the words of a command line of train. STATUS_USAGE: train would refuse it, for the reason
 * in the message. */
typedef enum status study_train_check(int argc, char **argv);

/* Checks each network, each precision and the flags of the spec and, if these are valid, the
 * command of each cell. STATUS_USAGE for a bad value; the message names its key. If there are
 * several, the others are reported on stderr, a line each. `from` is the file's name in messages.
 */
MUST_CHECK enum status study_values_check(const struct study_plan *plan, const char *from,
                                          study_train_check *check);
