/* The communication thread of an MPI process: joins the job, carries out operations, checks the
 * health of the other ranks, and leaves the job.
 *
 * The thread leaves the cores to computation as far as possible. While operations are in progress
 * it polls a few times without a pause, then yields between polls, then sleeps for some
 * microseconds, longer each time up to SLEEP_LONGEST_NS; progress restarts this sequence. While
 * there are no operations it sleeps until one is started, and polls every LISTEN_NS for health
 * messages. */
#include "comm/mpi_internal.h"

#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>

enum {
    POLLS_AT_ONCE = 8,
    POLLS_YIELDING = 32, /* up to this number of polls the thread yields between polls */
    SLEEP_FIRST_NS = 2000,
    SLEEP_LONGEST_NS = 50000,
    LISTEN_NS = 20000000,
};

enum status mpi_status(int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return STATUS_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    return status_fail(STATUS_LIBRARY, "%s: %s", call, text);
}

/* --- joining and leaving --- */

static enum status join_job(struct mpi *m)
{
    int have, before, after;
    TRY(MPI_CALL(MPI_Initialized, &before));
    TRY(MPI_CALL(MPI_Finalized, &after));
    if (before || after)
        return status_fail(STATUS_INVALID, "a process can join MPI only once");
    TRY(MPI_CALL(MPI_Init_thread, NULL, NULL, MPI_THREAD_FUNNELED, &have));
    if (have < MPI_THREAD_FUNNELED)
        return status_fail(STATUS_UNSUPPORTED, "this MPI library does not support threads");
    TRY(MPI_CALL(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TRY(MPI_CALL(MPI_Comm_rank, MPI_COMM_WORLD, &m->base.rank));
    TRY(MPI_CALL(MPI_Comm_size, MPI_COMM_WORLD, &m->base.size));
    m->rank = m->base.rank;
    m->size = m->base.size;
    TRY(MPI_CALL(MPI_Comm_dup, MPI_COMM_WORLD, &m->whole));
    m->data = m->whole;
    TRY(MPI_CALL(MPI_Comm_dup, MPI_COMM_WORLD, &m->control));
    for (int i = 0; i < FLOW_COUNT; i++)
        TRY(flow_open(&m->flow[i]));
    return health_open(m);
}

/* After a failure, skips MPI_Finalize, which may wait indefinitely; the launcher then ends the
 * job. */
static void leave_job(struct mpi *m)
{
    health_close(m);
    for (int i = 0; i < FLOW_COUNT; i++)
        flow_close(&m->flow[i]);
    if (m->failure.status == STATUS_OK)
        MPI_Finalize();
}

enum status mpi_regroup(struct mpi *m)
{
    if (m->data != m->whole)
        TRY(MPI_CALL(MPI_Comm_free, &m->data));
    m->data = m->whole;
    if (m->group >= 0)
        TRY(MPI_CALL(MPI_Comm_split, m->whole, m->group, 0, &m->data));
    TRY(MPI_CALL(MPI_Comm_rank, m->data, &m->base.rank));
    return MPI_CALL(MPI_Comm_size, m->data, &m->base.size);
}

/* --- operations --- */

static void end_operation(struct mpi *m, struct flow *f, enum status st)
{
    pthread_mutex_lock(&m->lock);
    first_failure_keep(&m->failure, st);
    f->slot->op.ended_ns = comm_now();
    f->slot->st = st;
    f->slot->done = true;
    f->slot = NULL;
    pthread_cond_signal(&m->done);
    pthread_mutex_unlock(&m->lock);
}

/* Assigns a free flow to each started operation, in the order in which the caller started the
 * operations. All ranks start them in the same order. */
static void begin_operations(struct mpi *m, const struct caller_request *w)
{
    for (int i = 0; i < FLOW_COUNT && m->taken < w->started; i++) {
        struct flow *f = &m->flow[i];
        if (f->slot)
            continue;
        m->taken++;
        m->moved_ns = comm_now();
        enum status st = flow_begin(m, f, comm_slot_of(&m->base, m->taken));
        if (st != STATUS_OK)
            end_operation(m, f, st);
    }
}

/* Moves the data of the operations in progress. Returns whether any is still in progress. */
static bool move_operations(struct mpi *m, const struct caller_request *w, bool *moved)
{
    bool any = false;
    for (int i = 0; i < FLOW_COUNT; i++) {
        struct flow *f = &m->flow[i];
        bool over = false;
        if (!f->slot)
            continue;
        enum status st = m->failure.status;
        if (st == STATUS_OK) {
            st = flow_move(m, f, moved, &over);
            if (st != STATUS_OK)
                health_explain(m, w);
        }
        if (over || st != STATUS_OK)
            end_operation(m, f, st);
        any = any || f->slot;
    }
    if (*moved)
        m->moved_ns = comm_now();
    return any;
}

/* --- the thread's main loop --- */

void mpi_beat(struct mpi *m, int64_t now)
{
    pthread_mutex_lock(&m->lock);
    m->beat_ns = now;
    pthread_mutex_unlock(&m->lock);
}

static struct caller_request request_now(struct mpi *m)
{
    pthread_mutex_lock(&m->lock);
    m->beat_ns = comm_now();
    struct caller_request w = m->request;
    pthread_mutex_unlock(&m->lock);
    return w;
}

static void sleep_until_work(struct mpi *m)
{
    pthread_mutex_lock(&m->lock);
    if (m->request.started == m->taken && !m->request.close && !m->request.fail)
        comm_condition_wait(&m->work, &m->lock, comm_now() + LISTEN_NS);
    pthread_mutex_unlock(&m->lock);
}

/* Yields or sleeps after `polls` polls without progress. */
static void rest(int polls)
{
    if (polls <= POLLS_AT_ONCE)
        return;
    if (polls <= POLLS_YIELDING) {
        sched_yield();
        return;
    }
    int doublings = polls - POLLS_YIELDING - 1;
    comm_sleep(doublings < 5 ? (int64_t)SLEEP_FIRST_NS << doublings : SLEEP_LONGEST_NS);
}

static void serve_operations(struct mpi *m)
{
    int polls = 0;
    for (;;) {
        struct caller_request w = request_now(m);
        if (w.fail)
            health_fail(m, &w);
        bool moved = false;
        begin_operations(m, &w);
        bool any = move_operations(m, &w, &moved);
        health_receive(m, &w);
        health_check(m, &w);
        polls = moved ? 0 : polls + 1;
        if (any)
            rest(polls);
        else if (w.close && m->taken == w.started)
            return;
        else
            sleep_until_work(m);
    }
}

void *mpi_serve(void *arg)
{
    struct mpi *m = arg;
    /* The timer slack, in ns. With the default of 50 us, every sleep would take about twice as
     * long. */
    prctl(PR_SET_TIMERSLACK, 1000UL);
    enum status st = join_job(m);
    pthread_mutex_lock(&m->lock);
    first_failure_keep(&m->failure, st);
    m->opened = true;
    pthread_cond_signal(&m->done);
    pthread_mutex_unlock(&m->lock);
    if (st == STATUS_OK)
        serve_operations(m);
    leave_job(m);
    return NULL;
}
