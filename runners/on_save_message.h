/* Internal to runners/on_save*.c: messages between rank 0 and the helper, one per packet. */
#pragma once

#include "base/process.h"

#include <stdint.h>

enum { ON_SAVE_TRIES = 4 };

/* A request to the helper. */
struct on_save_asked {
    int64_t step;
    int32_t checkpoint; /* a checkpoint was written since the previous message */
    int32_t last;       /* no further message follows */
};

/* The helper's report on a save: the command has succeeded, or it has failed in every try. */
struct on_save_done {
    int64_t step;
    int32_t code; /* exit code of the last try; 0: success */
    int32_t last; /* the helper ends after this report */
    char message[PROCESS_MESSAGE_SIZE];
};
