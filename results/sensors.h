/* What the devices' sensors say of a run, computed from its records. */
#ifndef RESULTS_SENSORS_H
#define RESULTS_SENSORS_H

#include "results/run.h"

/* The bits of telemetry_record.throttle in words, ", " between them: "power cap, heat"; "none" for
 * 0. Bits that have no name here are "other". */
enum { THROTTLE_WORDS_MAX = 160 };
void throttle_words(uint32_t bits, char out[THROTTLE_WORDS_MAX]);

/* The word of one bit; NULL for a bit that has no name. */
const char *throttle_word(uint32_t bit);

struct energy {
    double joules_per_image; /* NaN: not measured */
    double joules;           /* while training, as far as samples cover it */
    double images;           /* trained meanwhile */
};

/* Energy that all devices used while they trained: a counter's rise between two samples is spread
 * evenly over the time between them, and what falls into steps counts; validation, checkpoints and
 * pauses do not. Only rank 0's devices are sampled: of a job of several ranks the epochs tell,
 * which sum up what every rank counted. NaN where a device's energy was not counted. */
struct energy energy_of(const struct run *run);

/* Appends to `list` an object for each device of run->telemetry, as "telemetry" below has them;
 * nothing else of the run is looked at. */
MUST_CHECK enum status sensors_devices(const struct run *run, json_t *list);

/* Adds to `into`, each only where it was measured:
 *   energy     {joules_per_image, images_per_joule, joules, images}, as energy_of says
 *   telemetry  an object a device: {device, samples, clock_mhz, memory_clock_mhz, power_w: medians,
 *              temperature_c, memory_bytes: maxima, ecc_corrected, ecc_uncorrected: how many came
 *              during the run, throttled: {word: share of the samples}}
 * Of several ranks the samples on disk are rank 0's alone; the summary.json that the run itself
 * wrote has the devices of all ranks under "telemetry", each with its rank, host and index (its
 * number among the host's devices), over the last attempt of all but rank 0. */
MUST_CHECK enum status sensors_add(const struct run *run, json_t *into);
#endif
