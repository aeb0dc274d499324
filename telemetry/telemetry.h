/* Sensors of a run's devices while it trains: clocks, power, energy, temperature, throttling,
 * memory errors, memory, load.
 *
 *     TRY(telemetry_open(&config, &t));
 *     json_t *facts = telemetry_facts(t);          for run.json, before the record begins
 *     TRY(telemetry_start(t, take, context));      a thread samples; take() gets every sample
 *     ... double j = telemetry_joules(t);          at any time
 *     telemetry_stop(t);                           one last sample; take() is not called after it
 *     telemetry_close(t);
 *
 * GPUs are read through NVIDIA's management library (NVML), which telemetry_open loads and which
 * may be missing; processors are read through /sys. A sensor that cannot be measured is NaN;
 * nothing is estimated. */
#pragma once

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdbool.h>

struct telemetry;

struct telemetry_config {
    double seconds;    /* time between samples; > 0 */
    bool gpu;          /* true: NVIDIA GPUs; false: the host's processors, which are one device */
    int n;             /* GPUs */
    const int *index;  /* (n) numbers of the GPUs, as CUDA counts them in this process */
    const char *sysfs; /* root of the tree to read; NULL: /sys */
};

/* Receives one sample: a row for each device. In each row, `device` and the sensors are filled in;
 * attempt, sample and elapsed are 0. The sampling thread calls this function; telemetry_stop calls
 * it once more, in its caller's thread. A failure ends the sampling; telemetry_stop returns it. */
typedef enum status telemetry_take(void *context, struct telemetry_record *row, int n);

/* Opens the sensors. If nothing can be measured, the telemetry has no devices and takes no samples;
 * its facts contain the reason. */
MUST_CHECK enum status telemetry_open(const struct telemetry_config *config, struct telemetry **t);

/* Starts the sampling thread, which takes its first sample at once. */
MUST_CHECK enum status telemetry_start(struct telemetry *t, telemetry_take *take, void *context);

/* Takes the last sample, and ends the thread. Does nothing if `t` is NULL or not running. */
MUST_CHECK enum status telemetry_stop(struct telemetry *t);

void telemetry_close(struct telemetry *t); /* call it after telemetry_stop; NULL is fine */

/* Joules that all devices have used since telemetry_open. NaN if `t` is NULL or a device cannot be
 * measured. Any thread may call this function. */
double telemetry_joules(struct telemetry *t);

/* A new object for run.json's "host": {"telemetry": {"source", "seconds"}, "devices": [{...}]}, or
 * {"telemetry": {"missing": "why nothing is measured"}}. */
json_t *telemetry_facts(struct telemetry *t);

/* After telemetry_stop: the first device that stopped answering, and why; NULL: no device did. */
const char *telemetry_lost(const struct telemetry *t);
