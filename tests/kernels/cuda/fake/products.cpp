/* Sums of products. */
#include "products.h"

#include <cmath>
#include <string.h>

namespace
{

enum { LANES = PRODUCT_LANES, SM_HOPPER = 90 };

/* Exponents of zero, and of infinity and NaN. A sum of two exponents shows whether one of them is
 * among these. */
const float OF_ZERO = -4000, OF_INFINITY = 16000;

/* One number of each of LANES sums. */
typedef float floats __attribute__((vector_size(LANES * 4)));
typedef int32_t ints __attribute__((vector_size(LANES * 4)));
typedef double doubles __attribute__((vector_size(LANES * 8)));
typedef uint64_t longs __attribute__((vector_size(LANES * 8)));

template <typename T> T load(const void *mem)
{
    T v;
    memcpy(&v, mem, sizeof v);
    return v;
}

float exponent_of(float x, int lowest)
{
    int e = (int)(load<uint32_t>(&x) >> 23 & 0xff) - 127;
    return x == 0 ? OF_ZERO : e == 128 ? OF_INFINITY : (float)(e < lowest ? lowest : e);
}

/* The operands of LANES sums: a[0], a[1] ..., and b[l], b[LANES + l] ... of sum l. */
struct terms {
    int fraction; /* number of bits that are kept */
    const double *a, *b;
    const float *a_exponent, *b_exponent;

    terms after(int64_t n) const
    {
        return {fraction, a + n, b + n * LANES, a_exponent + n, b_exponent + n * LANES};
    }
};

/* Adds one block of n terms to sum l. */
float add_slowly(const terms &t, int n, int l, float sum)
{
    double exact = (double)sum;
    float largest = OF_ZERO;
    for (int i = 0; i < n; i++) {
        float e = t.a_exponent[i] + t.b_exponent[i * LANES + l];
        largest = e > largest ? e : largest;
        exact += t.a[i] * t.b[i * LANES + l];
    }
    if (largest == OF_ZERO)
        return sum;
    if (!std::isfinite(exact))
        return (float)exact;
    largest = std::fmax(largest, sum == 0 ? -126 : exponent_of(sum, -126));
    double scale = std::ldexp(1, t.fraction - (int)largest);
    int64_t fixed = (int64_t)((double)sum * scale);
    for (int i = 0; i < n; i++)
        fixed += (int64_t)(t.a[i] * t.b[i * LANES + l] * scale);
    double x = (double)fixed / scale;
    float f = (float)x;
    return std::fabs((double)f) > std::fabs(x) ? std::nextafterf(f, 0) : f;
}

inline doubles power_of_two(ints e)
{
    return __builtin_convertvector((floats)((e + 127) << 23), doubles);
}

inline bool any_of(ints mask)
{
    return mask[0] | mask[1] | mask[2] | mask[3];
}

/* Adds one block of N terms to each sum. */
template <int N> inline floats add_block(const terms &t, floats sum)
{
    ints e = ((ints)sum >> 23 & 0xff) - 127;
    floats largest = __builtin_convertvector(e, floats);
    for (int i = 0; i < N; i++) {
        floats term = t.a_exponent[i] + load<floats>(t.b_exponent + i * LANES);
        largest = term > largest ? term : largest;
    }
    ints top = __builtin_convertvector(largest, ints);
    if (any_of((top - t.fraction < -126) | (top > 120))) { /* all zeros, very small, or very large */
        for (int l = 0; l < LANES; l++)
            sum[l] = add_slowly(t, N, l, sum[l]);
        return sum;
    }
    doubles scale = power_of_two(t.fraction - top), fixed = {};
    ints part = __builtin_convertvector(__builtin_convertvector(sum, doubles) * scale, ints);
    for (int i = 0; i < N; i++) {
        part += __builtin_convertvector(t.a[i] * load<doubles>(t.b + i * LANES) * scale, ints);
        if (i % 8 == 7 || i == N - 1) { /* more terms could exceed 32 bits */
            fixed += __builtin_convertvector(part, doubles);
            part = ints{};
        }
    }
    longs cut = (longs)(fixed * power_of_two(top - t.fraction)) & ~(longs{} + 0x1fffffff);
    return __builtin_convertvector((doubles)cut, floats);
}

template <int N> inline floats on_tensor_cores(terms t, int64_t n)
{
    floats sum = {};
    for (; n >= N; n -= N, t = t.after(N))
        sum = add_block<N>(t, sum);
    for (int l = 0; n > 0 && l < LANES; l++)
        sum[l] = add_slowly(t, (int)n, l, sum[l]);
    return sum;
}

inline floats in_order(const terms &t, int64_t n)
{
    doubles even = {}, odd = {};
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) {
        even += t.a[i] * load<doubles>(t.b + i * LANES);
        odd += t.a[i + 1] * load<doubles>(t.b + (i + 1) * LANES);
    }
    if (i < n)
        even += t.a[i] * load<doubles>(t.b + i * LANES);
    return __builtin_convertvector(even + odd, floats);
}

