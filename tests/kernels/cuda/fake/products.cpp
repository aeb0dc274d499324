/* Sums of products. */
#include "products.h"

static float part(const struct product_unit *, int64_t n, const float *a, const float *b)
{
    double sum[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            sum[l] += (double)a[i + l] * (double)b[i + l];
    for (; i < n; i++)
        sum[0] += (double)a[i] * (double)b[i];
    return (float)(sum[0] + sum[1] + sum[2] + sum[3]);
}

float product_sum(const struct product_unit *u, int64_t n, const float *a, const float *b)
{
    float sum = 0;
    for (int64_t i = 0; i < u->splits; i++) {
        int64_t s = u->backwards ? u->splits - 1 - i : i;
        int64_t from = n * s / u->splits, to = n * (s + 1) / u->splits;
        sum += dtype_round(u->partial, part(u, to - from, a + from, b + from));
    }
    return sum;
}
