/* Inside watch/: the state of the runs in a study's folder.
 *
 *   plan.json              {"runs": [{"cell": name, "repeat": k, ...}, ...]} in order of execution
 *   cells/<cell>/r<k>/     the folder of a run; the run is complete if it has summary.json
 *   cells/<cell>/r<k>.failed  {"reason": text}: why it failed */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum planned_state { PLANNED_LEFT, PLANNED_RUNNING, PLANNED_DONE, PLANNED_FAILED, PLANNED_STATES };

struct planned_run {
    char *dir; /* of the run */
    enum planned_state state;
};

struct watch_plan {
    int64_t n;
    struct planned_run *run;       /* (n) in the plan's order */
    int64_t count[PLANNED_STATES]; /* of the runs */
    int64_t current;               /* index of the run in progress whose files were written last;
                                    * -1: none */
    double done_s;                 /* seconds that all complete runs took together */
};

/* Whether a folder contains a study. */
bool watch_plan_is_there(const char *dir);

/* Reads the plan. STATUS_DATA if plan.json does not have the form above. The caller frees with
 * watch_plan_free. */
MUST_CHECK enum status watch_plan_load(const char *dir, struct watch_plan *s);
void watch_plan_free(struct watch_plan *s); /* zeroed: no effect */

/* Updates the state of the runs. */
MUST_CHECK enum status watch_plan_look(struct watch_plan *s);

/* The reason of a failed run, as one cleaned line. */
void watch_plan_reason(const struct planned_run *r, char *out, int size);
