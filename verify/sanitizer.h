/* NVIDIA's compute-sanitizer around a worker. */
#ifndef VERIFY_SANITIZER_H
#define VERIFY_SANITIZER_H

#include "base/status.h"
#include "base/words.h"

#include <stddef.h>

enum { SANITIZER_FOUND = 9 }; /* the exit code with findings */

/* The tool's file: on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin. STATUS_DATA where it is
 * not installed, or the device is no GPU. */
MUST_CHECK enum status sanitizer_find(const char *devices, char *path, size_t size);

/* The words in front of a worker's command. */
MUST_CHECK enum status sanitizer_command(const char *path, const char *tool, struct words *w);
#endif
