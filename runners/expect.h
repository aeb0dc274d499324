/* Internal to runners/: compares a run, bit by bit, with the record of an earlier run of the same
 * configuration. A training run is a pure function of its configuration: on the same hardware, both
 * runs have the same losses and the same final state. */
#pragma once

#include "results/run.h"

/* Loads the record of a completed run; the caller frees it. `config` and `libraries` are this
 * run's, as in run.json, and `device` describes its device. STATUS_USAGE if a setting, device or
 * library differs; the message names it. Settings that change no bit, such as paths and loader
 * threads, may differ. STATUS_DATA for a run with injected faults, or without a hash of its final
 * state. */
MUST_CHECK enum status expected_open(const char *dir, const json_t *config, const json_t *libraries,
                                     const char *device, struct run **out);

/* Checks the loss of a step. STATUS_MISMATCH unless it equals the recorded loss in all recorded
 * digits. STATUS_DATA if the record has no such step. */
MUST_CHECK enum status expected_step(const struct run *run, const struct step_record *step);

/* Checks the end of the run: STATUS_DATA unless the record has the same number of steps,
 * STATUS_MISMATCH unless the hash `state` of the final state equals the recorded hash. */
MUST_CHECK enum status expected_end(const struct run *run, int64_t steps, const char *state);
