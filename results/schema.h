/* The files of a run folder, as structs and as one table of columns per file.
 *
 *   run.json      the run's configuration, versions and hardware; written once, never changed
 *   steps.jsonl   one object for each training step (struct step_record)
 *   epochs.jsonl  one object for each epoch (struct epoch_record)
 *   ranks.jsonl   one object for each epoch and rank (struct rank_record); only for several ranks
 *   telemetry.jsonl  one object for each sample and device of rank 0 (struct telemetry_record);
 *                    only where something could be measured
 *   summary.json  written when the run is complete, and only then
 *
 * A column has the name of its struct member; the writer and the reader use the same table. Numbers
 * keep nine significant digits, enough for a float. A double that is not finite is written as null;
 * a sensor's value that is not finite is left out.
 *
 * A line with an "event" key is not a record. {"event": "resume", "step": 400, "epoch": 3, ...}
 * means that the run resumed at that step and epoch. Readers ignore the records that earlier
 * attempts wrote for this step and epoch and for later ones. {"event": "checkpoint", "step": 400}
 * in steps.jsonl means that the folder contained a checkpoint made after 400 steps. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of files in the run folder: the newest checkpoint, the previous checkpoint, and the weights
 * of the best validation so far. */
#define CHECKPOINT_NAME      "checkpoint.safetensors"
#define CHECKPOINT_PREV_NAME "checkpoint-prev.safetensors"
#define BEST_NAME            "best.safetensors"

/* Increase this number if a reader of the previous version would misread the files. */
enum { RUN_SCHEMA = 1 };

/* A larger number of a record is no measurement, and would overflow in sums and axes. */
#define RECORD_REAL_MAX 1e100

/* Times are wall-clock seconds, measured on the training thread; 0: the step has no such part. For
 * an asynchronous device, times are measured on the device. There, data_s is the time for which the
 * device was idle because the host waited for the loader, and h2d_s is the time for which the
 * device waited for the batch. */
struct step_record {
    int64_t epoch;      /* from 0 */
    int64_t step;       /* number over the whole run, from 0 */
    int64_t batch;      /* within the epoch, from 0 */
    int64_t images;     /* images trained on in this step, over all ranks */
    double loss;        /* mean over the images */
    double top1, top5;  /* percent of the images */
    double lr;          /* used in this step */
    double data_s;      /* waiting for the loader */
    double h2d_s;       /* copying the batch to the device */
    double forward_s;   /* forward and loss */
    double backward_s;  /* backward pass, without comm_s */
    double comm_s;      /* exposed communication */
    double comm_busy_s; /* all communication of gradients, exposed or overlapped; 0: none */
    double optimizer_s; /* unscale and update */
    double total_s; /* from the end of the previous step to the end of this one; at least the sum of
                     * the parts */
    int64_t bytes_read; /* bytes read from storage for this batch */
    int64_t files_read;
    double decode_s;    /* decoding and augmenting this batch, summed over the workers */
    int64_t workers;    /* decode workers; 0: synthetic tensors */
    int64_t bad_images; /* bad images in this batch, which are left out of loss and accuracy */
    double loss_scale;  /* loss scale used in this step; 0: no loss scaling, and no such column */
    int64_t clean;      /* number of steps without overflow since the loss scale last changed, not
                         * counting this step; determines when the scale grows. No column when 0 */
    int64_t skipped;    /* 1: gradients overflowed, the weights are unchanged; no column when 0 */
    double elapsed;     /* seconds since the run began, over all its attempts; record_step fills it
                         * in */
};

