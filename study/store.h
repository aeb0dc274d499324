/* The folder of a study:
 *
 *   plan.json               the study, its cells, and the command of each run
 *   cells/<cell>/r<k>/      a run, as `ampscale train --out` writes it; complete with summary.json
 *   cells/<cell>/r<k>.log   what its command said; r<k>-logs/ what each of several ranks did
 *   cells/<cell>/r<k>.failed   why it failed, as JSON
 *   data/<name>/            generated images, with data/<name>.log
 *   analysis.json           what it all comes to (results/analysis.h)
 *
 * One process at a time works in it: a lock on the folder itself says so. */
#ifndef STUDY_STORE_H
#define STUDY_STORE_H

#include "base/process.h"
#include "study/plan.h"

struct study_store {
    const struct study_plan *plan;
    const char *dir;
    int lock;
};

/* Opens the folder, made if need be, and writes plan.json where there is none. STATUS_IO while
 * another process works in it; STATUS_USAGE when it holds another study. */
MUST_CHECK enum status study_store_open(const struct study_plan *plan, const char *dir,
                                        struct study_store *store);
void study_store_close(struct study_store *store); /* fine on one that failed to open */

enum study_state { STUDY_PENDING, STUDY_COMPLETE, STUDY_FAILED };

/* How a run stands. `why` gets the reason of one that failed. */
MUST_CHECK enum status study_store_state(const struct study_store *store,
                                         const struct study_run *run, enum study_state *state,
                                         char why[PROCESS_MESSAGE_SIZE]);

/* Makes room for a run: its folder's parent is made, and what an earlier attempt left is removed,
 * or kept where *resume says that the run goes on from its checkpoint. */
MUST_CHECK enum status study_store_prepare(const struct study_store *store,
                                           const struct study_run *run, bool *resume);

/* Keeps what a run ended with: removes the checkpoints of one that is complete, and writes down why
 * one has failed. */
MUST_CHECK enum status study_store_complete(const struct study_store *store,
                                            const struct study_run *run);
MUST_CHECK enum status study_store_failed(const struct study_store *store,
                                          const struct study_run *run,
                                          const struct process_end *end);
#endif
