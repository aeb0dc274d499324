/* The order of turns of bench throughput, a pure function of the request.
 *
 * A key is a precision and a batch size. The rows of a key are ampscale with each combination of
 * fusion and graphs, and the peer in eager mode. The first key has two more rows: ampscale on JPEG
 * files, and the compiled peer. A turn measures one row. A round has one turn of each row of all
 * keys that is compared (ampscale and eager), key by key; the order of a key's rows reverses from
 * round to round. The budget may end any later turn, so the first round comes first: after it every
 * key has a comparison. The compiled peer has one turn, after the first round, because compiling
 * takes minutes. JPEG files come last. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

enum throughput_who {
    THROUGHPUT_OURS,    /* ampscale */
    THROUGHPUT_FILES,   /* ampscale, from JPEG files */
    THROUGHPUT_EAGER,   /* the peer in eager mode */
    THROUGHPUT_COMPILE, /* the peer, compiled */
    THROUGHPUT_WHO_COUNT
};

struct throughput_shape {
    int keys, combinations, rounds; /* numbers, each at least 1 */
    bool peer, compile, files;
};

struct throughput_slot {
    int key;
    enum throughput_who who;
    int combination; /* index of the combination; 0 in rows without combinations */
};

struct throughput_turn {
    int slot;
    int round; /* from 0 */
};

struct throughput_plan {
    int n_slots, n_turns;
    struct throughput_slot *slot; /* (n_slots) sorted by key; the rows of a key are in the order in
                                   * which they are printed */
    struct throughput_turn *turn; /* (n_turns) in order of execution */
};

/* The caller calls throughput_plan_free, after a failure too. */
MUST_CHECK enum status throughput_plan_make(const struct throughput_shape *s,
                                            struct throughput_plan *p);
void throughput_plan_free(struct throughput_plan *p); /* accepts a zeroed struct */
