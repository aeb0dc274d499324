/* Processes of an MPI job as ranks: the caller's side. It hands operations to the communication
 * thread (mpi_thread.c), which makes all calls of the library. */
#include "comm/mpi_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAIL_LIMIT_S = 5 }; /* what a communication thread that hangs has to end the job */
static const int64_t LOOK_NS = 50000000; /* between looks at the communication thread */
/* How long it may be inside one call of the library, beyond the time limit, and when asked to stop.
 */
static const int64_t STUCK_NS = 2000000000, STUCK_AND_STOPPED_NS = 500000000;

/* The launchers' ways to tell a process its rank: Open MPI, MPICH and its kin, Slurm. */
bool comm_under_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_RANK") || getenv("PMIX_RANK");
}

/* Ranks of the job, as the launcher tells them, the innermost first: mpirun may have been started
 * by srun. 0: it does not. */
static int launched_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

/* The launcher of another MPI library starts processes that do not find each other: each believes
 * itself alone, and would do all of the work. */
static enum status check_launcher(const struct comm *c)
{
    int ranks = launched_ranks();
    if (c->size > 1 || ranks <= 1)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "the launcher started %d ranks, but they cannot find each other: this "
                       "program was built with %s, and the launcher is probably another library's; "
                       "srun would have to be given --mpi=%s",
                       ranks, comm_mpi_version(), comm_srun_mpi());
}

/* The library says who it is and much more; what is wanted is on its first line. */
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

static enum status mpi_start(struct comm *c, struct comm_slot *slot)
{
    struct mpi *m = (struct mpi *)c;
    pthread_mutex_lock(&m->lock);
    m->request.started = slot->op.handle;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
    return STATUS_OK;
}

/* `looks` have passed without a beat. Looks are counted rather than time, which passes also while
 * the whole process is stopped. */
static bool is_stuck(const struct mpi *m, int looks)
{
    bool stopped = m->config.stop_requested && m->config.stop_requested();
    int64_t inside = looks * LOOK_NS;
    if (stopped && inside > STUCK_AND_STOPPED_NS)
        return true;
    return m->config.timeout_s > 0 && inside > (int64_t)(m->config.timeout_s * 1e9) + STUCK_NS;
}

/* Nobody can be asked who is missing any more; of two ranks it is the other. */
_Noreturn static void end_stuck(const struct mpi *m, const struct comm_op *op)
{
    char text[COMM_TEXT_MAX], other[COMM_MESSAGE_MAX] = "another rank";
    if (m->size == 2) {
        int rank = 1 - m->rank;
        const struct peer *p = &m->health.peer[rank];
        snprintf(other, sizeof other, "rank %d (host %s, pid %d)", rank, p->host, (int)p->pid);
    }
    fprintf(stderr,
            "ampscale: %s or the network may be gone: on rank %d the MPI library does not return "
            "from a call since %s\n",
            other, m->rank, comm_op_text(op, text));
    _exit(status_exit_code(STATUS_LIBRARY));
}

/* Waits until the operation is over. The communication thread queries the other ranks; where the
 * library does not return (Open MPI 4 hangs in its own report of a lost TCP connection) this thread
 * alone is left to end the process. The lock is held. */
static void wait_locked(struct mpi *m, const struct comm_slot *slot)
{
    int looks = 0;
    while (!slot->done) {
        int64_t beat = m->beat_ns, until = comm_now() + LOOK_NS;
        struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
        int error = pthread_cond_timedwait(&m->done, &m->lock, &t);
        if (error != ETIMEDOUT)
            continue;
        looks = m->beat_ns == beat && beat != MPI_BEATS_NO_MORE ? looks + 1 : 0;
        if (is_stuck(m, looks))
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
    enum status st = slot->st;
    if (st != STATUS_OK)
        st = status_fail(st, "%s", m->broken_message);
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* A barrier of all ranks, at whose end they are parted: a rank that does not reach it is named as
 * in any other. */
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
    pthread_mutex_lock(&m->lock);
    m->fail_status = st;
    snprintf(m->fail_message, sizeof m->fail_message, "rank %d: %s", m->rank, message);
    m->request.fail = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
    for (unsigned left = FAIL_LIMIT_S; left > 0;) /* signals may cut a sleep short */
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

/* The barrier is under the time limit; MPI_Finalize, which waits for the others too, is not. */
static void mpi_close(struct comm *c)
{
    struct mpi *m = (struct mpi *)c;
    struct comm_op barrier = {.kind = COMM_BARRIER};
    if (comm_run(c, &barrier) != STATUS_OK)
        m->broken = STATUS_LIBRARY;
    pthread_mutex_lock(&m->lock);
    m->request.close = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
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

static struct mpi *mpi_new(const struct comm_mpi_config *config)
{
    struct mpi *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->base.calls = &mpi_calls;
    m->config = *config;
    m->beat_ns = MPI_BEATS_NO_MORE; /* until operations are served */
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->work, &monotonic);
    pthread_cond_init(&m->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

/* Waits until the job has been joined, or cannot be. *late: the library does not return. */
static enum status wait_joined(struct mpi *m, bool *late)
{
    int64_t until = comm_now() + (int64_t)(m->config.join_s * 1e9);
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    int error = 0;
    pthread_mutex_lock(&m->lock);
    while (!m->opened && error != ETIMEDOUT) {
        if (m->config.join_s > 0)
            error = pthread_cond_timedwait(&m->done, &m->lock, &t);
        else
            pthread_cond_wait(&m->done, &m->lock);
    }
    *late = !m->opened;
    enum status st = m->broken;
    if (*late)
        st = status_fail(STATUS_LIBRARY,
                         "cannot join the MPI job: not all ranks have come within %g s",
                         m->config.join_s);
    else if (st != STATUS_OK)
        st = status_fail(st, "cannot join the MPI job: %s", m->broken_message);
    pthread_mutex_unlock(&m->lock);
    return st;
}

enum status comm_open_mpi(const struct comm_mpi_config *config, struct comm **c)
{
    struct mpi *m = mpi_new(config);
    if (!m)
        return status_fail(STATUS_OOM, "out of memory");
    enum status st = comm_thread_start(&m->thread, mpi_serve, m);
    if (st != STATUS_OK) {
        mpi_free(m);
        return st;
    }
    bool late;
    st = wait_joined(m, &late);
    if (late) { /* the thread is inside the library, and keeps what it uses */
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
