/* Describes for run.json where a run takes place: program, host, hardware and environment.
 *
 * Reads /proc, /sys and uname; starts no program and uses no network. An unknown item is left
 * out. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* A new object, which the caller owns:
 *   {"hostname", "os", "kernel", "machine",
 *    "cpu": {"model", "sockets", "cores", "threads", "usable", "quota", "governor"},
 *    "memory_bytes", "environment": {name: value}}
 * `sockets`, `cores` and `threads` are the numbers of online sockets, cores and hardware threads of
 * the machine. `usable` is the number of hardware threads on which this process may run, and
 * `quota` the number of CPUs that its control group may use. */
json_t *environment_describe(void);

/* Returns the version of this build: "0.1.0" for a release or a tarball, "0.1.0-dev+g1a2b3c4d5e6f"
 * between releases; see results/version.cmake. */
const char *environment_version(void);

/* Adds this program's "version", "build" and, where it is known, "commit" to an object. */
void environment_program(json_t *object);

/* Fail with STATUS_DATA if a record's program, libraries, processor or device are not those of
 * `other`, or of this program (`here`: and this machine): results of both must not be joined.
 * `exact`: nor are the device's threads, and the cores that the process may use. What one of them
 * lacks is not compared, but for a quota of the processor. */
MUST_CHECK enum status environment_joins(const json_t *record, const json_t *other, bool exact);
MUST_CHECK enum status environment_joins_own(const json_t *record, bool here, bool exact);

/* Lists the values of a field in NVIDIA's driver's descriptions of the GPUs, such as "Model:"; ""
 * if there are none. */
void environment_gpus(const char *field, char *out, size_t size);

/* Returns whether an environment variable may be recorded. Only variables that affect results or
 * threads, and variables that name the job and the rank, may be recorded. Other variables may be
 * private. */
bool environment_allowed(const char *name);

/* Writes the current time, as "2024-01-31T12:00:00Z", and returns it in seconds since 1970, with
 * fractions. */
enum { ENVIRONMENT_TIME_MAX = 32 };
double environment_time(char out[ENVIRONMENT_TIME_MAX]);
