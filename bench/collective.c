/* Sizes and bandwidths of collectives, as nccl-tests defines them. */
#include "bench/collective.h"

struct collective_config collective_config_default(void)
{
    return (struct collective_config){
        .kind = COMM_ALLREDUCE,
        .reduction = COMM_SUM,
        .type = DTYPE_F32,
        .first = 1 << 10,
        .last = 64 << 20,
        .factor = 2,
        .checks = 1,
        .aggregated = 1,
        .options = {.timing = {.warmup = 5, .most = 20, .within = 0.02, .seconds = 2},
                    .out = stdout},
    };
}

bool collective_has_parts(enum comm_kind kind)
{
    return kind == COMM_ALLGATHER || kind == COMM_REDUCE_SCATTER || kind == COMM_ALLTOALL ||
           kind == COMM_GATHER || kind == COMM_SCATTER;
}

int64_t collective_count(enum comm_kind kind, enum dtype type, int64_t bytes, int ranks)
{
    int64_t element = (int64_t)dtype_size(type), count = bytes / element;
    if (!collective_has_parts(kind))
        return count;
    int64_t line = 16 / element;
    return count / ranks / line * line;
}

void collective_bandwidth(enum comm_kind kind, int ranks, int64_t bytes, struct collective_time *t)
{
    double others = (double)(ranks - 1) / ranks;
    double factor = kind == COMM_ALLREDUCE ? 2 * others : collective_has_parts(kind) ? others : 1;
    t->algbw = t->time.median > 0 ? (double)bytes * 1e-9 / t->time.median : 0;
    t->busbw = ranks > 1 ? factor * t->algbw : 0;
}