inline floats part_of(const product_unit &u, const terms &t, int64_t n)
{
    if (!u.tensor_cores)
        return in_order(t, n);
    int block = (u.sm >= SM_HOPPER ? 16 : 8) / (u.operand == DTYPE_TF32 ? 2 : 1);
    return block == 16  ? on_tensor_cores<16>(t, n)
           : block == 8 ? on_tensor_cores<8>(t, n)
                        : on_tensor_cores<4>(t, n);
}

} // namespace

/* A value of fp16 or bf16 was rounded when it was stored. Tensor cores truncate an fp32 value to
 * TF32 when they load it. */
void product_operands(const product_unit *u, int64_t n, float *v)
{
    for (int64_t i = 0; i < n; i++) {
        if (u->operand == DTYPE_TF32) {
            uint32_t cut = load<uint32_t>(&v[i]) & ~0x1fffu;
            bool nan = std::isnan(v[i]);
            if (!nan)
                memcpy(&v[i], &cut, sizeof cut);
        } else {
            v[i] = dtype_round(u->operand, v[i]);
        }
    }
}

product_numbers::product_numbers(const product_unit &u, int64_t n, const float *v)
    : value((size_t)n), exponent((size_t)n)
{
    int lowest = u.operand == DTYPE_F16 ? -14 : -126;
    for (size_t i = 0; i < value.size(); i++) {
        value[i] = (double)v[i];
        exponent[i] = exponent_of(v[i], lowest);
    }
}

product_rows::product_rows(int64_t length, int64_t count, const product_numbers &all, int64_t first)
    : length(length), count(count)
{
    size_t blocks = (size_t)((count + LANES - 1) / LANES);
    value.resize(blocks * LANES * (size_t)length);
    exponent.resize(value.size(), OF_ZERO);
    for (int64_t j = 0; j < count; j++) {
        size_t to = (size_t)(j / LANES * LANES * length + j % LANES);
        for (size_t from = (size_t)((first + j) * length); from < (size_t)((first + j + 1) * length);
             from++, to += LANES) {
            value[to] = all.value[from];
            exponent[to] = all.exponent[from];
        }
    }
}

__attribute__((target_clones("avx2", "default"), flatten)) void
product_sums(const product_unit &u, const product_numbers &single, const product_rows &many,
             float *sums)
{
    int fraction = u.sm >= SM_HOPPER ? 25 : 24;
    int64_t n = many.length;
    for (int64_t j = 0; j < many.count; j += LANES) {
        terms all = {fraction, single.value.data(), &many.value[(size_t)(j * n)],
                     single.exponent.data(), &many.exponent[(size_t)(j * n)]};
        floats sum = {};
        for (int64_t i = 0; i < u.splits; i++) {
            int64_t s = u.backwards ? u.splits - 1 - i : i;
            int64_t from = n * s / u.splits, to = n * (s + 1) / u.splits;
            floats part = part_of(u, all.after(from), to - from);
            for (int l = 0; l < LANES; l++)
                sum[l] += dtype_round(u.partial, part[l]);
        }
        int64_t rest = many.count - j;
        memcpy(sums + j, &sum, (size_t)(rest < LANES ? rest : (int64_t)LANES) * sizeof *sums);
    }
}

float product_sum(const product_unit *u, int64_t n, const float *a, const float *b)
{
    float sum;
    product_sums(*u, {*u, n, a}, {n, 1, {*u, n, b}, 0}, &sum);
    return sum;
}
