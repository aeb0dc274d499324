/* Compares the results of communication operations of every kind, type and size with a plain
 * computation, on any communicator. Every rank calls the same functions in the same order. Each
 * function prints wrong results and returns their number. */
#pragma once

#include "comm/comm.h"

/* Executes every kind that the transport carries out, with every type and reduction, and with
 * element counts around the internal limits, up to `largest`. `send` and `recv` are first different
 * buffers, then the same where that is allowed. Values are small whole numbers: sums are exact. */
int exercise_kinds(struct comm *c, int64_t largest);

/* Sums arbitrary values, including NaNs and infinities, in buffers of 8 bytes to `max_bytes`. The
 * sum must have the same bits on every rank, and the same bits if it is repeated. */
int exercise_same_bits(struct comm *c, int64_t max_bytes);

/* On a device communicator, sums values that overflow fp16 unless each is first multiplied by the
 * operation's factor, 0.5. Does nothing on host communicators, which have no factor. */
int exercise_factor(struct comm *c);

/* Starts many operations before it waits for any. Each rank waits for them in a different order.
 * Each of the `rounds` rounds uses other values. */
int exercise_under_way(struct comm *c, int rounds);
