/* The summary of a run, computed from its records. */
#pragma once

#include "results/run.h"

#include <stdio.h>

/* Adds to `into`, computed from the steps and epochs of `run`:
 *   images_per_s_mean  run_images_per_s: images over time
 *   images_per_s       {median, p5, p95, max, mad, steps}: per step, without warm-up (run_warmup)
 *   images_left_out    images that could not be decoded, see run_left_out
 *   images_per_s_wall  training images / the whole elapsed time, which includes validation,
 *                      checkpoints and waiting
 *   step_s             {data, h2d, forward, backward, comm, comm_busy, optimizer, total}: medians;
 *                      if there was communication, also "comm_hidden": the share of the
 *                      communication that overlapped with the backward pass, 1 - comm / comm_busy
 *                      clipped to 0..1, median over the steps that communicated
 *   io                 {bytes_per_s, files_per_s, decode_ms}: of the loaders, over the training
 *                      time; if known, also storage_bytes_per_s, device_bytes_per_s and
 *                      cached_percent, from struct epoch_record. If no epoch was recorded, the run
 *                      itself adds these three values
 *   time_to_accuracy   with --desired-acc: {top1, epoch, seconds}; epoch and seconds are null if
 *                      the accuracy was not reached
 *   ranks              if there are several ranks: {count, slowest, host, behind, noise, slow,
 *                      own_s, median_own_s, part, part_s, images_per_s}. slowest, host: the slowest
 *                      rank and its host. own_s: its time of a step without communication.
 *                      median_own_s: the median of the other ranks' times. behind:
 *                      own_s / median_own_s - 1. noise: four standard errors of `behind`. slow:
 *                      whether the slowest rank is a straggler. part: the part of the step in which
 *                      the slowest rank exceeds the other ranks most. part_s: this excess, in
 *                      seconds per step. images_per_s: the throughput of the slowest rank without
 *                      waiting (ranks.h)
 *   energy, telemetry  if measured, see sensors.h. If there are several ranks, `telemetry` has only
 *                      rank 0's devices, because the other ranks store no samples
 *   last, best         {epoch, train_top1, train_top5, val_top1, val_top5, ...} of the last epoch
 *                      and of the best one
 * Parts without records are left out. */
MUST_CHECK enum status summary_add(const struct run *run, json_t *into);

/* Explains where the throughputs in a run's `summary` differ: prints a line if the mean differs
 * from the median step by more than 10 %, and one if the wall clock is more than 10 % below the
 * mean. A line has the causes that the records show: waits for data or communication, slow steps,
 * or signals that stopped the process ("paused"); validation, checkpoints, and start-up, which is
 * the time before the first step and the excess of the warm-up. */
void summary_explain(const struct run *run, const json_t *summary, FILE *out);
