/* TensorBoard's event files: scalars of steps and epochs, as a stream of protobuf messages.
 *
 * A file is a sequence of records: the length as a little-endian u64, its masked CRC-32C, the
 * message (event.proto), its masked CRC-32C. The mask is rotr(crc, 15) + 0xa282ead8 (TensorFlow,
 * lib/io/record_writer). Files of one folder are read in the order of their names, which begin with
 * their start time. If a program resumed from an earlier step, its new file has that step, and
 * TensorBoard drops the values that earlier files have from that step on.
 *
 * Tags of a step: Throughput (images/s), Time (seconds), Loss, Top1, Top5 (percent), Lr, and
 * LossScale with loss scaling. Tags of an epoch that was validated, at its last step: Val/Loss,
 * Val/Top1 and Val/Top5. Tags of device 0, at the step after the sample: Device0/Power_W, Energy_J,
 * Temperature_C, Clock_MHz, MemoryClock_MHz, Busy (percent), MemoryBusy and Memory_GiB; the other
 * devices have such tags too. A value that is not finite is left out.
 *
 * The caller checks the stream's error flag. Nothing is allocated. */
#pragma once

#include "results/schema.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The masked CRC-32C of a record. */
uint32_t tensorboard_crc(const void *bytes, size_t size);

/* The name of a file that begins at `wall_time` (seconds since 1970) on a host; `suffix`
 * distinguishes files of the same second. Bytes of `host` that are not safe in a file name become
 * '_'. */
enum { TENSORBOARD_NAME_MAX = 160 };
void tensorboard_name(char out[TENSORBOARD_NAME_MAX], double wall_time, const char *host,
                      const char *suffix);

/* Begins a file for a run that begins or resumes before global step `step`. */
void tensorboard_begin(FILE *out, double wall_time, int64_t step);

void tensorboard_step(FILE *out, double wall_time, const struct step_record *step);
void tensorboard_epoch(FILE *out, double wall_time, const struct epoch_record *epoch);
void tensorboard_telemetry(FILE *out, double wall_time, int64_t step,
                           const struct telemetry_record *row);
