/* What a whole run comes to, computed from its records. */
#ifndef RESULTS_SUMMARY_H
#define RESULTS_SUMMARY_H

#include "results/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds to `into` what the steps and epochs of `run` say:
 *   images_per_s       {median, p5, p95, mad, steps}: per step, the first ten left out
 *   images_per_s_wall  training images over the whole elapsed time: validation, checkpoints and
 *                      waiting included
 *   step_s             {data, h2d, forward, backward, comm, optimizer, total}: medians
 *   io                 {bytes_per_s, files_per_s, decode_ms}: over the training time
 *   last, best         {epoch, train_top1, train_top5, val_top1, val_top5, ...} of that epoch
 * Parts without a record to rest on are left out. */
MUST_CHECK enum status summary_add(const struct run *run, json_t *into);

#ifdef __cplusplus
}
#endif
#endif
