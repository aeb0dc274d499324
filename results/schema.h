/* What a run folder holds, as structs and as one table of columns per file.
 *
 *   run.json      the run's configuration, versions, hardware: written once, never changed
 *   steps.jsonl   one object a training step (struct step_record)
 *   epochs.jsonl  one object an epoch (struct epoch_record)
 *   ranks.jsonl   one object an epoch and rank (struct rank_record); only where there are several
 *   telemetry.jsonl  one object a sample and device of rank 0 (struct telemetry_record); only where
 *                    something could be measured
 *   summary.json  written when the run ends in order, and only then
 *
 * A column bears the name of its struct member; the writer and the reader walk the same table.
 * Numbers keep nine significant digits, which a float survives; a double that is not finite is
 * null, and a sensor's is left out. A line with an "event" key is no record: {"event": "resume",
 * "step": 400, "epoch": 3, ...} says that the run went on from there, and whatever an earlier
 * attempt recorded from that step and that epoch on no longer counts; {"event": "checkpoint",
 * "step": 400} in steps.jsonl says that a checkpoint stood in the folder after that many steps. */
#ifndef RESULTS_SCHEMA_H
#define RESULTS_SCHEMA_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Weights beside the records: the newest state, the one before it, the best validation so far. */
#define CHECKPOINT_NAME      "checkpoint.safetensors"
#define CHECKPOINT_PREV_NAME "checkpoint-prev.safetensors"
#define BEST_NAME            "best.safetensors"

/* Grows when a reader of the previous version would misunderstand. */
enum { RUN_SCHEMA = 1 };

/* Times are seconds of wall clock on the training thread. A zeroed member means "nothing". Where
 * the device goes on beside the host they are the device's: data_s is then as much of the wait for
 * the loader as it had nothing to do, and h2d_s what it waited for the batch. */
struct step_record {
    int64_t epoch;      /* from 0 */
    int64_t step;       /* over the whole run, from 0 */
    int64_t batch;      /* within the epoch, from 0 */
    int64_t images;     /* trained on in this step, over all ranks */
    double loss;        /* mean over the images */
    double top1, top5;  /* percent of the images */
    double lr;          /* that this step used */
    double data_s;      /* waiting for the loader */
    double h2d_s;       /* copying the batch to the device */
    double forward_s;   /* forward and loss */
    double backward_s;  /* backward, without the communication below */
    double comm_s;      /* communication that nothing hid */
    double comm_busy_s; /* during which gradients were on their way, hidden or not; 0: never */
    double optimizer_s; /* unscale and update */
    double total_s;     /* from one step's end to the next one's; >= the sum of the parts */
    int64_t bytes_read; /* from storage, for this batch */
    int64_t files_read;
    double decode_s;    /* decoding and augmenting this batch, summed over the workers */
    int64_t workers;    /* that decoded; 0: synthetic tensors */
    int64_t bad_images; /* of this batch, left out of loss and accuracy */
    double loss_scale;  /* that this step used; 0: no loss scaling, and no such column */
    int64_t clean;      /* steps without overflow before it, since the scale changed last; the
                         * scale grows by their number. No column when 0 */
    int64_t skipped;    /* 1: gradients overflowed, the weights stayed; no column when 0 */
    double elapsed;     /* since the run began, over all its attempts; record_step fills it in */
};

struct epoch_record {
    int64_t epoch; /* from 0 */
    int64_t steps; /* finished since the run began */
    double lr;     /* of the epoch's last step */
    int64_t train_images;
    double train_loss, train_top1, train_top5; /* means over the epoch's training images */
    int64_t val_images;                        /* 0: not validated, and the next three are null */
    double val_loss, val_top1, val_top5;
    double best_top1;                         /* val_top1's maximum so far */
    double images_per_s;                      /* median over the steps */
    double images_per_s_p5, images_per_s_p95; /* its spread over the steps */
    double images_per_s_wall;                 /* train_images / (train_s + val_s + ...) */
    double train_s, val_s, checkpoint_s;      /* where the epoch's wall clock went */
    double bytes_per_s, files_per_s;          /* read from storage while training */
    double decode_ms;                         /* per image, on one worker */
    int64_t bad_images;                       /* of training and validation */
    double loss_scale;                        /* after the epoch; 0: no loss scaling, no column */
    int64_t clean;                            /* as in a step, after the epoch */
    int64_t skipped;                          /* steps since the run began; no column when 0 */
    double energy_j; /* of all devices while training, as far as this attempt did; 0: not measured,
                      * no column */
    double joules_per_image; /* that, for each image trained on meanwhile; no column when 0 */
    double elapsed;          /* since the run began; record_epoch fills it in */
};

/* What one rank did in one epoch: sums over the steps of the attempt that finished the epoch, or
 * whose run ended in the midst of it, by the rank's own clock. Times are parts of a step as in
 * struct step_record. */
