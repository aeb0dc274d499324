/* Inside comm/: exchanges, the collectives that move parts of `count` elements between pairs of
 * ranks and combine no values: alltoall, gather, scatter, sendrecv. Each transport moves a part
 * from one rank to another in its own way; the functions here say which parts there are, and where.
 */
#pragma once

#include "comm/comm.h"

#include <string.h>

static inline bool exchange_is(enum comm_kind kind)
{
    return kind == COMM_ALLTOALL || kind == COMM_GATHER || kind == COMM_SCATTER ||
           kind == COMM_SENDRECV;
}

/* Returns whether rank `from` of `size` ranks sends a part to rank `to`. `from` and `to` may be
 * equal. */
static inline bool exchange_sends(const struct comm_op *op, int size, int from, int to)
{
    switch (op->kind) {
    case COMM_ALLTOALL:
        return true;
    case COMM_GATHER:
        return to == op->root;
    case COMM_SCATTER:
        return from == op->root;
    default:
        return to == (from + 1) % size;
    }
}

static inline size_t exchange_bytes(const struct comm_op *op)
{
    return (size_t)op->count * dtype_size(op->type);
}

/* Returns the part of `send` that this rank sends to rank `to`. */
static inline const char *exchange_sent(const struct comm_op *op, int to)
{
    bool parts = op->kind == COMM_ALLTOALL || op->kind == COMM_SCATTER;
    return (const char *)op->send + (parts ? (size_t)to * exchange_bytes(op) : 0);
}

/* Returns the part of `recv` that this rank receives from rank `from`. */
static inline char *exchange_received(const struct comm_op *op, int from)
{
    bool parts = op->kind == COMM_ALLTOALL || op->kind == COMM_GATHER;
    return (char *)op->recv + (parts ? (size_t)from * exchange_bytes(op) : 0);
}

/* Copies the part that rank `rank` sends to itself, if the operation has such a part. */
static inline void exchange_copy_own(const struct comm_op *op, int size, int rank)
{
    if (op->count == 0 || !exchange_sends(op, size, rank, rank))
        return;
    const char *from = exchange_sent(op, rank);
    char *to = exchange_received(op, rank);
    if (from != to)
        memcpy(to, from, exchange_bytes(op));
}
