/* Gathering the results of many nodes from files and folders.
 *
 * A node's report becomes a line in SuperBench's format: "<check>/<metric>" with the median of its
 * repeats, and "<check>/return_code" with 0 for a check that passed, warned or was skipped, 4 for
 * one that failed and 5 for one that is missing. Text metrics are left out. The speeds of a
 * disturbed check count as not measured. "hardware" is the device's description. */
#pragma once

#include "accept/accept_result.h"
#include "base/words.h"
#include "results/nodes.h"

#define FLEET_SUMMARY "results-summary.jsonl"

/* Must be initialised with {0}. */
struct fleet_input {
    struct nodes nodes;
    json_t *better; /* value for fleet_config.better, with the reports' metrics; NULL:
                     * no report */
    json_t *why;    /* {node: why it has no values, "node/check": why the check has
                     * no speeds}, as text; NULL: no report */
    json_t *places; /* {node: path of its report} */
    json_t *hosts;  /* {host: first node on it} */
    char version[ACCEPT_NAME_SIZE]; /* of the program that measured the first node */
    struct words remarks; /* versions of the program that differ; nodes measured on one host */
    int level;            /* highest level of the reports */
    char spec[ACCEPT_NAME_SIZE];      /* name of the reports' spec; "": no report */
    char spec_file[ACCEPT_PATH_SIZE]; /* spec.json of the first report that has it; "": no report
                                       * has it */
};

/* Adds the results at `path`:
 *   a file            lines in SuperBench's format
 *   a node's folder   its report, under the name of its host
 *   a folder of nodes' folders   each report, under the name of its folder; a node whose suite has
 *                     not ended is added without values
 *   any other folder  the file results-summary.jsonl in it
 * A report that cannot be read is named on stderr, and its node added without values. STATUS_DATA
 * for damaged lines, two nodes of the same name, and reports of different specs. */
MUST_CHECK enum status fleet_input_add(struct fleet_input *in, const char *path);

/* Adds a report under a node's name; `from` is its place in messages. fleet_input_unfinished adds a
 * node without values; `why` is the reason, or NULL if its test suite has begun and not ended. */
MUST_CHECK enum status fleet_input_report(struct fleet_input *in, const struct accept_report *r,
                                          const char *name, const char *from);
MUST_CHECK enum status fleet_input_unfinished(struct fleet_input *in, const char *name,
                                              const char *why);

void fleet_input_free(struct fleet_input *in);

/* Writes all nodes' lines. */
MUST_CHECK enum status fleet_input_write(const struct fleet_input *in, const char *path);
