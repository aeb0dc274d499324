/* The results of many nodes, gathered from where they lie.
 *
 * A node's report becomes a line of SuperBench's form: "<check>/<metric>" with the median of its
 * repeats, and "<check>/return_code" with 0 for a check that passed, warned or was skipped, 4 for
 * one that failed and 5 for one that is missing. Texts have no place there. "hardware" is the
 * device's description. */
#ifndef ACCEPT_JSONL_H
#define ACCEPT_JSONL_H

#include "accept/result.h"
#include "results/nodes.h"

#define FLEET_SUMMARY "results-summary.jsonl"

/* Begins as {0}. */
struct fleet_input {
    struct nodes nodes;
    json_t *better; /* of reports' metrics, as fleet_config has it; NULL: there are none */
    int level;      /* the highest of any report's */
    char spec[ACCEPT_NAME_SIZE];      /* of the reports; "": there are none */
    char spec_file[ACCEPT_PATH_SIZE]; /* of the first report's folder; "": none is there */
};

/* Adds what is at `path`:
 *   a file            lines of SuperBench's form
 *   a node's folder   its report, under the name of its host
 *   a folder of such  each under the name of its folder; one whose battery has begun and not ended
 *                     is a node without values
 *   another folder    the file results-summary.jsonl in it
 * STATUS_DATA for a damaged one, for nodes of one name, and for reports of different specs. */
MUST_CHECK enum status fleet_input_add(struct fleet_input *in, const char *path);

/* Adds a report under a node's name; `from` is named in messages. And a node whose battery has
 * begun and not ended. */
MUST_CHECK enum status fleet_input_report(struct fleet_input *in, const struct accept_report *r,
                                          const char *name, const char *from);
MUST_CHECK enum status fleet_input_unfinished(struct fleet_input *in, const char *name);

void fleet_input_free(struct fleet_input *in);

/* Writes all nodes' lines. */
MUST_CHECK enum status fleet_input_write(const struct fleet_input *in, const char *path);
#endif
