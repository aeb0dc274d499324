/* Inside comm/: which parts of `count` elements alltoall, gather, scatter and sendrecv move. */
#pragma once

#include "comm/comm.h"

/* Whether rank `from` of `size` ranks sends a part to rank `to`, which may be the same rank. */
static inline bool exchange_sends(const struct comm_op *op, int size, int from, int to)
{
    if (op->kind == COMM_GATHER)
        return to == op->root;
    if (op->kind == COMM_SCATTER)
        return from == op->root;
    return op->kind != COMM_SENDRECV || to == (from + 1) % size;
}

static inline size_t exchange_bytes(const struct comm_op *op)
{
    return (size_t)op->count * dtype_size(op->type);
}

/* The part of `send` that this rank sends to rank `to`. */
static inline const char *exchange_sent(const struct comm_op *op, int to)
{
    bool parts = op->kind == COMM_ALLTOALL || op->kind == COMM_SCATTER;
    return (const char *)op->send + (parts ? (size_t)to * exchange_bytes(op) : 0);
}

/* The part of `recv` that this rank receives from rank `from`. */
static inline char *exchange_received(const struct comm_op *op, int from)
{
    bool whole = op->kind == COMM_SCATTER || op->kind == COMM_SENDRECV;
    return (char *)op->recv + (whole ? 0 : (size_t)from * exchange_bytes(op));
}
