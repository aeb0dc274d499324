/* Inside runners/on_save*.c: messages between rank 0 and the helper, one per packet. */
#pragma once

#include "base/process.h"

#include <stdint.h>

enum { ON_SAVE_TRIES = 4 };

/* To the helper. */
struct on_save_asked {
    int64_t step;
    int32_t checkpoint; /* a checkpoint was written since the previous message */
    int32_t last;       /* no further message follows */
};

/* From the helper: a save for which the command succeeded, or failed in each of its tries. */
struct on_save_done {
    int64_t step;
    int32_t code; /* exit code of the last try; 0: success */
    int32_t last; /* the helper ends */
    char message[PROCESS_MESSAGE_SIZE];
};
