/* Inside report/: a section for each kind of record. */
#ifndef REPORT_SECTIONS_H
#define REPORT_SECTIONS_H

#include "report/writer.h"
#include "results/analysis.h"
#include "results/run.h"

enum { REPORT_MAX_RUNS = 256, REPORT_PATH_SIZE = 4096 };

/* What `machine` (as struct analysis has it, or run.json itself) says of where something ran. */
void section_machine(struct writer *w, const json_t *machine);

/* A study: what was run, tables, findings, what is missing. */
void section_study(struct writer *w, const struct analysis *a);

/* Runs that were trained to be compared. `dir` is the folder that they are in. */
void section_runs(struct writer *w, struct run *const *runs, int n);

/* How good the gate is, as tests/compare/experiment.c measured it. */
void section_gate_quality(struct writer *w, const char *name, const json_t *record);

/* The number at `key`; NAN where there is none. */
double section_number(const json_t *object, const char *key);

/* The list of objects at `key` of a record, whose keys are the columns. */
void section_rows(struct writer *w, const json_t *record, const char *key);

/* An acceptance (accept.json): its checks, throughput beside PyTorch's and the share of what the
 * peaks allow, accuracy, operations, profiles, and every other metric with its unit. */
void section_accept(struct writer *w, const char *name, const json_t *record);

/* What tells of a record that is one JSON object, of bench overlap, bench peak or an acceptance;
 * NULL for another kind. */
typedef void record_section(struct writer *w, const char *name, const json_t *record);
record_section *section_of_record(const json_t *record);

#endif
