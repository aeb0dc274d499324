/* Inside study/: checks before the first run that all runs can start. */
#pragma once

#include "base/process.h"
#include "study/study_plan.h"

/* Checks that the wanted runs have what they need: folders of data, hosts that ssh reaches, slots
 * of --hosts or of the Slurm allocation, GPUs. wanted[i]: whether run i of the plan is needed.
 * `program`: this program's file, which has the same path on all hosts. If something is missing,
 * returns STATUS_DATA, with everything that is missing in one line. After a signal, returns
 * STATUS_INTERRUPTED. If the study has its own launcher, only the data is checked. */
MUST_CHECK enum status study_ready_check(const struct study_plan *plan, const bool *wanted,
                                         const char *program,
                                         const struct process_signals *signals);

/* Warns in a line if the ranks and devices of a wanted run have more compute threads than this
 * machine has cores. Hosts, GPUs and a launcher have cores of their own. */
void study_ready_warn(const struct study_plan *plan, const bool *wanted, FILE *out);
