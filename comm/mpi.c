/* The communicator between the processes of an MPI job: every operation is MPI's own collective.
 *
 * comm_run makes MPI's blocking call on the calling thread, and takes the time that MPI takes. A
 * thread (queue.c) carries out operations that are started and waited for later: long sums and
 * broadcasts in pieces, since Open MPI 4's algorithms for long messages are slower than the sum of
 * their pieces. Between polls it rests, to leave the cores to computation. */
#include "base/file.h"
#include "base/launcher.h"
#include "comm/control.h"
#include "comm/internal.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 4 << 20, /* of a message that the thread moves */
    PIECES = 2,            /* in progress at a time */
    PART_MAX = 1 << 30,    /* elements of one call; MPI counts them with int */
    /* Numbers of polls in a row: without a pause; with a yield between them. */
    POLLS_AT_ONCE = 8,
    POLLS_COMPUTING = 32,
    POLLS_WAITING = 5000,
    SLEEP_FIRST_NS = 1000, /* then each sleep is twice as long as the one before, up to ... */
    SLEEP_LONGEST_NS = 50000,
};

struct mpi {
    struct comm_queue queue;
    struct comm_mpi_config config;
    MPI_Comm data;  /* of the rank's group */
    MPI_Comm whole; /* of all ranks of the job */
    int rank, size; /* in the job; `base` has rank and size in the group */
    int *peer;      /* (size) the control connections */
    struct health *health;
    MPI_Op f16[COMM_AVG], bf16[COMM_AVG]; /* MPI has no 16-bit floating types */
};

bool comm_under_mpi(void)
{
    return launcher_is_mpi();
}

/* Fails if the launcher belongs to another MPI library. The processes would then not find each
 * other: each one would be the only rank of its own job, and do all of the work. */
static enum status check_launcher(const struct comm *c)
{
    struct launcher_place place;
    if (c->size > 1 || launcher_place_find(&place) != STATUS_OK || place.size <= 1)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "the launcher started %d ranks, but they cannot find each other: this program was built "
        "with %s, and the launcher probably belongs to another MPI; srun needs --mpi=%s",
        place.size, comm_mpi_version(), comm_srun_mpi());
}

/* Name and version are on the first line of the library's description. */
const char *comm_mpi_version(void)
{
    static _Thread_local char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, major = 0, minor = 0, patch = 0;
    if (MPI_Get_library_version(name, &length) != MPI_SUCCESS)
        return "an unknown MPI";
    name[strcspn(name, "\n,")] = '\0';
    if (sscanf(name, "Open MPI v%d.%d.%d", &major, &minor, &patch) == 3)
        snprintf(name, sizeof name, "Open MPI %d.%d.%d", major, minor, patch);
    else if (sscanf(name, "MPICH Version: %d.%d.%d", &major, &minor, &patch) >= 2)
        snprintf(name, sizeof name, "MPICH %d.%d.%d", major, minor, patch);
    return name;
}

const char *comm_srun_mpi(void)
{
    return strncmp(comm_mpi_version(), "MPICH", strlen("MPICH")) == 0 ? "pmi2" : "pmix";
}

static enum status mpi_status(int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return STATUS_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    return status_fail(STATUS_LIBRARY, "%s: %s", call, text);
}
#define MPI_CALL(function, ...) mpi_status(function(__VA_ARGS__), #function)

/* --- types and reductions --- */

static MPI_Datatype type_of(enum dtype type)
{
    static const MPI_Datatype types[DTYPE_COUNT] = {
        [DTYPE_F32] = MPI_FLOAT,    [DTYPE_F64] = MPI_DOUBLE,    [DTYPE_I32] = MPI_INT32_T,
        [DTYPE_F16] = MPI_UINT16_T, [DTYPE_BF16] = MPI_UINT16_T, [DTYPE_U8] = MPI_BYTE,
    };
    return types[type];
}

static MPI_Op op_of(const struct mpi *m, const struct comm_op *op)
{
    static const MPI_Op ops[] = {[COMM_SUM] = MPI_SUM, [COMM_MAX] = MPI_MAX, [COMM_MIN] = MPI_MIN};
    enum comm_reduction r = op->reduction == COMM_AVG ? COMM_SUM : op->reduction;
    return op->type == DTYPE_F16 ? m->f16[r] : op->type == DTYPE_BF16 ? m->bf16[r] : ops[r];
}

#define HALF_OP(name, dtype, reduction)                                                            \
    static void name(void *in, void *inout, int *count, MPI_Datatype *type)                        \
    {                                                                                              \
        (void)type;                                                                                \
        comm_reduce(dtype, reduction, inout, in, inout, *count);                                   \
    }
