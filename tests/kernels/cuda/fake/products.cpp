/* Sums of products. */
#include "products.h"

#include <cmath>
#include <string.h>

namespace
{

enum { BLOCK_MAX = 16, SM_AMPERE = 80, SM_HOPPER = 90 };

uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Returns the exponent of x. Subnormal numbers of the operand's type have the exponent `lowest`. */
int exponent_of(float x, int lowest)
{
    int e = (int)(bits_of(x) >> 23 & 0xff) - 127;
    return e < lowest ? lowest : e;
}

double power_of_two(int e)
{
    uint64_t u = (uint64_t)(1023 + e) << 52;
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Rounded towards zero. */
float cut_off(double x)
{
    float f = (float)x;
    return std::fabs((double)f) > std::fabs(x) ? std::nextafterf(f, 0) : f;
}

/* Computes sum + a[0] * b[0] + ... of one block. */
float add_block(int n, int fraction, int lowest, const float *a, const float *b, float sum)
{
    double product[BLOCK_MAX], exact = (double)sum;
    int largest = exponent_of(sum, -126);
    for (int i = 0; i < n; i++) {
        product[i] = (double)a[i] * (double)b[i];
        exact += product[i];
        int e = exponent_of(a[i], lowest) + exponent_of(b[i], lowest);
        largest = product[i] != 0 && e > largest ? e : largest;
    }
    if (!std::isfinite(exact))
        return (float)exact;
    double scale = power_of_two(fraction - largest);
    int64_t fixed = (int64_t)((double)sum * scale);
    for (int i = 0; i < n; i++)
        fixed += (int64_t)(product[i] * scale);
    return cut_off((double)fixed * power_of_two(largest - fraction));
}

float on_tensor_cores(const product_unit *u, int64_t n, const float *a, const float *b)
{
    int block = (u->sm >= SM_HOPPER ? 16 : 8) / (u->operand == DTYPE_TF32 ? 2 : 1);
    int fraction = u->sm >= SM_HOPPER ? 25 : 24, lowest = u->operand == DTYPE_F16 ? -14 : -126;
    float sum = 0;
    for (int64_t i = 0; i < n; i += block)
        sum = add_block((int)(n - i < block ? n - i : block), fraction, lowest, a + i, b + i, sum);
    return sum;
}

float in_order(int64_t n, const float *a, const float *b)
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

} // namespace

/* A value of fp16 or bf16 was rounded when it was stored. Tensor cores truncate an fp32 value to
 * TF32 when they load it. */
void product_operands(const product_unit *u, int64_t n, float *v)
{
    for (int64_t i = 0; i < n; i++) {
        if (u->operand == DTYPE_TF32) {
            uint32_t cut = bits_of(v[i]) & ~0x1fffu;
            bool nan = std::isnan(v[i]);
            if (!nan)
                memcpy(&v[i], &cut, sizeof cut);
        } else {
            v[i] = dtype_round(u->operand, v[i]);
        }
    }
}

float product_sum(const product_unit *u, int64_t n, const float *a, const float *b)
{
    float sum = 0;
    for (int64_t i = 0; i < u->splits; i++) {
        int64_t s = u->backwards ? u->splits - 1 - i : i;
        int64_t from = n * s / u->splits, to = n * (s + 1) / u->splits;
        float part = u->tensor_cores ? on_tensor_cores(u, to - from, a + from, b + from)
                                     : in_order(to - from, a + from, b + from);
        sum += dtype_round(u->partial, part);
    }
    return sum;
}
