/* Names of statuses, for the messages of failed tests: "io", "data" ... */
#pragma once

#include "base/status.h"

#include <stddef.h>

static inline const char *status_str(enum status st)
{
    static const char *const names[] = {
        [STATUS_OK] = "ok",
        [STATUS_USAGE] = "usage",
        [STATUS_INVALID] = "invalid",
        [STATUS_UNSUPPORTED] = "unsupported",
        [STATUS_OOM] = "out of memory",
        [STATUS_IO] = "io",
        [STATUS_DATA] = "data",
        [STATUS_LIBRARY] = "library",
        [STATUS_DIVERGED] = "diverged",
        [STATUS_INTERRUPTED] = "interrupted",
        [STATUS_HARDWARE] = "hardware",
        [STATUS_MISMATCH] = "mismatch",
        [STATUS_LOST_RANK] = "lost rank",
    };
    return (size_t)st < sizeof names / sizeof *names ? names[st] : "unknown";
}
