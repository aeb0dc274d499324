/* Inside export/: a function for each format, and what they share. */
#ifndef EXPORT_FORMATS_H
#define EXPORT_FORMATS_H

#include "base/file.h"
#include "export/export.h"

/* A run's steps and epochs in the order in which they came to pass: an epoch after its steps. */
struct walk {
    const struct run *run;
    int64_t step, epoch; /* of the run's arrays, to come next */
};

/* The next record, a step or an epoch, the other NULL. False at the end. */
bool walk_next(struct walk *w, const struct step_record **step, const struct epoch_record **epoch);

/* Writes the file's name to o->written, once it is there. */
void export_wrote(const struct export_options *o, const char *path);

/* Puts the file in its place and writes its name, or leaves nothing of it. */
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

#endif
