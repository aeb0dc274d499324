/* What a fleet came to, for people, for programs and for schedulers. Files are whole or absent. */
#ifndef ACCEPT_FLEET_REPORT_H
#define ACCEPT_FLEET_REPORT_H

#include "accept/fleet.h"

#include <stdio.h>

/* Grows when a reader of the previous version of the JSON would misunderstand. */
enum { FLEET_SCHEMA = 1 };

/* "FAILED: of 4 nodes 2 passed, ..." without a newline. */
void fleet_conclusion(const struct fleet *fleet, bool strict, char *out, size_t size);

/* A table for the terminal, which ends with the conclusion's line. */
void fleet_print(const struct fleet *fleet, bool strict, FILE *out);

/* {"record": "fleet", "schema": 1, "passed", "counts": {"PASS": n, ...}, "hardware": [{"name",
 * "nodes"}], "metrics": [{"name", "hardware": index, "better", "n", "missing", "median", "spread",
 * "reference", "fail", "warn", "groups": null or [{"median", "nodes"}, {...}]}], "nodes": [{"name",
 * "hardware": index or null, "verdict", "counts", "findings": [{"metric", "verdict", "value",
 * "reference", "reason"}]}]}; a number that is not known is null. The caller owns it; NULL when
 * memory is short. */
json_t *fleet_json(const struct fleet *fleet, bool strict);

/* A test suite in which each node is a case: one that failed fails, one with something missing is
 * an error. */
void fleet_print_junit(const struct fleet *fleet, bool strict, FILE *out);

/* Writes fleet.json, .md, .html and .xml (JUnit) into the folder, which is made if need be, and the
 * names of nodes, one a line, in good.txt, failed.txt and missing.txt: each node is in one. */
MUST_CHECK enum status fleet_write(const struct fleet *fleet, bool strict, const char *dir);
#endif