struct rank_record {
    int64_t epoch;   /* from 0 */
    int64_t rank;    /* from 0 */
    int64_t attempt; /* which knows where the rank ran: 0 is the one that run.json describes, 1 the
                      * first to resume it; record_rank fills it in. No column when 0 */
    int64_t steps;
    int64_t images; /* this rank's own */
    double data_s, h2d_s, forward_s, backward_s;
    double comm_s, comm_busy_s;
    double optimizer_s;
    double total_s;
    double energy_j; /* of its own devices; 0: not measured, no column */
    /* Over the steps, the time of one without communication: its median, and the median absolute
     * deviation from that. No columns when 0. */
    double own_median_s, own_mad_s;
    /* And the medians of its parts. No column when 0. */
    double data_median_s, h2d_median_s, forward_median_s, backward_median_s, optimizer_median_s;
};

/* What a device did at one moment, while the run went on. What was not measured is NaN and has no
 * column. A GPU is one device; the processors of a host are one together. */
struct telemetry_record {
    int64_t attempt; /* as in a rank_record; record_telemetry fills it in. No column when 0 */
    int64_t sample;  /* over the whole run, from 0: the devices' rows of one moment bear the same */
    int64_t device;  /* among those of rank 0, from 0 */
    double clock_mhz; /* of a GPU's multiprocessors; of processors, the mean */
    double memory_clock_mhz;
    double power_w;  /* GPU: as the board says, an average over up to a second; processors: since
                      * the sample before */
    double energy_j; /* since the attempt began */
    double temperature_c;
    double throttle; /* a sum of enum throttle: why the clock is below its highest; 0: it is not */
    double ecc_corrected; /* memory errors since the driver was loaded */
    double ecc_uncorrected;
    double memory_bytes;      /* in use on the device, by anyone */
    double busy, memory_busy; /* percent of the time in which a kernel ran, memory was accessed */
    double pcie_sent;         /* bytes/s, by the device */
    double pcie_received;
    double elapsed; /* since the run began; record_telemetry fills it in */
};

/* Devices of a process; numbers from this on are refused. */
enum { TELEMETRY_DEVICES_MAX = 64 };

/* The bits of telemetry_record.throttle, NVML's. */
enum throttle {
    THROTTLE_IDLE = 1,
    THROTTLE_CLOCKS_SETTING = 2, /* somebody set the clocks lower */
    THROTTLE_POWER_CAP = 4,
    THROTTLE_HARDWARE = 8, /* slowed down by hardware: heat or power, told apart below */
    THROTTLE_SYNC_BOOST = 16,
    THROTTLE_HEAT = 32,
    THROTTLE_HARDWARE_HEAT = 64,
    THROTTLE_POWER_BRAKE = 128,
    THROTTLE_DISPLAY = 256,
};

/* A row of which nothing is known: every sensor NaN, all else 0. */
extern const struct telemetry_record telemetry_nothing;

/* A sensor's number is real; NaN leaves it out, and absent reads as NaN. */
enum field_type { FIELD_COUNT, FIELD_REAL, FIELD_SENSOR };

/* One column. Counts are whole numbers of 0..2^53 and never null. */
struct field {
    const char *name;
    enum field_type type;
    bool optional; /* left out when 0; absent reads as 0 */
    size_t offset; /* of the struct member: int64_t for FIELD_COUNT, double for the others */
    double min, max;
};

struct schema {
    int n;
    const struct field *field;
};

extern const struct schema step_schema;      /* struct step_record */
extern const struct schema epoch_schema;     /* struct epoch_record */
extern const struct schema rank_schema;      /* struct rank_record */
extern const struct schema telemetry_schema; /* struct telemetry_record */

/* A column's value as text, with nine significant digits; "" for a number that is not finite. */
enum { SCHEMA_NUMBER_MAX = 32 };
void schema_number(const struct field *f, const void *record, char out[SCHEMA_NUMBER_MAX]);

/* The longest line that schema_format writes, its newline and NUL included. */
enum { SCHEMA_LINE_MAX = 2048 };

/* Writes `record` as one line, "{...}\n", and returns its length. Allocates nothing. */
size_t schema_format(const struct schema *s, const void *record, char line[SCHEMA_LINE_MAX]);

/* Reads an object into `record`. Unknown keys are ignored; a missing column, a wrong type and a
 * number out of range are STATUS_DATA with a message such as "'loss' is missing". */
MUST_CHECK enum status schema_parse(const struct schema *s, const json_t *object, void *record);

/* Whether this is what run.json and resume events hold under "ranks": an array of objects
 * {"rank": 0, "host": "node1", "pid": 4711, "host_cores": 4, ...}, one for each rank, in their
 * order. "host_cores", which may be missing, counts the cores that the ranks of its host may use
 * together. */
bool schema_is_rank_list(const json_t *value);
#endif
