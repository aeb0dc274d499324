/* Internal to runners/: brings the sensor values of every rank's devices, and the load of every
 * rank's host, to rank 0.
 *
 * Rank 0 records its samples at once. Every other rank keeps its samples in memory, and sends a
 * summary of them when the run ends. */
#pragma once

#include "comm/world.h"
#include "kernels/device_list.h"
#include "results/load.h"
#include "results/schema.h"

/* Samples in memory. Initialise with {0}. */
struct rank_samples {
    struct telemetry_record *row; /* (n) */
    int64_t n;
};

/* A telemetry_take function that appends the rows to `context`, a struct rank_samples. */
enum status rank_samples_take(void *context, struct telemetry_record *row, int n);
void rank_samples_free(struct rank_samples *samples); /* zeroed: no effect */

/* Gathers the sensor values of all ranks. Every rank calls it after sampling. With several ranks,
 * rank 0 adds "rank", "host" and "index" to its devices in the summary's "telemetry", and appends
 * the devices of the other ranks that measured something. STATUS_DATA if a rank's message is
 * unreadable. */
MUST_CHECK enum status rank_sensors_gather(struct world *w, const struct device_list *devices,
                                           const struct rank_samples *own, json_t *summary);

/* A rank's readings of its host's counters. */
struct rank_load {
    char kernel[HOST_NAME_MAX_LEN]; /* the kernel's boot ID or, if unknown, the name of the host */
    struct load_meter meter;
    struct load begin, end;
};

/* Begins to measure the load of this rank's host, on the processors of all its ranks. Every rank
 * calls it. */
MUST_CHECK enum status rank_load_begin(struct world *w, struct rank_load *own);

/* Ends to measure: sets *host to what the ranks' readings show of the host that was disturbed most,
 * and *rank to a rank on it. Every rank calls it. */
MUST_CHECK enum status rank_load_end(struct world *w, struct rank_load *own,
                                     struct host_noise *host, int *rank);

/* The same for the readings of n ranks. `others` has no processor time of any of them. */
struct host_noise rank_load_worst(const struct rank_load *load, int n, int *rank);
