/* Inside watch/: how the runs of a study's folder stand.
 *
 *   plan.json              {"runs": [{"cell": name, "repeat": k, ...}, ...]} in their order
 *   cells/<cell>/r<k>/     the folder of a run; complete with its summary.json
 *   cells/<cell>/r<k>.failed  {"reason": text}: why it failed */
#ifndef WATCH_PLAN_H
#define WATCH_PLAN_H

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
    int64_t current; /* the run that was written to last, of those that run; -1: none */
    double done_s;   /* seconds that the complete runs took, all of them together */
};

/* Whether a folder holds a study. */
bool watch_plan_is_there(const char *dir);

/* Reads the plan. STATUS_DATA when it is not as said above. The caller frees with watch_plan_free.
 */
MUST_CHECK enum status watch_plan_load(const char *dir, struct watch_plan *s);
void watch_plan_free(struct watch_plan *s); /* fine on a zeroed struct */

/* Looks how the runs stand now. */
MUST_CHECK enum status watch_plan_look(struct watch_plan *s);

/* Why a run failed, as one clean line. */
void watch_plan_reason(const struct planned_run *r, char *out, int size);

#endif
