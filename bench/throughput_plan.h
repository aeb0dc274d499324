/* The turns of bench throughput, as a pure function of the request.
 *
 * A key is a precision and a batch. Its rows are one of ours for each combination of fusion and
 * graphs, one from JPEG files and one compiled by the peer where the key is the first, and the
 * peer's eager one. A round takes one turn of each row of a key, so that all see the device in the
 * same state; the sides that are compared change their order from round to round. All rounds of the
 * first key are before those of the others, whose rounds go over all of them. The peer compiles in
 * one round alone, the first key's last: it takes minutes. */
#ifndef BENCH_THROUGHPUT_PLAN_H
#define BENCH_THROUGHPUT_PLAN_H

#include "base/status.h"

#include <stdbool.h>

enum throughput_who {
    THROUGHPUT_OURS,
    THROUGHPUT_FILES,   /* ours, from JPEG files */
    THROUGHPUT_EAGER,   /* the peer's */
    THROUGHPUT_COMPILE, /* the peer's, compiled */
    THROUGHPUT_WHO_COUNT
};

struct throughput_shape {
    int keys, combinations, rounds; /* each at least 1 */
    bool peer, files;
};

struct throughput_slot {
    int key;
    enum throughput_who who;
    int combination; /* of ours; else 0 */
};

struct throughput_turn {
    int slot;
    int round; /* from 0 */
};

struct throughput_plan {
    int n_slots, n_turns;
    struct throughput_slot *slot; /* (n_slots) by key, and in the order of the table */
    struct throughput_turn *turn; /* (n_turns) in the order of time */
};

/* The caller frees. */
MUST_CHECK enum status throughput_plan_make(const struct throughput_shape *s,
                                            struct throughput_plan *p);
void throughput_plan_free(struct throughput_plan *p); /* a zeroed one is fine */
#endif
