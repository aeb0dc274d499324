/* The communicator between processes of an MPI job: the functions of the caller's thread. They pass
 * operations to the communication thread (mpi_thread.c), which joins the job and moves the data. */
#include "base/launcher.h"
#include "comm/mpi_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FAIL_LIMIT_S = 5
};                                        /* time limit for the communication thread to end the
                                           * job */
static const int64_t CHECK_NS = 50000000; /* time between checks of beat_ns, which shows that the
                                           * communication thread is not stuck */
/* The caller's thread regards the communication thread as stuck if one MPI call takes longer than
 * the time limit plus STUCK_NS. After a request to stop, this limit is STUCK_AND_STOPPED_NS. */
static const int64_t STUCK_NS = 2000000000, STUCK_AND_STOPPED_NS = 500000000;

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
        "the launcher started %d ranks, but they cannot find each other: this "
        "program was built with %s, and the launcher probably belongs to another MPI; "
        "srun needs --mpi=%s",
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

/* Locks the request. The caller changes it, and unlocks it by post_request. */
static struct caller_request *lock_request(struct mpi *m)
{
    pthread_mutex_lock(&m->lock);
    return &m->request;
}

static void post_request(struct mpi *m)
{
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
}

static enum status mpi_start(struct comm *c, struct comm_slot *slot)
{
    struct mpi *m = (struct mpi *)c;
    lock_request(m)->started = slot->op.handle;
    post_request(m);
    return STATUS_OK;
}

/* Whether the communication thread is stuck: beat_ns has not changed for `checks` checks. This
 * function counts checks and does not use a clock, because a clock also advances while the whole
 * process is stopped. */
static bool is_stuck(const struct mpi *m, int checks)
{
    bool stopped = m->config.stop_requested && m->config.stop_requested();
    int64_t inside = checks * CHECK_NS;
    if (stopped && inside > STUCK_AND_STOPPED_NS)
        return true;
    return m->config.timeout_s > 0 && inside > (int64_t)(m->config.timeout_s * 1e9) + STUCK_NS;
}

/* Ends the process. While MPI is stuck, this rank cannot query the other ranks to find the rank at
 * fault. If the job has only two ranks, the message names the other rank. */
_Noreturn static void end_stuck(const struct mpi *m, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX], other[COMM_MESSAGE_MAX] = "another rank",
                              message[2 * COMM_MESSAGE_MAX];
    if (m->size == 2) {
        int rank = 1 - m->rank;
        const struct peer *p = &m->health.peer[rank];
        snprintf(other, sizeof other, "rank %d (host %s, pid %d)", rank, p->host, (int)p->pid);
    }
    snprintf(message, sizeof message,
             "%s or the network may be lost: on rank %d the MPI library has not returned from a "
             "call since %s",
             other, m->rank, comm_op_text(op, text));
    fprintf(stderr, "ampscale: %s\n", message);
    health_before_end(m, STATUS_LOST_RANK, message);
    _exit(status_exit_code(STATUS_LOST_RANK));
}

/* Waits until the operation is over; the caller holds the lock. Normally the communication thread
 * detects lost ranks. But Open MPI 4 can hang while it reports a lost TCP connection. The
 * communication thread is then stuck in MPI, and only this thread can end the process. */
static void wait_locked(struct mpi *m, const struct comm_slot *slot)
{
    int checks = 0;
    while (!slot->done) {
        int64_t beat = m->beat_ns;
        if (comm_condition_wait(&m->done, &m->lock, comm_now() + CHECK_NS))
            continue;
        checks = m->beat_ns == beat && beat != MPI_BEATS_NO_MORE ? checks + 1 : 0;
        if (is_stuck(m, checks))
            end_stuck(m, &slot->op);
    }
}

