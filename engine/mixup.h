/* Mixup: each row of a training batch becomes the weighted mean of two images of the batch, and the
 * row's label becomes the weighted mean of the two labels.
 *
 * Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018. A
 * step draws one weight m from Beta(alpha, alpha). Row n becomes m * image n + (1-m) * image p(n).
 * Row p(n) is the row before row n, as `batch.roll(1, 0)` in torchvision's RandomMixup. The loss of
 * row n is computed with the weighted labels of both images (OP_SOFTMAX_XENT). Each device pairs
 * the rows of its own part of a batch. All devices, ranks and micro-batches of a step have the same
 * weight. */
#pragma once

#include <stdint.h>

/* The weight of step `step`, from 0 to 1; 1 (no mixing) if alpha is 0. A pure function, so that a
 * resumed run and all ranks have the same weight. */
float mixup_weight(double alpha, uint64_t seed, int64_t step);

/* Writes to partner[n] the row that is mixed into row n: the row before row n, or the last row for
 * row 0. Skips rows with a negative label, which are bad images. If no other row has a label, a row
 * is its own partner. */
void mixup_pair(const int32_t *label, int rows, int32_t *partner);
