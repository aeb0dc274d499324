/* Where a run takes place: what run.json says of program, host, hardware and environment.
 *
 * Reads /proc, /sys and uname; starts no program, asks no network. What cannot be learnt is left
 * out. */
#ifndef RESULTS_ENVIRONMENT_H
#define RESULTS_ENVIRONMENT_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* A new object that the caller owns:
 *   {"hostname", "os", "kernel", "machine",
 *    "cpu": {"model", "sockets", "cores", "threads", "usable", "quota", "governor"},
 *    "memory_bytes", "environment": {name: value}}
 * `sockets`, `cores` and `threads` are those online in the machine, `usable` the hardware threads
 * this process may run on, `quota` the processor time in CPUs that its control group allows. */
MUST_CHECK enum status environment_describe(json_t **out);

/* Adds to an object which program this is: "version", "build" and, where it is known, "commit".
 * False without memory. */
bool environment_program(json_t *object);

/* Whether a variable may enter a record: those that change how numbers or threads are computed,
 * and those that name the job and the rank. Nothing else of the environment is anybody's business.
 */
bool environment_allowed(const char *name);

/* "2024-01-31T12:00:00Z", now; and the seconds since 1970, fractions among them. */
enum { ENVIRONMENT_TIME_MAX = 32 };
double environment_time(char out[ENVIRONMENT_TIME_MAX]);
#endif