static enum status mpi_wait(struct comm *c, struct comm_slot *slot)
{
    struct mpi *m = (struct mpi *)c;
    pthread_mutex_lock(&m->lock);
    m->request.waiting = slot->op.handle;
    m->request.waiting_since_ns = comm_now();
    wait_locked(m, slot);
    m->request.waiting = 0;
    enum status st = slot->st == STATUS_OK ? STATUS_OK : first_failure_return(&m->failure);
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* Divides the ranks after a barrier of all ranks. If a rank does not reach the barrier, the message
 * names that rank, as it does for every barrier. */
static enum status mpi_divide(struct comm *c, int group)
{
    struct mpi *m = (struct mpi *)c;
    struct comm_op barrier = {.kind = COMM_BARRIER};
    m->divide = c->started + 1;
    m->group = group;
    return comm_run(c, &barrier);
}

static void mpi_fail(struct comm *c, enum status st, const char *message)
{
    struct mpi *m = (struct mpi *)c;
    lock_request(m)->fail = true;
    m->fail_status = st;
    snprintf(m->fail_message, sizeof m->fail_message, "rank %d: %s", m->rank, message);
    post_request(m);
    for (unsigned left = FAIL_LIMIT_S; left > 0;) /* a signal may end a sleep early */
        left = sleep(left);
    fprintf(stderr, "ampscale: %s\n", m->fail_message);
    _exit(status_exit_code(st));
}

static void mpi_free(struct mpi *m)
{
    pthread_cond_destroy(&m->done);
    pthread_cond_destroy(&m->work);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* The time limit applies to the barrier. It does not apply to MPI_Finalize, which waits for all
 * ranks too. */
static void mpi_close(struct comm *c)
{
    struct mpi *m = (struct mpi *)c;
    struct comm_op barrier = {.kind = COMM_BARRIER};
    first_failure_keep(&m->failure, comm_run(c, &barrier));
    lock_request(m)->close = true;
    post_request(m);
    pthread_join(m->thread, NULL);
    mpi_free(m);
}

static const struct comm_calls mpi_calls = {
    .name = "mpi",
    .start = mpi_start,
    .wait = mpi_wait,
    .divide = mpi_divide,
    .fail = mpi_fail,
    .close = mpi_close,
};

static enum status mpi_new(const struct comm_mpi_config *config, struct mpi **out)
{
    struct mpi *m;
    TRY(array_new(&m, 1));
    m->base.calls = &mpi_calls;
    m->config = *config;
    m->beat_ns = MPI_BEATS_NO_MORE; /* until operations are served */
    comm_condition_init(&m->work);
    comm_condition_init(&m->done);
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return STATUS_OK;
}

/* Waits until the communication thread has joined the job or has failed. Sets *late if MPI has not
 * returned within the time limit. */
static enum status wait_joined(struct mpi *m, bool *late)
{
    int64_t deadline = comm_deadline(m->config.join_s);
    pthread_mutex_lock(&m->lock);
    while (!m->opened && comm_condition_wait(&m->done, &m->lock, deadline))
        ;
    *late = !m->opened;
    if (*late)
        comm_failure_keep(&m->failure, STATUS_LIBRARY, "not all ranks arrived within %g s",
                          m->config.join_s);
    enum status st = first_failure_return(&m->failure);
    if (st != STATUS_OK)
        st = status_context(st, "cannot join the MPI job");
    pthread_mutex_unlock(&m->lock);
    return st;
}

enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c)
{
    struct mpi *m;
    TRY(mpi_new(config, &m));
    enum status st = thread_start(&m->thread, "communication thread", mpi_serve, m);
    if (st != STATUS_OK) {
        mpi_free(m);
        return st;
    }
    bool late;
    st = wait_joined(m, &late);
    if (late) { /* the thread is inside MPI and still uses m */
        pthread_detach(m->thread);
        return st;
    }
    if (st != STATUS_OK) {
        pthread_join(m->thread, NULL);
        mpi_free(m);
        return st;
    }
    st = check_launcher(&m->base);
    if (st != STATUS_OK) {
        mpi_close(&m->base);
        return st;
    }
    *c = &m->base;
    return STATUS_OK;
}
