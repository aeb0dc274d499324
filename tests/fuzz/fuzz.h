/* A fuzz target: one file here, fuzz_NAME.c, with LLVMFuzzerTestOneInput. The preset `fuzz` links
 * it with libFuzzer, which generates inputs; every other preset links it with replay.c, which
 * passes the inputs in corpus/NAME. A target fails only by a crash or a sanitizer's report. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A folder of this process, empty at first and removed at exit; readers that take paths get paths
 * in this folder. */
const char *fuzz_dir(void);

/* Writes "<fuzz_dir>/<name>" and returns its path, valid until the next call. */
const char *fuzz_file(const char *name, const void *bytes, size_t size);

/* Replaces the contents of fuzz_dir by the files of one input: a line "@name" begins the file of
 * that name, if it is one of `names`, which ends with NULL; any other line belongs to the file
 * before it. Returns a bit for each name that occurred; the bit of the first name is 1. */
unsigned fuzz_files(const uint8_t *data, size_t size, const char *const *names);

/* Checks that an error has a message; the error itself is not a finding. */
void fuzz_refused(enum status st);
