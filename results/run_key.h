/* Recognises runs that differ only in their seeds. */
#pragma once

#include "results/run.h"

enum { RUN_KEY_SIZE = 1024 };

/* Writes as JSON the settings that affect a run's results, except the seed. Runs with equal keys
 * are repeats of one experiment. If an older record lacks a setting, writes the setting's default.
 * The data set is identified by its number of images, because its folder may have moved. */
void run_key(const struct run *run, char *out, size_t size);
