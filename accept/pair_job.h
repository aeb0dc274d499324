/* Retests nodes that failed (pair.h). The nodes are the ranks of a job, one rank per node. */
#pragma once

#include "accept/pair_run.h"
#include "engine/inject.h"

struct pair_job {
    const char *failing; /* the suspects, by name or rank: "a,b", or a file that lists them */
    const char *out;     /* folder for pair.json; NULL: none */
    struct inject faults;
    struct pair_config run; /* pair_job_run sets its names, suspects, delay and progress */
};

/* Joins the job and measures. Rank 0 prints the result, as JSON if run.step.format says so, and
 * sets *code to the result of pair_exit_code. STATUS_USAGE outside a job, and for a node that is
 * not in the job. */
MUST_CHECK enum status pair_job_run(const struct pair_job *job, int *code);
