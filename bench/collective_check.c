/* Computes the input values of collectives for checks, and the expected results. */
#include "bench/collective.h"

#include <math.h>
#include <string.h>

/* bfloat16 has eight significant bits, so whole numbers up to SUM_MAX are exact in every type. */
enum { SUM_MAX = 255, VALUE_MAX = 127 };

/* Returns a hash of index, rank and round, so that the check detects misplaced elements and
 * elements of an earlier round. */
static uint32_t mixed(int64_t i, int rank, int round)
{
    uint32_t x =
        (uint32_t)i * 2654435761u + (uint32_t)rank * 2246822519u + (uint32_t)round * 40503u;
    x ^= x >> 15;
    x *= 2246822507u;
    return x ^ x >> 13;
}

double collective_value(int64_t i, int rank, int ranks, int round)
{
    int most = SUM_MAX / ranks;
    if (most > VALUE_MAX)
        most = VALUE_MAX;
    if (most < 1) /* with 256 ranks, the value is 0 on rank 0 and 1 on the other ranks, so that the
                   * sum is 255 */
        return rank > 0;
    return mixed(i, rank, round) % (uint32_t)(most + 1);
}

void collective_fill(enum dtype type, void *mem, int64_t n, int rank, int ranks, int round)
{
    for (int64_t i = 0; i < n; i++)
        dtype_store(type, mem, i, collective_value(i, rank, ranks, round));
}

/* With all bits set, an element is NaN, -1 or 255, depending on its type. */
void collective_poison(enum dtype type, void *mem, int64_t n)
{
    memset(mem, 0xff, (size_t)n * dtype_size(type));
}

static double combined(enum comm_reduction reduction, int64_t i, int ranks, int round)
{
    double result = collective_value(i, 0, ranks, round);
    for (int rank = 1; rank < ranks; rank++) {
        double x = collective_value(i, rank, ranks, round);
        if (reduction == COMM_SUM || reduction == COMM_AVG)
            result += x;
        else if (reduction == COMM_MAX ? x > result : x < result)
            result = x;
    }
    return reduction == COMM_AVG ? result / ranks : result;
}

/* Returns the expected value of element i in the result of `rank`. */
static double expected(const struct collective_config *c, int64_t i, int64_t count, int rank,
                       int ranks, int round)
{
    switch (c->kind) {
    case COMM_BROADCAST:
        return collective_value(i, c->root, ranks, round);
    case COMM_ALLGATHER:
    case COMM_GATHER:
        return collective_value(i % count, (int)(i / count), ranks, round);
    case COMM_ALLTOALL:
        return collective_value(rank * count + i % count, (int)(i / count), ranks, round);
    case COMM_SCATTER:
        return collective_value(rank * count + i, c->root, ranks, round);
    case COMM_SENDRECV:
        return collective_value(i, (rank + ranks - 1) % ranks, ranks, round);
    case COMM_REDUCE_SCATTER:
        return combined(c->reduction, rank * count + i, ranks, round);
    default:
        return combined(c->reduction, i, ranks, round);
    }
}

int64_t collective_result_count(const struct collective_config *c, int64_t count, int rank,
                                int ranks)
{
    bool to_root = c->kind == COMM_REDUCE || c->kind == COMM_GATHER;
    bool parts = c->kind == COMM_ALLGATHER || c->kind == COMM_ALLTOALL || c->kind == COMM_GATHER;
    return to_root && rank != c->root ? 0 : parts ? count * ranks : count;
}

/* Returns the largest allowed error of an average, relative to the average. NCCL multiplies each
 * value by 1/ranks before it adds. The factor, each product and each sum are then rounded by at
 * most half a unit in the last place. All other results are exact. */
static double tolerance(const struct collective_config *c, int ranks)
{
    double unit = c->type == DTYPE_BF16  ? 0x1p-8
                  : c->type == DTYPE_F16 ? 0x1p-11
                  : c->type == DTYPE_F32 ? 0x1p-24
                                         : 0x1p-53;
    bool rounds = c->reduction == COMM_AVG && comm_reduces(c->kind) && c->type != DTYPE_I32;
    return rounds ? 1.01 * (ranks + 1) * unit : 0;
}

int64_t collective_wrong(const struct collective_config *c, const void *mem, int64_t count,
                         int rank, int ranks, int round)
{
    int64_t wrong = 0, n = collective_result_count(c, count, rank, ranks);
    double most = tolerance(c, ranks);
    for (int64_t i = 0; i < n; i++) {
        double want = expected(c, i, count, rank, ranks, round);
        if (c->type == DTYPE_I32)
            want = trunc(want);
        wrong += !(fabs(dtype_load(c->type, mem, i) - want) <= most * want);
    }
    return wrong;
}
