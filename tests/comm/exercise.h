/* Operations of every kind, type and size against a plain computation, on any communicator.
 *
 * Every rank calls the same functions in the same order. Each prints what is wrong and returns how
 * many results were. */
#pragma once

#include "comm/comm.h"

/* Every kind, type and reduction at small counts, every kind at counts around the sizes at which
 * something changes inside, up to `largest`; with send apart from recv and, where allowed, the
 * same. Small whole numbers, so that sums are exact in any order. */
int exercise_kinds(struct comm *c, int64_t largest);

/* Sums of arbitrary values, NaNs and infinities among them, of 1 byte to `max_bytes`: the same bits
 * on every rank, and again when repeated. */
int exercise_same_bits(struct comm *c, int64_t max_bytes);

/* Sums of values that are halved as they are taken up, on device communicators. */
int exercise_factor(struct comm *c);

/* Many operations under way at once, waited for in another order than started; other values in each
 * of `rounds`. */
int exercise_under_way(struct comm *c, int rounds);
