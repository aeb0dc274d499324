/* Inside runners/: a run held against the record of one like it, bit by bit: a training run is a
 * pure function of its configuration, so that on the same hardware it has the same losses, and ends
 * in the same state. */
#ifndef RUNNERS_EXPECT_H
#define RUNNERS_EXPECT_H

#include "results/run.h"

struct expected;

/* Opens the record of a run that ended in order. `config` and `libraries` are this run's, as
 * run.json has them, and `device` describes its device. STATUS_USAGE names a setting, device or
 * library that differs; places, threads of the loader, and what else changes no bit may.
 * STATUS_DATA for a run that faults were injected into, or whose end bears no hash of its state. */
MUST_CHECK enum status expected_open(const char *dir, const json_t *config, const json_t *libraries,
                                     const char *device, struct expected **out);
void expected_close(struct expected *e); /* NULL is fine */

/* STATUS_MISMATCH where the step's loss, as it is recorded, is not the recorded one. */
MUST_CHECK enum status expected_step(const struct expected *e, const struct step_record *step);

/* The same of the end: the number of steps, and the hash of the state. */
MUST_CHECK enum status expected_end(const struct expected *e, int64_t steps, const char *state);

#endif
