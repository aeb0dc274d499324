/* TensorBoard's event files: scalars of steps and epochs, as a stream of protobuf messages.
 *
 * A file is a sequence of records: the length as a little-endian u64, its masked CRC-32C, the
 * message (event.proto), its masked CRC-32C. The mask is rotr(crc, 15) + 0xa282ead8 (TensorFlow,
 * lib/io/record_writer). Files of one folder are read in the order of their names, which begin with
 * their start time. If a run resumed from an earlier step, its new file contains the number of that
 * step. TensorBoard then drops the values of that step and of later steps from the earlier files.
 *
 * TensorBoard draws the tags with the same words before the slash in one group. Tags of a step:
 * Loss/train, Top1/train, Top5/train (percent), Throughput/train (images/s), Lr, LossScale (only
 * with loss scaling), Step/Total_s and the parts of a step in seconds. Tags of an epoch that was
 * validated, with the number of its last step: Loss/val, Top1/val, Top5/val and Throughput/val.
 * Tags of device 0, with the number of the first step after the sample: Device0/Power_W, Energy_J,
 * Temperature_C, Clock_MHz, MemoryClock_MHz, Busy (percent), MemoryBusy and Memory_GiB. Every other
 * device has the same tags with its own number. A value that is not finite is left out.
 *
 * The settings of a run are its hyper-parameters in the HParams dashboard.
 *
 * The caller checks the stream's error flag. Writing scalars allocates no memory. */
#pragma once

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns the masked CRC-32C of a record. */
uint32_t tensorboard_crc(const void *bytes, size_t size);

/* Makes the name of a file that begins at `wall_time` (seconds since 1970) on a host. `suffix`
 * distinguishes files of the same second. Bytes of `host` that are not safe in a file name become
 * '_'. */
enum { TENSORBOARD_NAME_MAX = 160 };
void tensorboard_name(char out[TENSORBOARD_NAME_MAX], double wall_time, const char *host,
                      const char *suffix);

/* Warns if the folder has event files of others: TensorBoard shows all files of a folder as one
 * run. `own`: name of the file to be written; its run's earlier export has the same. */
void tensorboard_warn(const char *dir, const char *own, FILE *warnings);

/* Begins a file for a run that begins or resumes before global step `step`. */
void tensorboard_begin(FILE *out, double wall_time, int64_t step);

void tensorboard_step(FILE *out, double wall_time, const struct step_record *step);
void tensorboard_epoch(FILE *out, double wall_time, const struct epoch_record *epoch);
void tensorboard_telemetry(FILE *out, double wall_time, int64_t step,
                           const struct telemetry_record *row);

/* Writes the numbers, strings and booleans of `config`, the object in run.json, as
 * hyper-parameters, but leaves out paths of files. Also writes the list of the tags that the
 * dashboard shows beside the hyper-parameters. */
MUST_CHECK enum status tensorboard_hparams(FILE *out, double wall_time, const json_t *config);

/* Writes, for the HParams dashboard, that the run has ended. */
MUST_CHECK enum status tensorboard_end(FILE *out, double wall_time, bool complete);
