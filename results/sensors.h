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
    double joules;           /* joules used in the periods of training that have samples */
    double images;           /* images trained in the same periods */
};

/* Returns the energy of all devices during training. Power is taken as constant between two samples
 * of an energy counter. Only the time within steps counts, not the time of validation, checkpoints
 * and pauses. Only the devices of rank 0 have samples. The energy of several ranks is therefore
 * taken from the epochs' records, which sum the counters of all ranks. NaN if a device's energy was
 * not measured. */
struct energy energy_of(const struct run *run);

/* Appends an object to `list` for each device of run->telemetry, as in sensors_add's "telemetry";
 * reads no other member of the run. */
MUST_CHECK enum status sensors_devices(const struct run *run, json_t *list);

/* Adds these members to `into`, each only if it was measured:
 *   energy     {joules_per_image, images_per_joule, joules, images}, see energy_of
 *   telemetry  an object for each device: {device, samples, clock_mhz, memory_clock_mhz,
 *              power_w: medians, temperature_c, memory_bytes: maxima, ecc_corrected,
 *              ecc_uncorrected: increase during the run, throttled: {name: share of the samples}}
 * Of several ranks, only rank 0's samples are on disk. The summary.json that the run itself wrote
 * has the devices of all ranks under "telemetry", each with its rank, host and index (its number on
 * the host); the values of ranks other than 0 cover the last attempt only. */
MUST_CHECK enum status sensors_add(const struct run *run, json_t *into);
