/* Joins the threads of several processes to one group. A sum has three steps: each process reduces
 * the values of its threads to its first thread, the first threads of all processes add these
 * results, and each first thread broadcasts the sum within its process. */
#include "comm/internal.h"

#include <stdlib.h>

struct joint {
    struct comm base;
    struct comm *within;  /* this process's threads */
    struct comm *between; /* connects the processes; only the first thread uses it */
};

/* Carries out one step of the operation `whole` on `c`: a barrier if `whole` is a barrier, else an
 * operation of kind `kind`. */
static enum status run_part(struct comm *c, const struct comm_op *whole, enum comm_kind kind)
{
    struct comm_op op = *whole;
    op.handle = 0;
    op.root = 0;
    op.kind = whole->kind == COMM_BARRIER ? COMM_BARRIER : kind;
    return comm_run(c, &op);
}

static enum status joint_run(struct comm *c, const struct comm_op *op)
{
    struct joint *j = (struct joint *)c;
    struct comm_op sum = *op;
    if (op->kind != COMM_ALLREDUCE && op->kind != COMM_BARRIER)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s: not available when threads of several processes are the ranks",
                           comm_kind_str(op->kind));
    if (sum.reduction == COMM_AVG) /* comm_wait divides the sum */
        sum.reduction = COMM_SUM;
    TRY(run_part(j->within, &sum, COMM_REDUCE));
    sum.send = sum.recv;
    if (comm_rank(j->within) == 0)
        TRY(run_part(j->between, &sum, COMM_ALLREDUCE));
    return run_part(j->within, &sum, COMM_BROADCAST);
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
        .run = joint_run,
        .fail = joint_fail,
        .close = joint_close,
    };
    struct joint *j;
    *c = NULL;
    TRY(array_new(&j, 1));
    j->base.calls = &calls;
    j->base.rank = comm_rank(between) * comm_size(within) + comm_rank(within);
    j->base.size = comm_size(between) * comm_size(within);
    j->within = within;
    j->between = between;
    *c = &j->base;
    return STATUS_OK;
}
