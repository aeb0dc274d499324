/* What a run's devices do while it trains: clocks, power, energy, temperature, throttling, memory
 * errors, memory, load.
 *
 *     TRY(telemetry_open(&config, &t));
 *     json_t *facts = telemetry_facts(t);          for the record, before it begins
 *     TRY(telemetry_start(t, take, context));      a thread samples; take() gets every sample
 *     ... double j = telemetry_joules(t);          whenever it is wanted
 *     telemetry_stop(t);                           one last sample; take() is not called after it
 *     telemetry_close(t);
 *
 * GPUs are asked through NVIDIA's management library, which is loaded here and need not exist;
 * processors through /sys. What cannot be measured is NaN; nothing is estimated. */
#ifndef TELEMETRY_TELEMETRY_H
#define TELEMETRY_TELEMETRY_H

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdbool.h>

struct telemetry;

struct telemetry_config {
    double seconds;    /* between samples; > 0 */
    bool gpu;          /* NVIDIA GPUs; else the host's processors, which are one device */
    int n;             /* GPUs */
    const int *index;  /* (n) their numbers, as CUDA counts them in this process */
    const char *sysfs; /* where /sys is; NULL: there */
};

/* One sample: a row for each device, with `device` filled in and attempt, sample and elapsed 0.
 * Called from the sampling thread, and once from the thread that calls telemetry_stop. A failure
 * ends the sampling and is returned by telemetry_stop. */
typedef enum status telemetry_take(void *context, struct telemetry_record *row, int n);

/* Where nothing can be measured the telemetry has no devices: it says why in its facts, and samples
 * nothing. */
MUST_CHECK enum status telemetry_open(const struct telemetry_config *config, struct telemetry **t);

/* Takes the first sample at once. */
MUST_CHECK enum status telemetry_start(struct telemetry *t, telemetry_take *take, void *context);

/* NULL, one that was never started and one that was stopped are fine. */
MUST_CHECK enum status telemetry_stop(struct telemetry *t);

void telemetry_close(struct telemetry *t); /* after telemetry_stop; NULL is fine */

/* Joules that all devices have used since telemetry_open; NaN where one of them is not measured.
 * NULL is fine and not measured. Any thread may ask. */
double telemetry_joules(struct telemetry *t);

/* A new object for run.json's "host": {"telemetry": {"source", "seconds"}, "devices": [{...}]}, or
 * {"telemetry": {"missing": "why nothing is measured"}}. NULL without memory. */
json_t *telemetry_facts(struct telemetry *t);

/* The first device that stopped answering, and why, after telemetry_stop; NULL: none did. */
const char *telemetry_lost(const struct telemetry *t);
#endif
