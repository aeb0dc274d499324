/* Energy and sensors of a run's devices, computed from its records. */
#pragma once

#include "results/run.h"

/* Writes the names of the bits of telemetry_record.throttle, joined by ", ", as in "power cap,
 * heat"; "none" for 0; "other" for bits without a name. */
enum { THROTTLE_WORDS_MAX = 160 };
void throttle_words(uint32_t bits, char out[THROTTLE_WORDS_MAX]);

/* Returns the name of one bit; NULL if the bit has no name. */
const char *throttle_word(uint32_t bit);

struct energy {
    double joules_per_image; /* NaN: not measured */
    double joules;           /* energy used in those parts of the training that have samples */
    double images;           /* images trained in these parts */
};

/* Returns the energy that all devices used within steps, without the time of validation,
 * checkpoints and pauses. Between two samples of an energy counter, the power is assumed to be
 * constant. Only the devices of rank 0 have samples. The energy of several ranks is therefore taken
 * from the epochs' records, which contain the energy of all ranks. joules_per_image is NaN if a
 * device's energy was not measured. */
struct energy energy_of(const struct run *run);

/* Appends an object to `list` for each device of run->telemetry, as in sensors_add's "telemetry";
 * reads no other member of the run. */
MUST_CHECK enum status sensors_devices(const struct run *run, json_t *list);

/* Adds these members to `into`, each only if it was measured:
 *   energy     {joules_per_image, images_per_joule, joules, images}, see energy_of
 *   telemetry  an object for each device: {device, samples; the medians of clock_mhz,
 *              memory_clock_mhz and power_w; the maxima of temperature_c and memory_bytes; the
 *              increases of ecc_corrected and ecc_uncorrected during the run;
 *              throttled: {name: share of the samples}}
 * If there are several ranks, only rank 0 stores its samples. The summary.json that the run itself
 * wrote has the devices of all ranks under "telemetry", each with its rank, its host and its number
 * on the host ("index"). The values of ranks other than 0 cover only the last attempt. */
MUST_CHECK enum status sensors_add(const struct run *run, json_t *into);
