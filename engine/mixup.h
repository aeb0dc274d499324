/* Mixup: a training batch consists of weighted means of two of its images, and of their labels.
 *
 * Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018. A
 * step draws one weight m from Beta(alpha, alpha). Row n becomes m * image n + (1-m) * image p(n),
 * with p(n) as `batch.roll(1, 0)` of torchvision's RandomMixup gives it, and the loss of row n is
 * computed with the weighted labels of both images (OP_SOFTMAX_XENT). Each device pairs the rows of
 * its own part of a batch. All devices, ranks and micro-batches of a step have the same weight. */
#pragma once

#include <stdint.h>

/* The weight of step `step`: a pure function, so that a resumed run and all ranks have the same
 * weight. It is in [0, 1]. If alpha is 0, it is 1, which means no mixing. */
float mixup_weight(double alpha, uint64_t seed, int64_t step);

/* Writes the row that is mixed into each of `rows` rows: the previous row, and for the first row
 * the last one. Rows with a negative label, which are bad images, are skipped; a row that is alone
 * is its own partner. */
void mixup_pair(const int32_t *label, int rows, int32_t *partner);
