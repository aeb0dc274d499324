/* Inside accept/: metrics read from the output of the checks' commands. A value that the output
 * lacks counts as not measured.
 *
 * Each kind of check has a list of readings, which ends with a zeroed reading. Most readings are
 * tables: the path of a list of rows, and for each column the member, the metric's name and its
 * unit. A reading that a table cannot describe is a function. */
#pragma once

#include "accept/accept_result.h"

/* The output of one repeat of a check. */
struct accept_output {
    const json_t *json; /* the object that the command printed; NULL: the command writes a folder */
    const char *dir;    /* the repeat's own folder */
    const json_t *args; /* the check's arguments */
    const char *device; /* "cpu", "ref", "cuda" */
    int only_device;    /* index of the spec's only device; -1: the spec uses n_devices devices */
    int n_devices;
    bool together;    /* other checks run at the same time */
    int check_device; /* index of the check's only device; -1: the check uses all devices of the
                       * spec */
};

enum accept_over {
    ACCEPT_EACH,  /* every row has its own metric */
    ACCEPT_SUM,   /* the sum over all rows; not measured if a row lacks the member */
    ACCEPT_LEAST, /* the lowest value of all rows; not measured if a row lacks the member */
    ACCEPT_MOST,  /* likewise the highest; only for sensors of devices */
    ACCEPT_ROWS,  /* the number of rows */
    ACCEPT_TRUE,  /* the number of rows whose member is true */
    ACCEPT_FALSE, /* the number of rows whose member is not true */
};

struct accept_column {
    const char *path; /* path of the value: names of members, and indices: "seconds.median" */
    const char *name; /* name of the metric; "{type}" is replaced by the value of the row's member
                       * "type", and "{}" by the row's index */
    const char *unit; /* "": a number without a unit; NULL: a text */
    enum accept_better better;
    double scale; /* a number is multiplied by this factor; 0 means 1 */
    enum accept_over over;
};

#define COLUMNS(...) ((const struct accept_column[]){__VA_ARGS__, {0}})

struct accept_reading {
    /* Reads the output in place of the table; STATUS_DATA for output that cannot be read. NULL: the
     * table is used. */
    enum status (*read)(const struct accept_output *output, struct accept_result *r);
    const char *rows;  /* path of a list; NULL: the whole output is the only row */
    const char *needs; /* name of a row, for the STATUS_DATA message about an output without
                        * rows; NULL: the output may have no rows */
    const struct accept_column *column; /* ends with an entry whose name is NULL */
};

/* Adds the measurements of one repeat. Ignores a row that lacks a member used in a metric's name.
 * STATUS_DATA for output that cannot be read. */
MUST_CHECK enum status accept_read(const struct accept_reading *reading,
                                   const struct accept_output *output, struct accept_result *r);

/* Adds the metrics of one row, one for each column; `number` replaces "{}" in names. */
MUST_CHECK enum status accept_read_row(const struct accept_column *column, const json_t *row,
                                       const char *number, struct accept_result *r);

/* accept_read_number returns the number at a path, or NAN if there is no number. accept_read_text
 * returns the text at a path, or "" if there is no text. */
double accept_read_number(const json_t *object, const char *path);
const char *accept_read_text(const json_t *object, const char *path);

/* Readings of the JSON that a check's command printed (accept_read.c). */
extern const struct accept_reading accept_read_facts[], accept_read_peak[], accept_read_memory[],
    accept_read_peers[], accept_read_step[], accept_read_gemm[], accept_read_optimizer[],
    accept_read_input[], accept_read_gpu_input[], accept_read_conv[], accept_read_collective[],
    accept_read_nccl[];

/* Readings for checks of correctness: single operations, and the accuracy of training
 * (accept_read_train.c). The metric "wrong" counts failed cases. The metric "late" counts the
 * kinds of operations whose cases ran out of time. */
extern const struct accept_reading accept_read_selftest[], accept_read_determinism[],
    accept_read_operations[], accept_read_sanitizer[], accept_read_accuracy[];

/* Readings of training that alternates with PyTorch (accept_read_train.c). Each precision and
 * batch size has the metrics below. If the check asks for several fusion or launch modes, the modes
 * are part of a metric's name.
 *   images_per_s_amp_256, lowest_, highest_   median, minimum and maximum of the rounds
 *   ..._files_amp_256, ..._peer_eager_amp_256, ..._peer_compile_amp_256   the same three numbers
 *                     for training from JPEG files, and for PyTorch in eager and compiled mode
 *   rounds_amp_256    number of rounds that gave a result
 *   of_peer_amp_256, peer_mode_amp_256   ratio to PyTorch's fastest mode, and its name: "PyTorch
 *                     compile"; or "PyTorch eager only; PyTorch compile: WHY" if that has no result
 *   rung_amp_256, falls_amp_256, why_amp_256   the final rung (fallback level), the number of
 *                     falls to it, and the reason of the first fall or of a missing number */
extern const struct accept_reading accept_read_throughput[];

/* Readings of the run's folder, <dir>/run (accept_read_train.c):
 *   images_per_s, step_s   medians over the steps, without the first ten
 *   images_per_s_per_device  images_per_s divided by the number of devices
 *   loss                   of the last step
 *   loss_bits              a hash over every step's loss: equal if all losses are equal
 *   temperature_c, power_w, memory_gib    the highest of any device
 *   clock_mhz              the lowest of the devices' medians
 *   ecc_corrected, ecc_uncorrected        errors during the run, summed over all devices
 *   throttled_<reason>     percent of throttled samples, the highest of any device; <reason> is a
 *                          text of throttle_word (results/sensors.h), with '_' in place of a space
 * A sensor is not measured if a device lacks it. No sensor is measured if the run's record lacks a
 * device. With several ranks the run's summary has the devices of all ranks. */
extern const struct accept_reading accept_read_train[];
