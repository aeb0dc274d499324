/* Draws the weights of mixup, and chooses the rows that are mixed. */
#include "engine/mixup.h"

#include "base/rng.h"

float mixup_weight(double alpha, uint64_t seed, int64_t step)
{
    struct rng r = rng_at(seed, RNG_MIXUP, (uint64_t)step, 0);
    return alpha > 0 ? (float)rng_beta(&r, alpha, alpha) : 1;
}

void mixup_pair(const int32_t *label, int rows, int32_t *partner)
{
    int32_t before = -1; /* the nearest row before row n whose label is >= 0 (the last row comes
                            before row 0); -1: no row has such a label */
    for (int32_t n = 0; n < rows; n++)
        before = label[n] >= 0 ? n : before;
    for (int32_t n = 0; n < rows; n++) {
        partner[n] = before < 0 ? n : before;
        before = label[n] >= 0 ? n : before;
    }
}
