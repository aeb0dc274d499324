/* What a kind of communicator provides behind comm.h, and what the kinds share.
 *
 * comm.c checks and numbers operations and keeps a slot for each that is under way; a kind carries
 * them out. Slots are taken in the order of numbers and freed by comm_wait, so that starting and
 * waiting allocate nothing. */
#ifndef COMM_INTERNAL_H
#define COMM_INTERNAL_H

#include "base/clock.h"
#include "comm/comm.h"

#include <pthread.h>

enum {
    COMM_MESSAGE_MAX = 512,
    COMM_TEXT_MAX = 64, /* of an operation in words */
};

/* An operation under way. */
struct comm_slot {
    struct comm_op op; /* a copy of the caller's; handle is its number, 0 when the slot is free */
    bool done;         /* the kind's own, under the kind's lock */
    enum status st;    /* with done */
};

struct comm_calls {
    const char *name;
    /* The operation in `slot` may be carried out from now on. */
    enum status (*start)(struct comm *c, struct comm_slot *slot);
    /* Returns when it has been, with op.ended_ns set. */
    enum status (*wait)(struct comm *c, struct comm_slot *slot);
    /* See comm_wait_on; NULL: as wait. */
    enum status (*wait_on)(struct comm *c, struct comm_slot *slot, struct stream *s);
    enum status (*reuse)(struct comm *c, void *mem, size_t bytes); /* NULL: of no use */
    enum status (*divide)(struct comm *c, int group);              /* NULL: unsupported */
    void (*fail)(struct comm *c, enum status st, const char *message);
    void (*close)(struct comm *c); /* frees the communicator */
};

/* The first member of every kind's own struct. */
struct comm {
    const struct comm_calls *calls;
    const char *name;      /* NULL: calls->name */
    struct device *device; /* see comm_device */
    int rank, size;
    int64_t started; /* operations so far; the number of the last */
    struct comm_slot slot[COMM_MAX_STARTED];
};

/* The slot of operation `number`. */
static inline struct comm_slot *comm_slot_of(struct comm *c, int64_t number)
{
    return &c->slot[number % COMM_MAX_STARTED];
}

static inline int64_t comm_now(void)
{
    return (int64_t)clock_ns();
}

/* Bytes of `op`'s send and recv on this rank; 0 where it does not look at them. */
size_t comm_send_bytes(const struct comm *c, const struct comm_op *op);
size_t comm_recv_bytes(const struct comm *c, const struct comm_op *op);

/* Carries out an operation of a group of one. */
void comm_copy_alone(const struct comm *c, const struct comm_op *op);

/* Starts a communication thread. Signals are for the caller's threads: it takes none, nor do those
 * that it starts. */
MUST_CHECK enum status comm_thread_start(pthread_t *thread, void *(*serve)(void *arg), void *arg);

/* "operation 57 (allreduce)" into out[COMM_TEXT_MAX]. */
const char *comm_op_text(const struct comm_op *op, char *out);
#endif