HALF_OP(f16_sum, DTYPE_F16, COMM_SUM)
HALF_OP(f16_max, DTYPE_F16, COMM_MAX)
HALF_OP(f16_min, DTYPE_F16, COMM_MIN)
HALF_OP(bf16_sum, DTYPE_BF16, COMM_SUM)
HALF_OP(bf16_max, DTYPE_BF16, COMM_MAX)
HALF_OP(bf16_min, DTYPE_BF16, COMM_MIN)

static enum status make_half_ops(struct mpi *m)
{
    static MPI_User_function *const f16[] = {f16_sum, f16_max, f16_min};
    static MPI_User_function *const bf16[] = {bf16_sum, bf16_max, bf16_min};
    for (int r = COMM_SUM; r < COMM_AVG; r++) {
        TRY(MPI_CALL(MPI_Op_create, f16[r], 1, &m->f16[r]));
        TRY(MPI_CALL(MPI_Op_create, bf16[r], 1, &m->bf16[r]));
    }
    return STATUS_OK;
}

/* --- calls --- */

/* `send`, or MPI_IN_PLACE if it is already where MPI would copy it: at `place`. */
static const void *or_in_place(const void *send, const void *place)
{
    return send == place ? MPI_IN_PLACE : send;
}

/* Reduces in place on a root other than 0. MPICH 4.0 crashes there if it gets MPI_IN_PLACE. */
static enum status reduce_copy(struct mpi *m, const struct comm_op *op, void *recv, int n)
{
    char *copy;
    size_t bytes = (size_t)n * dtype_size(op->type);
    TRY(array_new(&copy, (int64_t)bytes));
    memcpy(copy, recv, bytes);
    enum status st =
        MPI_CALL(MPI_Reduce, copy, recv, n, type_of(op->type), op_of(m, op), op->root, m->data);
    free(copy);
    return st;
}

/* MPI's blocking call for `n` elements, or for a part of `n` elements for each rank. */
static enum status call_once(struct mpi *m, const struct comm_op *op, const void *send, void *recv,
                             int n)
{
    const int rank = m->queue.base.rank, size = m->queue.base.size;
    const MPI_Datatype type = type_of(op->type);
    const size_t own = (size_t)rank * (size_t)n * dtype_size(op->type); /* offset of its part */
    const bool root = op->root == rank;
    switch (op->kind) {
    case COMM_ALLREDUCE:
        return MPI_CALL(MPI_Allreduce, or_in_place(send, recv), recv, n, type, op_of(m, op),
                        m->data);
    case COMM_BROADCAST:
        return MPI_CALL(MPI_Bcast, recv, n, type, op->root, m->data);
    case COMM_REDUCE:
        if (root && rank != 0 && send == recv)
            return reduce_copy(m, op, recv, n);
        return MPI_CALL(MPI_Reduce, root ? or_in_place(send, recv) : send, root ? recv : NULL, n,
                        type, op_of(m, op), op->root, m->data);
    case COMM_ALLGATHER:
        return MPI_CALL(MPI_Allgather, or_in_place(send, (char *)recv + own), n, type, recv, n,
                        type, m->data);
    case COMM_REDUCE_SCATTER:
        return MPI_CALL(MPI_Reduce_scatter_block, or_in_place(send, recv), recv, n, type,
                        op_of(m, op), m->data);
    case COMM_ALLTOALL:
        return MPI_CALL(MPI_Alltoall, send, n, type, recv, n, type, m->data);
    case COMM_GATHER:
        return MPI_CALL(MPI_Gather, root ? or_in_place(send, (char *)recv + own) : send, n, type,
                        recv, n, type, op->root, m->data);
    case COMM_SCATTER:
        if (root && recv == (const char *)send + own)
            recv = MPI_IN_PLACE;
        return MPI_CALL(MPI_Scatter, send, n, type, recv, n, type, op->root, m->data);
    case COMM_SENDRECV:
        return MPI_CALL(MPI_Sendrecv, send, n, type, (rank + 1) % size, 0, recv, n, type,
                        (rank + size - 1) % size, 0, m->data, MPI_STATUS_IGNORE);
    default:
        return MPI_CALL(MPI_Barrier, m->data);
    }
}

