/* Inside accept/: reading what the commands of checks leave. */
#ifndef ACCEPT_READ_H
#define ACCEPT_READ_H

#include "accept/kind.h"

/* A member that is a number; NAN for anything else. */
double accept_read_number(const json_t *object, const char *key);

/* From JSON that the command printed. */
accept_reader accept_read_facts, accept_read_selftest, accept_read_determinism, accept_read_peak,
    accept_read_memory, accept_read_peers, accept_read_overhead, accept_read_step, accept_read_gemm,
    accept_read_optimizer, accept_read_input, accept_read_conv, accept_read_collective;

/* Of single operations, and of what training reaches (read_verify.c). What failed is "wrong", what
 * was not done in time "late". */
accept_reader accept_read_operations, accept_read_sanitizer, accept_read_accuracy;

/* Of training in turns with PyTorch's (read_throughput.c), for each precision and batch; where the
 * check asks for ways to fuse or to launch, the way is part of the name:
 *   images_per_s_amp_256, lowest_, highest_   over the rounds
 *   ..._files_amp_256, ..._peer_eager_amp_256, ..._peer_compile_amp_256   likewise of others
 *   of_peer_amp_256   ratio to the fastest of PyTorch's ways
 *   rung_amp_256, falls_amp_256, why_amp_256   what it ran on, falls from the rungs before, the
 *                     reason of the first, or why there is no number
 * And of each kernel of a step: the ten that take longest, and the step's totals. */
accept_reader accept_read_throughput, accept_read_profile;

/* From the run's folder, <dir>/run (read_run.c):
 *   images_per_s, step_s   medians over the steps, the first ten left out
 *   images_per_s_per_device  that, over the number of devices
 *   loss                   of the last step
 *   loss_bits              a hash over every step's loss: the same where all losses are
 *   temperature_c, power_w, memory_gib    the highest of any device
 *   clock_mhz              the lowest of the devices' medians
 *   ecc_corrected, ecc_uncorrected        how many came meanwhile, over all devices
 *   throttled_<reason>     percent of the samples, the highest of any device; reasons are
 *                          results/sensors.h's, with '_' for a space
 * A sensor that a device lacks, or whose samples are of fewer devices than ran, is not measured. Of
 * several ranks the run's summary tells of the devices of all. */
accept_reader accept_read_train;

#endif
