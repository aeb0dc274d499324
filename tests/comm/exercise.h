/* Compares operations of every kind, type and size with a plain computation, on any communicator.
 * Every rank calls the same functions in the same order. Each function prints wrong results and
 * returns their number. */
#pragma once

#include "comm/comm.h"

/* Runs every kind, type and reduction at small counts, and every kind at counts around the internal
 * limits, up to `largest`. send and recv are different buffers, then (where allowed) the same
 * buffer. Values are small whole numbers, so that sums are exact in any order. */
int exercise_kinds(struct comm *c, int64_t largest);

/* Sums arbitrary values, among them NaNs and infinities, of 1 byte to `max_bytes`. Every rank must
 * have the same bits, and a repeated sum must have them again. */
int exercise_same_bits(struct comm *c, int64_t max_bytes);

/* Sums values on device communicators that halve each value before they add it. */
int exercise_factor(struct comm *c);

/* Starts many operations at once. Each rank waits for them in an order that differs from the order
 * of starts. Each of the `rounds` rounds has other values. */
int exercise_under_way(struct comm *c, int rounds);
