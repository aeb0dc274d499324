/* Running a worker under NVIDIA's compute-sanitizer. */
#pragma once

#include "base/status.h"
#include "base/words.h"

#include <stddef.h>

enum { SANITIZER_FOUND = 9 }; /* the tool's exit code if it found errors */

/* Finds the tool on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin. STATUS_DATA if the tool is
 * not installed, or if the device is not a GPU. */
MUST_CHECK enum status sanitizer_find(const char *devices, char *path, size_t size);

/* Adds the arguments that precede a worker's command. */
MUST_CHECK enum status sanitizer_command(const char *path, const char *tool, struct words *w);
