/* Threads of several processes as one group: the threads of a process add up among themselves, the
 * first of each adds up with those of the other processes, and hands the sum to its own. */
#include "comm/internal.h"

#include <stdlib.h>

struct joint {
    struct comm base;
    struct comm *within;  /* this process's threads */
    struct comm *between; /* processes; used by the first thread alone */
};

static enum status joint_start(struct comm *c, struct comm_slot *slot)
{
    (void)c;
    enum comm_kind kind = slot->op.kind;
    if (kind == COMM_ALLREDUCE || kind == COMM_BARRIER)
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED, "threads of several processes have no %s",
                       comm_kind_str(kind));
}

/* Carries out `kind` in its place with the data of `whole`. */
static enum status part(struct comm *c, const struct comm_op *whole, enum comm_kind kind)
{
    struct comm_op op = *whole;
    op.handle = 0;
    op.root = 0;
    op.kind = whole->kind == COMM_BARRIER ? COMM_BARRIER : kind;
    return comm_run(c, &op);
}

static enum status joint_wait(struct comm *c, struct comm_slot *slot)
{
    struct joint *j = (struct joint *)c;
    struct comm_op sum = slot->op;
    TRY(part(j->within, &sum, COMM_REDUCE));
    sum.send = sum.recv;
    if (comm_rank(j->within) == 0)
        TRY(part(j->between, &sum, COMM_ALLREDUCE));
    TRY(part(j->within, &sum, COMM_BROADCAST));
    slot->op.ended_ns = comm_now();
    return STATUS_OK;
}

static void joint_fail(struct comm *c, enum status st, const char *message)
{
    comm_fail(((struct joint *)c)->within, st, message);
}

static void joint_close(struct comm *c)
{
    free(c);
}

enum status comm_open_joint(struct comm *within, struct comm *between, struct comm **c)
{
    static const struct comm_calls calls = {
        .name = "joint",
        .start = joint_start,
        .wait = joint_wait,
        .fail = joint_fail,
        .close = joint_close,
    };
    *c = NULL;
    struct joint *j = calloc(1, sizeof *j);
    if (!j)
        return status_fail(STATUS_OOM, "no memory for a communicator");
    j->base.calls = &calls;
    j->base.rank = comm_rank(between) * comm_size(within) + comm_rank(within);
    j->base.size = comm_size(between) * comm_size(within);
    j->within = within;
    j->between = between;
    *c = &j->base;
    return STATUS_OK;
}
