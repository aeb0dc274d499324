/* Writes a checkpoint in one call. */
#pragma once

#include "runners/checkpoint.h"

static inline enum status checkpoint_save(const char *path, struct network *net,
                                          const struct graph *g, const struct train_identity *id,
                                          const struct train_state *state)
{
    struct atomic_file f;
    TRY(checkpoint_prepare(path, net, g, id, state, &f));
    return atomic_file_commit(&f);
}