struct epoch_record {
    int64_t epoch; /* from 0 */
    int64_t steps; /* completed since the run began */
    double lr;     /* learning rate of the epoch's last step */
    int64_t train_images;
    double train_loss, train_top1, train_top5; /* means over the epoch's training images */
    int64_t val_images; /* 0: no validation; val_loss, val_top1 and val_top5 are then null */
    double val_loss, val_top1, val_top5;
    double best_top1;         /* maximum of val_top1 so far */
    double images_per_s_mean; /* images of all steps in this attempt / their total_s */
    double images_per_s;      /* median over the steps, without warm-up */
    double images_per_s_p5, images_per_s_p95; /* percentiles 5 and 95 over the steps */
    double images_per_s_wall;                 /* train_images / (train_s + val_s + ...) */
    double train_s, val_s, checkpoint_s;      /* wall-clock seconds of the parts of the epoch */
    double bytes_per_s, files_per_s;          /* read by the loaders while training */
    double decode_ms;                         /* time to decode an image on one worker */
    int64_t bad_images;                       /* bad images in training and validation */
    double loss_scale;                        /* loss scale after the epoch; 0: no loss scaling, and
                                               * no column */
    int64_t clean;                            /* as in struct step_record, after the epoch */
    int64_t skipped;                          /* steps skipped since the run began; no column when
                                               * 0 */
    double energy_j; /* energy of all devices while training, in this attempt only; 0: not measured,
                      * and no column */
    double joules_per_image; /* energy_j divided by the number of images trained while it was
                              * measured; no column when 0 */
    /* The reads from storage while training, in this attempt only. NaN: not known, no column. */
    double storage_bytes;  /* bytes fetched by the processes of all ranks (/proc/self/io) */
    double device_bytes;   /* bytes read from the data's block device on rank 0's host, by all
                            * processes (/proc/diskstats) */
    double cached_percent; /* percentage of the loaders' bytes that came from page caches */
    double elapsed;        /* seconds since the run began; record_epoch fills it in */
};

/* One rank's part in one epoch. The values are sums over the epoch's steps in one attempt: the
 * attempt that completed the epoch or, for an incomplete epoch, the last attempt. Times are parts
 * of a step as in struct step_record, by the rank's own clock. */
struct rank_record {
    int64_t epoch;   /* from 0 */
    int64_t rank;    /* from 0 */
    int64_t attempt; /* index of the attempt, which run_rank_host takes: 0 is the attempt in
                      * run.json, 1 the first resume; record_rank fills it in. No column when 0 */
    int64_t steps;
    int64_t images; /* images of this rank's batches */
    double data_s, h2d_s, forward_s, backward_s;
    double comm_s, comm_busy_s;
    double optimizer_s;
    double total_s;
    double energy_j;      /* energy of the rank's own devices; 0: not measured, and no column */
    double storage_bytes; /* as in struct epoch_record, but only of this rank's process */
    /* The time of a step without communication: its median over the steps, and its median absolute
     * deviation. No columns when 0. */
    double own_median_s, own_mad_s;
    /* For each part except communication: its median time over the steps. No column when 0. */
    double data_median_s, h2d_median_s, forward_median_s, backward_median_s, optimizer_median_s;
};

/* A sample of a device's sensors while the run trains. A sensor that was not measured is NaN and
 * has no column. A GPU is one device; all processors of a host together are one device. */
struct telemetry_record {
    int64_t attempt;  /* as in struct rank_record; record_telemetry fills it in. No column when 0 */
    int64_t sample;   /* number of the sample over the whole run, from 0; equal for all devices that
                       * are sampled together */
    int64_t device;   /* index among the devices of rank 0, from 0 */
    double clock_mhz; /* clock of a GPU's multiprocessors; mean clock of processors */
    double memory_clock_mhz;
    double power_w;  /* GPU: power of the board, averaged over up to a second; processors: average
                      * since the previous sample */
    double energy_j; /* energy used since the attempt began */
    double temperature_c;
    double throttle;      /* reasons why the clock is reduced, as a sum of values of enum throttle;
                           * 0: the clock is not reduced */
    double ecc_corrected; /* memory errors since the driver was loaded */
    double ecc_uncorrected;
    double memory_bytes;      /* memory in use on the device, by all processes */
    double busy, memory_busy; /* percent of time in which a kernel runs; percent of time in which
                               * memory is accessed */
    double pcie_sent;         /* bytes/s, by the device */
    double pcie_received;
    double elapsed; /* seconds since the run began; record_telemetry fills it in */
};

