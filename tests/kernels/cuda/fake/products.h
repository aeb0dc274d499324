/* Sums of products, as the units of a GPU compute them.
 *
 * Tensor cores add a block of exact products and the sum so far in one operation. All terms are
 * aligned to the largest exponent among them (a product's is the sum of its factors' exponents),
 * truncated towards zero after a number of bits, and added exactly. The result is truncated towards
 * zero to fp32. Blocks and bits are from models that agree with the hardware in every bit:
 *
 *     sm_75           8 products of fp16, 24 bits
 *     sm_80, sm_89    8 of fp16 or bf16, 4 of TF32, 24 bits
 *     sm_90           16 of fp16 or bf16, 8 of TF32, 25 bits
 *
 * Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv:2512.07004; Xie et al.,
 * "MMA-Sim", arXiv:2511.10909 (operands are truncated to TF32); Fasi, Higham, Mikaitis and Pranesh,
 * "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021.
 *
 * Other units add products in fp32: the fake adds them in double and rounds the sum once. */
#pragma once

#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct product_unit {
    bool tensor_cores;
    int sm;             /* of the device: 90 */
    enum dtype operand; /* type of the operands after product_operands(): F16, BF16, TF32 or F32 */
    enum dtype partial; /* type of the stored partial sums: F32, or the result's type */
    int64_t splits;     /* number of partial sums, which are added in fp32 */
    bool backwards;     /* adds the partial sums from the last to the first */
};

/* Rounds values to the operands' type, in place. */
void product_operands(const struct product_unit *u, int64_t n, float *v);

/* Computes the sum of a[i] * b[i], in fp32. */
float product_sum(const struct product_unit *u, int64_t n, const float *a, const float *b);

#ifdef __cplusplus
}

#include <vector>

/* Numbers with their exponents. */
struct product_numbers {
    std::vector<double> value;
    std::vector<float> exponent;

    /* The numbers of `v` are those that product_operands() returned. */
    product_numbers(const product_unit &u, int64_t n, const float *v);

    /* Copies n numbers of `from`, from number `at` on, to number `to` and those after it. */
    void copy(int64_t to, const product_numbers &from, int64_t at, int64_t n)
    {
        for (int64_t i = 0; i < n; i++) {
            value[(size_t)(to + i)] = from.value[(size_t)(at + i)];
            exponent[(size_t)(to + i)] = from.exponent[(size_t)(at + i)];
        }
    }
};

/* Rows of numbers, all of one length. Numbers with the same index in four rows are neighbours in
 * memory, so that four sums are computed together. */
enum { PRODUCT_LANES = 4 };
struct product_rows {
    int64_t length, count;
    std::vector<double> value;
    std::vector<float> exponent;

    /* Copies `count` rows of `all`, from row `first` on. */
    product_rows(int64_t length, int64_t count, const product_numbers &all, int64_t first);
};

/* Computes the sums of products of a single row and each of many rows. The number of sums is
 * many.count. */
void product_sums(const product_unit &u, const product_numbers &single, const product_rows &many,
                  float *sums);
#endif