static enum status call(struct mpi *m, const struct comm_op *op)
{
    bool parts = !comm_has_root(op->kind) && op->kind != COMM_ALLREDUCE;
    size_t element = dtype_size(op->type);
    int64_t from = 0, left = op->count;
    if (left > PART_MAX && (parts || op->kind == COMM_GATHER || op->kind == COMM_SCATTER))
        return status_fail(STATUS_UNSUPPORTED, "%s: more than %d elements for each rank",
                           comm_kind_str(op->kind), PART_MAX);
    do {
        int n = left < PART_MAX ? (int)left : PART_MAX;
        TRY(call_once(m, op, (const char *)op->send + (size_t)from * element,
                      (char *)op->recv + (size_t)from * element, n));
        from += n;
        left -= n;
    } while (left > 0);
    return STATUS_OK;
}

/* --- operations on the thread --- */

static enum status post_piece(struct mpi *m, const struct comm_op *op, int64_t from, int n,
                              MPI_Request *request)
{
    size_t at = (size_t)from * dtype_size(op->type);
    const char *send = (const char *)op->send + at;
    char *recv = (char *)op->recv + at;
    MPI_Datatype type = type_of(op->type);
    if (op->kind == COMM_BROADCAST)
        return MPI_CALL(MPI_Ibcast, recv, n, type, op->root, m->data, request);
    return MPI_CALL(MPI_Iallreduce, or_in_place(send, recv), recv, n, type, op_of(m, op), m->data,
                    request);
}

/* Yields or sleeps after `polls` polls without progress: sooner if the caller computes. */
static void rest(const struct mpi *m, int polls)
{
    int doublings = polls - (m->queue.waiting ? POLLS_WAITING : POLLS_COMPUTING);
    if (polls <= POLLS_AT_ONCE)
        return;
    if (doublings <= 0)
        sched_yield();
    else
        comm_sleep(doublings < 6 ? (int64_t)SLEEP_FIRST_NS << doublings : SLEEP_LONGEST_NS);
}

static enum status move_pieces(struct mpi *m, const struct comm_op *op)
{
    MPI_Request request[PIECES];
    int64_t step = PIECE_BYTES / (int64_t)dtype_size(op->type), posted = 0, done = 0;
    int64_t pieces = (op->count + step - 1) / step;
    for (int polls = 0, over; done < pieces; rest(m, ++polls)) {
        for (; posted < pieces && posted < done + PIECES; posted++) {
            int64_t left = op->count - posted * step;
            TRY(post_piece(m, op, posted * step, (int)(left < step ? left : step),
                           &request[posted % PIECES]));
        }
        TRY(MPI_CALL(MPI_Test, &request[done % PIECES], &over, MPI_STATUS_IGNORE));
        if (over) {
            done++;
            polls = 0;
            health_moved(m->health);
        }
    }
    return STATUS_OK;
}

/* Carries out an operation. A rank that is alone in its group counts operations too, so that the
 * others do not wait for it. After an error of MPI, the health thread ends the process. */
static enum status carry_out(struct mpi *m, const struct comm_op *op,
                             enum status (*by)(struct mpi *m, const struct comm_op *op))
{
    struct comm *c = &m->queue.base;
    bool moves = c->size > 1 && (op->count > 0 || op->kind == COMM_BARRIER);
    if (m->size == 1)
        return comm_copy_alone(c, op);
    health_begin(m->health, op);
    enum status st = moves ? by(m, op) : comm_copy_alone(c, op);
    if (st != STATUS_OK && st != STATUS_UNSUPPORTED) {
        char text[COMM_TEXT_MAX];
        st = status_context(st, "%s", comm_op_text(op, text));
        health_explain(m->health, st, status_message());
    }
    health_over(m->health);
    return st;
}

static enum status mpi_carry_out(struct comm_queue *q, const struct comm_op *op)
{
    bool pieces = op->kind == COMM_ALLREDUCE || op->kind == COMM_BROADCAST;
    return carry_out((struct mpi *)q, op, pieces ? move_pieces : call);
}

static enum status mpi_run(struct comm *c, const struct comm_op *op)
{
    return carry_out((struct mpi *)c, op, call);
}

/* --- joining and leaving the job --- */

static enum status share(void *context, void *data, size_t bytes)
{
    const struct mpi *m = context;
    return MPI_CALL(MPI_Bcast, data, (int)bytes, MPI_BYTE, 0, m->whole);
}