/* Maximum number of devices of a process. A record is invalid if its device number is not below
 * this maximum. */
enum { TELEMETRY_DEVICES_MAX = 64 };

/* The bits of telemetry_record.throttle, with NVML's values. */
enum throttle {
    THROTTLE_IDLE = 1,
    THROTTLE_CLOCKS_SETTING = 2, /* the user or the system has set lower clocks */
    THROTTLE_POWER_CAP = 4,
    THROTTLE_HARDWARE = 8, /* the hardware has reduced the clock, because of heat
                            * (THROTTLE_HARDWARE_HEAT) or power (THROTTLE_POWER_BRAKE) */
    THROTTLE_SYNC_BOOST = 16,
    THROTTLE_HEAT = 32,
    THROTTLE_HARDWARE_HEAT = 64,
    THROTTLE_POWER_BRAKE = 128,
    THROTTLE_DISPLAY = 256,
};

/* A row without measurements: every sensor is NaN, all other members are 0. */
extern const struct telemetry_record telemetry_nothing;

/* FIELD_SENSOR is a real number. If it is NaN, its column is left out, and a missing column is read
 * as NaN. FIELD_TEXT and FIELD_FLAG occur only in objects (schema_put, schema_parse); a line of a
 * record file contains only numbers. */
enum field_type { FIELD_COUNT, FIELD_REAL, FIELD_SENSOR, FIELD_TEXT, FIELD_FLAG };

/* One column. Counts are whole numbers from 0 to 2^53 and never null. */
struct field {
    const char *name;
    enum field_type type;
    bool optional;   /* left out when 0; a missing column is read as 0 */
    bool unmeasured; /* 0 stands for what was not measured or does not exist */
    size_t offset; /* offset of the struct member. For the types of enum field_type, in their order,
                    * the member is an int64_t, double, double, char[] or bool */
    double min, max;
    size_t size; /* bytes of a text member */
};

struct schema {
    int n;
    const struct field *field;
};

extern const struct schema step_schema;      /* struct step_record */
extern const struct schema epoch_schema;     /* struct epoch_record */
extern const struct schema rank_schema;      /* struct rank_record */
extern const struct schema telemetry_schema; /* struct telemetry_record */

/* Writes a column's value as text, with nine significant digits; "" for a number that is not
 * finite. */
enum { SCHEMA_NUMBER_MAX = 32 };
bool schema_is_absent(const struct field *f, const void *record); /* in the record's line */
void schema_number(const struct field *f, const void *record, char out[SCHEMA_NUMBER_MAX]);

/* The longest line that schema_format writes, including its newline and NUL. */
enum { SCHEMA_LINE_MAX = 2048 };

/* Writes `record` as one line, "{...}\n", and returns its length. Allocates nothing. */
size_t schema_format(const struct schema *s, const void *record, char line[SCHEMA_LINE_MAX]);

/* Adds the columns of `record` to an object. */
void schema_put(const struct schema *s, const void *record, json_t *into);

/* Reads an object into `record`. Unknown keys are ignored; a missing column, a wrong type and a
 * number out of range are STATUS_DATA with a message such as "'loss' is missing". */
MUST_CHECK enum status schema_parse(const struct schema *s, const json_t *object, void *record);

/* Returns whether `value` has the form of "ranks" in run.json and in resume events: an array of
 * objects {"rank": 0, "host": "node1", "pid": 4711, "host_cores": 4, ...}, one for each rank, in
 * the order of ranks. "host_cores", which may be missing, is the number of cores that all ranks of
 * the host may use together. */
bool schema_is_rank_list(const json_t *value);
