/* Operations of every kind, type and size, compared with a plain computation, on any communicator.
 * Every rank calls the same functions in the same order. Each function prints wrong results and
 * returns their number. */
#pragma once

#include "comm/comm.h"

/* Every kind, type and reduction at small counts, and every kind at counts around the internal
 * limits, up to `largest`; with send apart from recv and, where allowed, equal to it. The values
 * are small whole numbers, so that sums are exact in any order. */
int exercise_kinds(struct comm *c, int64_t largest);

/* Sums of arbitrary values, with NaNs and infinities, of 1 byte to `max_bytes`. Every rank must
 * have the same bits, and a repeated sum must have them again. */
int exercise_same_bits(struct comm *c, int64_t max_bytes);

/* Sums of values that the communicator halves before it adds them, on device communicators. */
int exercise_factor(struct comm *c);

/* Many operations in progress at once; the ranks wait for them in another order than they started
 * them. Each of `rounds` has other values. */
int exercise_under_way(struct comm *c, int rounds);
