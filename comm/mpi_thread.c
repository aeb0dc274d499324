/* The communication thread of an MPI process: joins the job, moves operations, watches the others,
 * leaves the job.
 *
 * Computing threads want the cores. While operations are in motion the thread looks at them again
 * at once a few times, then yields, then sleeps for some microseconds, longer each time up to
 * NAP_LONGEST_NS; anything that moved makes it quick again. While there are none it sleeps until
 * one is started, and looks up every LISTEN_NS in case another rank calls. */
#include "comm/mpi_internal.h"

#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>

enum {
    LOOKS_AT_ONCE = 8,
    LOOKS_YIELDING = 32, /* looks up to this one are preceded by a yield */
    NAP_FIRST_NS = 2000,
    NAP_LONGEST_NS = 50000,
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
    TRY(mpi_status(MPI_Initialized(&before), "MPI_Initialized"));
    TRY(mpi_status(MPI_Finalized(&after), "MPI_Finalized"));
    if (before || after)
        return status_fail(STATUS_INVALID, "MPI can be joined once in a process");
    TRY(mpi_status(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &have), "MPI_Init_thread"));
    if (have < MPI_THREAD_FUNNELED)
        return status_fail(STATUS_UNSUPPORTED, "this MPI library does not allow threads");
    TRY(mpi_status(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                   "MPI_Comm_set_errhandler"));
    TRY(mpi_status(MPI_Comm_rank(MPI_COMM_WORLD, &m->base.rank), "MPI_Comm_rank"));
    TRY(mpi_status(MPI_Comm_size(MPI_COMM_WORLD, &m->base.size), "MPI_Comm_size"));
    m->rank = m->base.rank;
    m->size = m->base.size;
    TRY(mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &m->whole), "MPI_Comm_dup"));
    m->data = m->whole;
    TRY(mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &m->control), "MPI_Comm_dup"));
    for (int i = 0; i < FLOW_COUNT; i++)
        TRY(flow_open(&m->flow[i]));
    return health_open(m);
}

/* After a failure the library may wait for ever; the launcher clears up. */
static void leave_job(struct mpi *m)
{
    health_close(m);
    for (int i = 0; i < FLOW_COUNT; i++)
        flow_close(&m->flow[i]);
    if (m->broken == STATUS_OK)
        MPI_Finalize();
}

enum status mpi_regroup(struct mpi *m)
{
    if (m->data != m->whole)
        TRY(mpi_status(MPI_Comm_free(&m->data), "MPI_Comm_free"));
    m->data = m->whole;
    if (m->group >= 0)
        TRY(mpi_status(MPI_Comm_split(m->whole, m->group, 0, &m->data), "MPI_Comm_split"));
    TRY(mpi_status(MPI_Comm_rank(m->data, &m->base.rank), "MPI_Comm_rank"));
    return mpi_status(MPI_Comm_size(m->data, &m->base.size), "MPI_Comm_size");
}

/* --- operations --- */

/* Nothing can succeed any more. The lock is held. */
static void break_locked(struct mpi *m, enum status st)
{
    m->broken = st;
    snprintf(m->broken_message, sizeof m->broken_message, "%s", status_message());
}

static void end_operation(struct mpi *m, struct flow *f, enum status st)
{
    pthread_mutex_lock(&m->lock);
    if (st != STATUS_OK && m->broken == STATUS_OK)
        break_locked(m, st);
    f->slot->op.ended_ns = comm_now();
    f->slot->st = st;
    f->slot->done = true;
    f->slot = NULL;
    pthread_cond_signal(&m->done);
    pthread_mutex_unlock(&m->lock);
}

/* Gives flows to operations in the order of their start, the same on every rank. */
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

/* Returns whether any is still in motion. */
static bool move_operations(struct mpi *m, const struct caller_request *w, bool *moved)
{
    bool any = false;
    for (int i = 0; i < FLOW_COUNT; i++) {
        struct flow *f = &m->flow[i];
        bool over = false;
        if (!f->slot)
            continue;
        enum status st = m->broken;
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

/* --- the loop --- */

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
    int64_t until = comm_now() + LISTEN_NS;
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_mutex_lock(&m->lock);
    if (m->request.started == m->taken && !m->request.close && !m->request.fail)
        pthread_cond_timedwait(&m->work, &m->lock, &t);
    pthread_mutex_unlock(&m->lock);
}

/* After `looks` looks at operations that found nothing new. */
static void rest(int looks)
{
    if (looks <= LOOKS_AT_ONCE)
        return;
    if (looks <= LOOKS_YIELDING) {
        sched_yield();
        return;
    }
    int doublings = looks - LOOKS_YIELDING;
    int64_t nap = doublings < 5 ? (int64_t)NAP_FIRST_NS << doublings : NAP_LONGEST_NS;
    struct timespec t = {.tv_nsec = nap};
    nanosleep(&t, NULL);
}

static void serve_operations(struct mpi *m)
{
    int looks = 0;
    for (;;) {
        struct caller_request w = request_now(m);
        if (w.fail)
            health_fail(m, &w);
        bool moved = false;
        begin_operations(m, &w);
        bool any = move_operations(m, &w, &moved);
        health_receive(m, &w);
        health_check(m, &w);
        looks = moved ? 0 : looks + 1;
        if (any)
            rest(looks);
        else if (w.close && m->taken == w.started)
            return;
        else
            sleep_until_work(m);
    }
}

void *mpi_serve(void *arg)
{
    struct mpi *m = arg;
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns; the usual 50 us would double every nap */
    enum status st = join_job(m);
    pthread_mutex_lock(&m->lock);
    if (st != STATUS_OK)
        break_locked(m, st);
    m->opened = true;
    pthread_cond_signal(&m->done);
    pthread_mutex_unlock(&m->lock);
    if (st == STATUS_OK)
        serve_operations(m);
    leave_job(m);
    return NULL;
}
