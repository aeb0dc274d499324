/* A group of one: every operation is a copy, made when it is started. */
#include "comm/internal.h"

#include <stdlib.h>

static enum status solo_start(struct comm *c, struct comm_slot *slot)
{
    comm_copy_alone(c, &slot->op);
    slot->op.ended_ns = comm_now();
    return STATUS_OK;
}

static enum status solo_wait(struct comm *c, struct comm_slot *slot)
{
    (void)c, (void)slot;
    return STATUS_OK;
}

static void solo_fail(struct comm *c, enum status st, const char *message)
{
    (void)c, (void)st, (void)message; /* nobody to tell */
}

static void solo_close(struct comm *c)
{
    free(c);
}

enum status comm_open_solo(struct comm **c)
{
    static const struct comm_calls calls = {
        .name = "solo",
        .start = solo_start,
        .wait = solo_wait,
        .fail = solo_fail,
        .close = solo_close,
    };
    *c = calloc(1, sizeof **c);
    if (!*c)
        return status_fail(STATUS_OOM, "out of memory");
    (*c)->calls = &calls;
    (*c)->size = 1;
    return STATUS_OK;
}
