/* Inside runners/: what the sensors of every rank's devices say of a run, brought to rank 0.
 *
 * Rank 0's samples go into the record as they come. Another rank keeps its own in memory, sums them
 * up at the run's end, and sends what they come to. */
#ifndef RUNNERS_RANK_SENSORS_H
#define RUNNERS_RANK_SENSORS_H

#include "kernels/device_list.h"
#include "results/schema.h"
#include "runners/world.h"

/* Begins as {0}. */
struct rank_samples {
    struct telemetry_record *row; /* (n) */
    int64_t n, capacity;
};

/* A telemetry_take that keeps the rows; `context` is a struct rank_samples. */
enum status rank_samples_take(void *context, struct telemetry_record *row, int n);
void rank_samples_free(struct rank_samples *samples); /* fine on a zeroed struct */

/* Called by every rank when nothing is sampled any more. On rank 0 of several: names rank, host and
 * index of each device in summary's "telemetry", which tells of its own, and appends those of the
 * other ranks; one that measured nothing adds nothing. STATUS_DATA for what cannot be read. */
MUST_CHECK enum status rank_sensors_gather(struct world *w, const struct device_list *devices,
                                           const struct rank_samples *own, json_t *summary);

#endif
