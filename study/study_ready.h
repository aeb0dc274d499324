/* Inside study/: checks before the first run that all runs can start. */
#pragma once

#include "base/process.h"
#include "study/study_plan.h"

/* Checks that the wanted runs have what they need: folders of data, hosts that ssh reaches, slots
 * of --hosts or of the Slurm allocation, GPUs. wanted[i]: whether run i of the plan is needed.
 * `program`: this program's file, which has the same path on all hosts. STATUS_DATA names all that
 * is missing, in one line; STATUS_INTERRUPTED after a signal. A study with a launcher of its own is
 * checked for data only. */
MUST_CHECK enum status study_ready_check(const struct study_plan *plan, const bool *wanted,
                                         const char *program,
                                         const struct process_signals *signals);
