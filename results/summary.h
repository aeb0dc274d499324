/* What a whole run comes to, computed from its records. */
#ifndef RESULTS_SUMMARY_H
#define RESULTS_SUMMARY_H

#include "results/run.h"

/* Adds to `into` what the steps and epochs of `run` say:
 *   images_per_s       {median, p5, p95, max, mad, steps}: per step, the first ten left out
 *   images_left_out    could not be decoded, as run_left_out counts them
 *   images_per_s_wall  training images over the whole elapsed time: validation, checkpoints and
 *                      waiting included
 *   step_s             {data, h2d, forward, backward, comm, comm_busy, optimizer, total}: medians;
 *                      and, where anything was busy, "comm_hidden": the share of communication
 *                      that backward hid, 1 - comm / comm_busy within 0..1, as the median over
 *                      the steps that communicated
 *   io                 {bytes_per_s, files_per_s, decode_ms}: over the training time
 *   ranks              only of several: {count, slowest, host, behind, noise, slow, own_s,
 *                      median_own_s, part, part_s, images_per_s}, where a rank's own_s is its
 *                      step without communication, "slowest" the rank that has the longest, on
 *                      "host"; "behind" is own_s / median_own_s - 1, the median being that of the
 *                      others, "noise" by how much that may be chance, "slow" whether it counts,
 *                      "part" the part of the step in which it falls behind most, by part_s
 *                      seconds a step, and images_per_s what it would do if it never waited
 *                      (ranks.h)
 *   energy, telemetry  as sensors.h says, where there was anything to measure; of several ranks
 *                      those of rank 0, for the others leave no samples
 *   last, best         {epoch, train_top1, train_top5, val_top1, val_top5, ...} of that epoch
 * Parts without a record to rest on are left out. */
MUST_CHECK enum status summary_add(const struct run *run, json_t *into);
#endif
