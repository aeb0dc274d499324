/* Inside export/: a function for each format, and the functions that they share. */
#pragma once

#include "base/file.h"
#include "export/export.h"

/* The steps and epochs of a run in the order of time: an epoch follows its steps. */
struct walk {
    const struct run *run;
    int64_t step, epoch; /* indices of the run's next step and next epoch */
};

/* Gets the next record, a step or an epoch; the other pointer becomes NULL. False at the end. */
bool walk_next(struct walk *w, const struct step_record **step, const struct epoch_record **epoch);

/* Writes the name of a file, which is in place, to o->written. */
void export_wrote(const struct export_options *o, const char *path);

/* Puts the file in place and writes its name; after a failure removes it. */
MUST_CHECK enum status export_put(const struct export_options *o, struct atomic_file *f);

MUST_CHECK enum status export_tensorboard(const struct run *const *run, int n,
                                          const struct export_options *o);
MUST_CHECK enum status export_csv(const struct run *const *run, int n,
                                  const struct export_options *o);
MUST_CHECK enum status export_prometheus(const struct run *const *run, int n,
                                         const struct export_options *o);
MUST_CHECK enum status export_mlperf(const struct run *const *run, int n,
                                     const struct export_options *o);
MUST_CHECK enum status export_superbench(const struct run *const *run, int n,
                                         const struct export_options *o);