static enum status open_health(struct mpi *m)
{
    MPI_Comm host;
    int ranks;
    TRY(MPI_CALL(MPI_Comm_split_type, m->whole, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    TRY(MPI_CALL(MPI_Comm_size, host, &ranks));
    TRY(MPI_CALL(MPI_Comm_free, &host));
    TRY(array_new(&m->peer, m->size));
    TRY(control_meet(m->rank, m->size, ranks == m->size, m->config.join_s, share, m, m->peer));
    const struct health_config health = {.rank = m->rank,
                                         .size = m->size,
                                         .peer = m->peer,
                                         .timeout_s = m->config.timeout_s,
                                         .exits = true,
                                         .ended = m->config.ending,
                                         .context = m->config.context};
    return health_open(&health, &m->health);
}

static enum status join_job(struct comm_queue *q)
{
    struct mpi *m = (struct mpi *)q;
    int have, want = m->config.blocking ? MPI_THREAD_SINGLE : MPI_THREAD_SERIALIZED;
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns; the default, 50 us, would double most sleeps */
    /* The ring. For 2 and 3 ranks, Open MPI's choice is a tree, which takes twice as long. */
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1", 0);
    TRY(MPI_CALL(MPI_Init_thread, NULL, NULL, want, &have));
    if (have < want)
        return status_fail(STATUS_UNSUPPORTED, "this MPI library does not support threads");
    TRY(MPI_CALL(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TRY(MPI_CALL(MPI_Comm_dup, MPI_COMM_WORLD, &m->whole));
    m->data = m->whole;
    TRY(MPI_CALL(MPI_Comm_rank, m->whole, &m->rank));
    TRY(MPI_CALL(MPI_Comm_size, m->whole, &m->size));
    q->base.rank = m->rank;
    q->base.size = m->size;
    TRY(make_half_ops(m));
    return m->size > 1 ? open_health(m) : STATUS_OK;
}

/* After a failure, skips MPI_Finalize, which may wait until the launcher ends the job. */
static void leave_job(struct comm_queue *q)
{
    struct mpi *m = (struct mpi *)q;
    health_close(m->health);
    for (int r = 0; r < m->size && m->peer; r++)
        fd_close(&m->peer[r]);
    free(m->peer);
    if (comm_queue_status(q) == STATUS_OK)
        MPI_Finalize();
}

/* Divides the ranks after a barrier of all ranks. If a rank does not reach the barrier, the message
 * names that rank, as it does for every barrier. */
static enum status mpi_divide(struct comm *c, int group)
{
    struct mpi *m = (struct mpi *)c;
    struct comm_op barrier = {.kind = COMM_BARRIER};
    if (m->data != m->whole)
        TRY(MPI_CALL(MPI_Comm_free, &m->data));
    m->data = m->whole;
    c->rank = m->rank;
    c->size = m->size;
    TRY(comm_run(c, &barrier));
    if (group >= 0)
        TRY(MPI_CALL(MPI_Comm_split, m->whole, group, 0, &m->data));
    TRY(MPI_CALL(MPI_Comm_rank, m->data, &c->rank));
    return MPI_CALL(MPI_Comm_size, m->data, &c->size);
}

_Noreturn static void mpi_fail(struct comm *c, enum status st, const char *message)
{
    struct mpi *m = (struct mpi *)c;
    if (m->health)
        health_fail(m->health, st, message);
    fprintf(stderr, "ampscale: rank %d: %s\n", m->rank, message);
    _exit(status_exit_code(st));
}

static void mpi_close(struct comm *c)
{
    struct mpi *m = (struct mpi *)c;
    if (m->config.blocking)
        leave_job(&m->queue);
    comm_queue_stop(&m->queue);
    comm_queue_free(&m->queue);
    free(m);
}

enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c)
{
    static const struct comm_calls calls = {.name = "mpi",
                                            .run = mpi_run,
                                            .start = comm_queue_start,
                                            .wait = comm_queue_wait,
                                            .divide = mpi_divide,
                                            .fail = mpi_fail,
                                            .close = mpi_close};
    static const struct comm_calls blocking = {
        .name = "mpi", .run = mpi_run, .divide = mpi_divide, .fail = mpi_fail, .close = mpi_close};
    struct mpi *m;
    bool late = false;
    TRY(array_new(&m, 1));
    comm_queue_init(&m->queue, config->blocking ? &blocking : &calls, 0, 1);
    m->queue.carry_out = mpi_carry_out;
    m->queue.enter = join_job;
    m->queue.leave = leave_job;
    m->config = *config;
    /* The thread joins the job, because MPI_Init may wait for other ranks indefinitely. */
    enum status st = config->blocking ? comm_queue_enter(&m->queue)
                                      : comm_queue_open(&m->queue, config->join_s, &late);
    if (late)
        return status_fail(STATUS_LIBRARY,
                           "cannot join the MPI job: not all ranks arrived within %g s",
                           config->join_s);
    if (st != STATUS_OK)
        st = status_context(st, "cannot join the MPI job");
    else
        st = check_launcher(&m->queue.base);
    if (st == STATUS_OK)
        *c = &m->queue.base;
    else
        mpi_close(&m->queue.base);
    return st;
}
