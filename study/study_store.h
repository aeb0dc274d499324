/* The folder of a study:
 *
 *   plan.json               the study, its cells, and the command of each run
 *   cells/<cell>/r<k>/      a run, written by `ampscale train`; complete if it has summary.json
 *   cells/<cell>/r<k>.log   output of its command
 *   cells/<cell>/r<k>-logs/ output of each rank, if the run has several ranks
 *   cells/<cell>/r<k>.failed   why the run failed, as JSON
 *   data/<name>/            generated images, with data/<name>.log
 *   analysis.json           the results of all cells (results/analysis.h)
 *
 * A lock on the folder ensures that only one process at a time works in it. */
#pragma once

#include "base/process.h"
#include "study/study_plan.h"

struct study_store {
    const struct study_plan *plan;
    const char *dir;
    json_t *first; /* {cell, or "" for the study: run.json of the first complete run read} */
    int lock;
};

/* Opens the folder, or makes it, and writes plan.json; the caller closes the store. STATUS_IO while
 * another process works in the folder; STATUS_USAGE if the folder holds another study. */
MUST_CHECK enum status study_store_open(const struct study_plan *plan, const char *dir,
                                        struct study_store *store);
void study_store_close(struct study_store *store);

/* STUDY_FOREIGN: it is complete, but of another program or machine than the first run read of its
 * study or cell. */
enum study_state { STUDY_PENDING, STUDY_COMPLETE, STUDY_FAILED, STUDY_FOREIGN };

/* STATUS_DATA if the record is of other settings than the plan's run. */
struct run;
MUST_CHECK enum status study_check_run(const struct study_plan *plan, const struct study_run *r,
                                       const struct run *record);

/* Reads the state of a run. `why` gets the reason of a failure. */
MUST_CHECK enum status study_store_state(const struct study_store *store,
                                         const struct study_run *run, enum study_state *state,
                                         char why[PROCESS_MESSAGE_SIZE]);

/* Returns whether other work disturbed a complete run; false if its summary cannot be read. */
bool study_store_disturbed(const struct study_store *store, const struct study_run *run);

/* Prepares the folder of a run: makes its parent folder. `here`: all ranks run on this machine. If
 * the run can resume from its checkpoint, sets *resume and keeps the files of the earlier attempt.
 * Otherwise removes these files. The reason of an earlier failure is removed too. */
MUST_CHECK enum status study_store_prepare(const struct study_store *store,
                                           const struct study_run *run, bool here, bool *resume);

/* Record the end of a run: remove the checkpoints of a complete run, or write why a run has failed.
 */
MUST_CHECK enum status study_store_complete(const struct study_store *store,
                                            const struct study_run *run);
MUST_CHECK enum status study_store_failed(const struct study_store *store,
                                          const struct study_run *run,
                                          const struct process_end *end);

/* Analyses the complete runs, even if other runs are missing; a run whose record cannot be read
 * counts as failed. `command` is the command that runs the study again. The caller frees with
 * analysis_free. */
struct analysis;
MUST_CHECK enum status study_collect(const struct study_store *store, const char *command,
                                     struct analysis *a);
