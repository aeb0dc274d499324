/* The values that collectives are tried with, and what has to come of them. */
#include "bench/collective.h"

#include "base/half.h"

#include <string.h>

/* bfloat16 has eight bits: sums of whole numbers up to this are exact in every type. */
enum { SUM_MAX = 255, VALUE_MAX = 127 };

/* Every place, rank and round has its own number, so that what is out of place or old is seen. */
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
    if (most < 1) /* 256 ranks: one of them has nothing to add */
        return rank > 0;
    return mixed(i, rank, round) % (uint32_t)(most + 1);
}

static void put(enum dtype type, void *mem, int64_t i, double value)
{
    switch (type) {
    case DTYPE_F32:
        ((float *)mem)[i] = (float)value;
        break;
    case DTYPE_F64:
        ((double *)mem)[i] = value;
        break;
    case DTYPE_F16:
        ((uint16_t *)mem)[i] = f16_from_float((float)value);
        break;
    case DTYPE_BF16:
        ((uint16_t *)mem)[i] = bf16_from_float((float)value);
        break;
    case DTYPE_I32:
        ((int32_t *)mem)[i] = (int32_t)value;
        break;
    default:
        ((uint8_t *)mem)[i] = (uint8_t)value;
    }
}

static double get(enum dtype type, const void *mem, int64_t i)
{
    switch (type) {
    case DTYPE_F32:
        return (double)((const float *)mem)[i];
    case DTYPE_F64:
        return ((const double *)mem)[i];
    case DTYPE_F16:
        return (double)f16_to_float(((const uint16_t *)mem)[i]);
    case DTYPE_BF16:
        return (double)bf16_to_float(((const uint16_t *)mem)[i]);
    case DTYPE_I32:
        return ((const int32_t *)mem)[i];
    default:
        return ((const uint8_t *)mem)[i];
    }
}

void collective_fill(enum dtype type, void *mem, int64_t n, int rank, int ranks, int round)
{
    for (int64_t i = 0; i < n; i++)
        put(type, mem, i, collective_value(i, rank, ranks, round));
}

/* All bits set: not a number, -1, or 255. */
void collective_poison(enum dtype type, void *mem, int64_t n)
{
    memset(mem, 0xff, (size_t)n * dtype_size(type));
}

static double combined(enum comm_reduction reduction, int64_t i, int ranks, int round)
{
    double result = collective_value(i, 0, ranks, round);
    for (int rank = 1; rank < ranks; rank++) {
        double x = collective_value(i, rank, ranks, round);
        if (reduction == COMM_SUM)
            result += x;
        else if (reduction == COMM_MAX ? x > result : x < result)
            result = x;
    }
    return result;
}

/* Element i of rank's result. */
static double expected(const struct collective_config *c, int64_t i, int64_t count, int rank,
                       int ranks, int round)
{
    switch (c->kind) {
    case COMM_BROADCAST:
        return collective_value(i, 0, ranks, round);
    case COMM_ALLGATHER:
        return collective_value(i % count, (int)(i / count), ranks, round);
    case COMM_REDUCE_SCATTER:
        return combined(c->reduction, rank * count + i, ranks, round);
    default:
        return combined(c->reduction, i, ranks, round);
    }
}

int64_t collective_wrong(const struct collective_config *c, const void *mem, int64_t count,
                         int rank, int ranks, int round)
{
    int64_t wrong = 0, n = c->kind == COMM_ALLGATHER ? count * ranks : count;
    if (c->kind == COMM_REDUCE && rank != 0)
        return 0;
    for (int64_t i = 0; i < n; i++)
        wrong += !(get(c->type, mem, i) == expected(c, i, count, rank, ranks, round));
    return wrong;
}
