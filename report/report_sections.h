/* Internal to report/: functions that write the section of each kind of record. */
#pragma once

#include "base/document.h"
#include "results/analysis.h"
#include "results/run.h"

enum { REPORT_MAX_RUNS = 256, REPORT_PATH_SIZE = 4096 };

struct item; /* report_scan.h */

/* Writes a study: its headline, its main figure, the quality of its data, findings and tables. */
void section_study(struct writer *w, const struct analysis *a, const struct item *item);

/* Writes what the study found: a table of speed-ups, the bottlenecks, the effect of the precision,
 * and the accuracy on real data. */
void study_findings(struct writer *w, const struct analysis *a);

/* Writes the section on runs that are compared with each other: a headline, a figure, the quality
 * of the data, means over the seeds, and tables of the runs. */
MUST_CHECK enum status section_runs(struct writer *w, struct run *const *runs, int n,
                                    const struct item *item);

/* Joins {"torch": "2.15.0", ...} to "torch 2.15.0, ...". */
void report_versions(char *out, size_t size, const json_t *versions);

/* Write the records of scripts/peers. The first compares speed and cost with other programs; the
 * second compares accuracy with PyTorch's. */
void section_peer_pairs(struct writer *w, const char *name, const json_t *record);
void section_peer_accuracy(struct writer *w, const char *name, const json_t *record);

/* Writes an acceptance (accept.json): its checks, throughput compared with PyTorch's and with the
 * bound from measured peaks, accuracy, operations, and every other metric with its unit. */
void section_accept(struct writer *w, const char *name, const json_t *record);

/* Returns the function that writes the section of a record. The record must be one JSON object,
 * such as a record of bench overlap or of an acceptance. Returns NULL for an unknown kind. */
typedef void record_section(struct writer *w, const char *name, const json_t *record);
record_section *section_of_record(const json_t *record);
