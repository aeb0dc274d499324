/* A test suite of acceptance whose program is a fake: its checks pass, crash, hang or print wrong
 * results. */
#pragma once

#include "../results/scratch.h"
#include "accept/accept_judge.h"
#include "accept/accept_suite.h"

struct rig {
    char dir[SCRATCH_MAX];
    char path[SCRATCH_MAX + 16], out[SCRATCH_MAX + 16];
};

/* Set-up and tear-down of a test: *state is a struct rig. */
int suite_begin(void **state);
int suite_end(void **state);

/* Runs a spec for a device of this name, with one check of each kind. */
enum status suite_run(const struct rig *r, const char *hardware, const char *const *kinds,
                      bool resume, struct accept_report *report);

/* Checks a result's verdict, number of repeats and a part of its reason. */
void suite_ended(const struct accept_result *c, enum verdict v, int repeats, const char *why);
