/* TensorBoard's event files: scalars of steps and epochs, as a stream of protobuf messages.
 *
 * A file is a sequence of records: the length as a little-endian u64, its masked CRC-32C, the
 * message (event.proto), its masked CRC-32C. The mask is rotr(crc, 15) + 0xa282ead8 (TensorFlow,
 * lib/io/record_writer). Files of one folder are read in the order of their names, which begin
 * with the time at which they were begun; when a program went on from an earlier step, the new file
 * says so, and TensorBoard drops what the files before hold from that step on.
 *
 * Tags: Throughput (images/s), Time (seconds a step), Loss, Top1, Top5 (percent), Lr, and LossScale
 * where there is loss scaling; Val/Loss, Val/Top1 and Val/Top5 at the last step of each epoch that
 * was validated; Device0/Power_W, Energy_J, Temperature_C, Clock_MHz, MemoryClock_MHz, Busy
 * (percent), MemoryBusy and Memory_GiB, and likewise of each device, at the step after the sample.
 * A value that is not finite is left out.
 *
 * What is written is found by the caller in the stream's error flag. Nothing is allocated. */
#ifndef EXPORT_TENSORBOARD_H
#define EXPORT_TENSORBOARD_H

#include "results/schema.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The masked CRC-32C of a record. */
uint32_t tensorboard_crc(const void *bytes, size_t size);

/* The name of a file that is begun at `wall_time` (seconds since 1970) on a host: "suffix" tells
 * files of the same second apart. Bytes of `host` that do not belong in a file name become '_'. */
enum { TENSORBOARD_NAME_MAX = 160 };
void tensorboard_name(char out[TENSORBOARD_NAME_MAX], double wall_time, const char *host,
                      const char *suffix);

/* Begins a file, of a run that begins or goes on before global step `step`. */
void tensorboard_begin(FILE *out, double wall_time, int64_t step);

void tensorboard_step(FILE *out, double wall_time, const struct step_record *step);
void tensorboard_epoch(FILE *out, double wall_time, const struct epoch_record *epoch);
void tensorboard_telemetry(FILE *out, double wall_time, int64_t step,
                           const struct telemetry_record *row);
#endif
