/* Inside export/: a function for each format, and the functions that they share. */
#pragma once

#include "base/file.h"
#include "export/export.h"

/* The name by which the output identifies a run. */
const char *export_name(const struct export_options *o, const struct run *run);

/* Moves the file to its final name and writes this name to o->written. After a failure, removes the
 * file. */
MUST_CHECK enum status export_put(const struct export_options *o, struct atomic_file *f);

MUST_CHECK enum status export_csv(const struct run *const *run, int n,
                                  const struct export_options *o);
MUST_CHECK enum status export_mlperf(const struct run *const *run, int n,
                                     const struct export_options *o);

/* Writes MLPerf's rules that the run does not meet, one per line. The run must have at least one
 * epoch. */
void mlperf_unmet(const struct run *run, bool closed, FILE *out);
