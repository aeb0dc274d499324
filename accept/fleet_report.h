/* The results of a fleet as text, JSON and lists of nodes. Files are whole or absent. */
#pragma once

#include "accept/fleet.h"

#include <stdio.h>

/* Version of the JSON; increases when a program that reads the previous version would misunderstand
 * the new one. */
enum { FLEET_SCHEMA = 1 };

/* Prints a table for the terminal, which ends with a line such as "FAILED: 4 nodes: 2 passed, ...".
 */
void fleet_print(const struct fleet *fleet, bool strict, FILE *out);

/* {"record": "fleet", "schema": 1, "passed", "counts": {"PASS": n, ...}, "hardware": [{"name",
 * "nodes"}], "metrics": [{"name", "hardware": index, "better", "n", "missing", "median", "spread",
 * "reference", "fail", "warn", "groups": null or [{"median", "nodes"}, {...}]}], "remarks": [text],
 * "nodes": [{"name",
 * "hardware": index or null, "verdict", "counts", "findings": [{"metric", "verdict", "value",
 * "reference", "reason"}]}]}; a number that is not known is null. The caller owns it; NULL when
 * memory is short. */
json_t *fleet_json(const struct fleet *fleet, bool strict);

/* Writes fleet.json, .md, .html and .xml (JUnit: each node is a case) into the folder, and makes
 * the folder if it is missing. Also writes good.txt, failed.txt and missing.txt, with one node's
 * name per line. Each node is in exactly one of these three files. */
MUST_CHECK enum status fleet_write(const struct fleet *fleet, bool strict, const char *dir);
