/* A fuzz target is a file fuzz_NAME.c of this folder that defines LLVMFuzzerTestOneInput. The
 * preset `fuzz` links it with libFuzzer, which generates inputs. Every other preset links it with
 * replay.c, which passes it the inputs in corpus/NAME. A target fails only by a crash or a
 * sanitizer's report. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns a folder of this process, empty at first and removed at exit. Targets write here the
 * files that a reader opens by path. */
const char *fuzz_dir(void);

/* Returns "<fuzz_dir>/<name>", valid until the next call. */
const char *fuzz_path(const char *name);

/* Writes a file in fuzz_dir, and returns its path as fuzz_path does. */
const char *fuzz_file(const char *name, const void *bytes, size_t size);

/* Splits one input into files in fuzz_dir, and removes those of the previous input. A line "@name"
 * begins a file if `names`, a list that ends with NULL, has that name. All other lines belong to
 * the file that began last. Returns a bit mask of the files that began; bit 0 is for the first
 * name. */
unsigned fuzz_files(const uint8_t *data, size_t size, const char *const *names);

/* Returns a copy that ends with NUL. The caller frees it. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Returns whether `st` is STATUS_OK. An error with a message is a correct result; aborts if the
 * error has no message. */
bool fuzz_ok(enum status st);
