/* What the ranks of an MPI job say to each other outside of operations, so that a job that cannot
 * go on ends everywhere, soon, and with one line that says why.
 *
 * When nothing has moved for the time limit while the caller waits, the rank calls the roll: every
 * communication thread that lives answers with the operations its caller started, even while that
 * one computes. After a moment the caller of the roll knows who is silent and who is late, says so,
 * tells the others to end in silence, and ends the job. Of ranks that call at the same time the
 * lowest goes first; the others defer to it.
 *
 * A launcher that loses a rank asks the others to stop and kills them a second later. A request to
 * stop therefore makes a rank call the roll at once, whatever its caller does. Then only silence is
 * held against a rank: the request may have come from the user, and all may still end in order. */
#include "comm/mpi_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NOTICE_TAG = 1,
    MOST_NAMED = 4, /* ranks in a message */
};
#define MS ((int64_t)1000000)
static const int64_t ANSWER_NS = 500 * MS;        /* to answer a call */
static const int64_t URGENT_ANSWER_NS = 300 * MS; /* when killed within the second */
static const int64_t URGENT_PAUSE_NS = 500 * MS;  /* between urgent calls */
static const int64_t DEFER_NS = 1000 * MS;        /* to each lower rank that calls */
static const int64_t TELL_NS = 100 * MS;          /* for a last notice to get away */
static const int64_t SPREAD_NS = 50 * MS; /* for a last line, whose keeper a launcher may kill */
/* From that notice to the launcher's kill. A rank that ended before the one that speaks has spoken
 * would have that one killed. */
static const int64_t END_NS = 5000 * MS;

/* --- notices --- */

static enum status listen_again(struct mpi *m)
{
    struct roll *r = &m->roll;
    return mpi_status(MPI_Irecv(&r->in, sizeof r->in, MPI_BYTE, MPI_ANY_SOURCE, NOTICE_TAG,
                                m->control, &r->receive),
                      "MPI_Irecv");
}

/* A rank that has not taken the last notice yet gets no other: it is silent anyway. An error means
 * that the rank cannot be reached, which is what its silence will say. */
static void tell(struct mpi *m, int rank, struct notice n)
{
    struct roll *r = &m->roll;
    int gone = 0;
    if (MPI_Test(&r->send[rank], &gone, MPI_STATUS_IGNORE) != MPI_SUCCESS || !gone)
        return;
    r->out[rank] = n;
    if (MPI_Isend(&r->out[rank], sizeof n, MPI_BYTE, rank, NOTICE_TAG, m->control,
                  &r->send[rank]) != MPI_SUCCESS)
        r->send[rank] = MPI_REQUEST_NULL;
}

static void tell_all(struct mpi *m, const struct wish *w, enum notice_kind kind, int exit_code)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank)
            tell(m, i, (struct notice){kind, exit_code, w->started, w->waiting});
}

static void nap(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

/* --- ends --- */

/* The rank that sent the notice says why, and has the launcher end the job; if that does not come
 * about, this process ends by itself. */
_Noreturn static void end_in_silence(struct mpi *m, int exit_code)
{
    mpi_beat(m, MPI_BEATS_NO_MORE);
    nap(END_NS);
    _exit(exit_code);
}

/* Tells the others and gives the notices, and those of ranks that end at the same time, a moment to
 * travel. A lower rank that ends the job too has the word. */
static void claim_the_word(struct mpi *m, const struct wish *w, int exit_code)
{
    struct roll *r = &m->roll;
    mpi_beat(m, MPI_BEATS_NO_MORE);
    tell_all(m, w, NOTICE_END, exit_code);
    for (int64_t until = comm_now() + TELL_NS; comm_now() < until; nap(MS)) {
        int came = 0, gone = 0;
        MPI_Status from;
        for (int i = 0; i < m->size; i++)
            MPI_Test(&r->send[i], &gone, MPI_STATUS_IGNORE);
        if (MPI_Test(&r->receive, &came, &from) != MPI_SUCCESS || !came)
            continue;
        if (r->in.kind == NOTICE_END && from.MPI_SOURCE < m->rank)
            end_in_silence(m, r->in.exit_code);
        if (listen_again(m) != STATUS_OK)
            return;
    }
}

_Noreturn static void end_job(struct mpi *m, const struct wish *w, int exit_code,
                              const char *message)
{
    claim_the_word(m, w, exit_code);
    fprintf(stderr, "ampscale: %s\n", message);
    nap(SPREAD_NS);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
}

_Noreturn void roll_fail(struct mpi *m, const struct wish *w)
{
    end_job(m, w, status_exit_code(m->fail_status), m->fail_message);
}

/* --- the roll --- */

static void hear(struct mpi *m, const struct wish *w, int rank, const struct notice *n)
{
    struct roll *r = &m->roll;
    r->heard[rank] = true;
    r->said[rank] = *n;
    if (n->kind == NOTICE_END)
        end_in_silence(m, n->exit_code);
    if (n->kind == NOTICE_CALL) {
        tell(m, rank, (struct notice){NOTICE_HERE, 0, w->started, w->waiting});
        r->called_ns = comm_now();
    }
}

void roll_listen(struct mpi *m, const struct wish *w)
{
    struct roll *r = &m->roll;
    for (;;) {
        int came = 0;
        MPI_Status from;
        if (MPI_Test(&r->receive, &came, &from) != MPI_SUCCESS || !came)
            return;
        struct notice n = r->in;
        if (listen_again(m) != STATUS_OK)
            return;
        hear(m, w, from.MPI_SOURCE, &n);
    }
}

static void call_roll(struct mpi *m, const struct wish *w, bool urgent)
{
    struct roll *r = &m->roll;
    memset(r->heard, 0, (size_t)m->size * sizeof *r->heard);
    r->heard[m->rank] = true;
    r->said[m->rank] = (struct notice){NOTICE_CALL, 0, w->started, w->waiting};
    r->calling = true;
    r->urgent = urgent;
    r->began_ns = comm_now();
    r->awaited = w->waiting;
    tell_all(m, w, NOTICE_CALL, 0);
}

static bool is_silent(const struct roll *r, int rank)
{
    return !r->heard[rank];
}

static bool is_late(const struct roll *r, int rank)
{
    return r->heard[rank] && r->said[rank].started < r->awaited;
}

/* "rank 1 (host a, pid 7)", "ranks 1 (host a, pid 7), 2 (host b, pid 9)"; returns how many. */
static int name_ranks(const struct mpi *m, bool (*is_to_blame)(const struct roll *, int), char *out,
                      size_t size)
{
    int count = 0;
    size_t used = 0;
    for (int i = 0; i < m->size; i++)
        count += is_to_blame(&m->roll, i);
    used += (size_t)snprintf(out, size, "rank%s", count > 1 ? "s" : "");
    for (int i = 0, named = 0; i < m->size && named < MOST_NAMED; i++) {
        if (!is_to_blame(&m->roll, i))
            continue;
        const struct peer *p = &m->roll.peer[i];
        used += (size_t)snprintf(out + used, size - used, "%s %d (host %s, pid %d)",
                                 named > 0 ? "," : "", i, p->host, (int)p->pid);
        named++;
    }
    if (count > MOST_NAMED)
        snprintf(out + used, size - used, " and %d more", count - MOST_NAMED);
    return count;
}

/* Ends the job if a rank is to blame. */
static void judge(struct mpi *m, const struct wish *w)
{
    struct roll *r = &m->roll;
    char who[COMM_MESSAGE_MAX], message[2 * COMM_MESSAGE_MAX], operation[COMM_TEXT_MAX] = "";
    if (r->awaited > 0)
        comm_op_text(&comm_slot_of(&m->base, r->awaited)->op, operation);
    if (name_ranks(m, is_silent, who, sizeof who) > 0) {
        if (r->urgent)
            snprintf(message, sizeof message,
                     "%s did not answer after operation %lld; it may have died or be stuck", who,
                     (long long)(r->awaited > 0 ? r->awaited - 1 : w->started));
        else
            snprintf(message, sizeof message,
                     "%s did not come to %s within %g s; it may have died or be stuck", who,
                     operation, m->config.timeout_s);
    } else if (r->urgent) {
        return;
    } else if (name_ranks(m, is_late, who, sizeof who) > 0) {
        snprintf(message, sizeof message,
                 "%s did not come to %s within %g s; it is alive, and busy with something else",
                 who, operation, m->config.timeout_s);
    } else {
        snprintf(message, sizeof message,
                 "%s did not move for %g s, though every rank came to it; look at the network",
                 operation, m->config.timeout_s);
    }
    end_job(m, w, status_exit_code(STATUS_LIBRARY), message);
}

/* Is it another's roll that is being called? */
static bool defers(const struct mpi *m, int64_t now)
{
    const struct roll *r = &m->roll;
    return r->called_ns > 0 && now - r->called_ns < ANSWER_NS + DEFER_NS;
}

/* Ranks before this one that call the roll as well. */
static int lower_callers(const struct mpi *m)
{
    int count = 0;
    for (int i = 0; i < m->rank; i++)
        count += m->roll.heard[i] && m->roll.said[i].kind == NOTICE_CALL;
    return count;
}

static void begin_roll(struct mpi *m, const struct wish *w, int64_t now)
{
    const struct roll *r = &m->roll;
    int64_t since = w->waiting_since_ns > m->moved_ns ? w->waiting_since_ns : m->moved_ns;
    bool limited = m->config.timeout_s > 0 && w->waiting > 0;
    if (defers(m, now))
        return;
    if (limited && (double)(now - since) > m->config.timeout_s * 1e9)
        call_roll(m, w, false);
    else if (now - r->ended_ns > URGENT_PAUSE_NS && m->config.stop_requested &&
             m->config.stop_requested())
        call_roll(m, w, true);
}

void roll_watch(struct mpi *m, const struct wish *w)
{
    struct roll *r = &m->roll;
    int64_t now = comm_now();
    if (!r->calling) {
        begin_roll(m, w, now);
        return;
    }
    if (!r->urgent && (w->waiting != r->awaited || m->moved_ns > r->began_ns)) {
        r->calling = false; /* it went on after all */
        return;
    }
    int64_t answer = r->urgent ? URGENT_ANSWER_NS : ANSWER_NS;
    if (now - r->began_ns < answer + lower_callers(m) * DEFER_NS)
        return;
    r->calling = false;
    r->ended_ns = now;
    judge(m, w);
}

void roll_explain(struct mpi *m, const struct wish *w)
{
    call_roll(m, w, true);
    while (m->roll.calling) {
        nap(MS);
        mpi_beat(m, comm_now());
        roll_listen(m, w);
        roll_watch(m, w);
    }
}

/* --- open and close --- */

enum status roll_open(struct mpi *m)
{
    struct roll *r = &m->roll;
    size_t size = (size_t)m->size;
    r->peer = calloc(size, sizeof *r->peer);
    r->out = calloc(size, sizeof *r->out);
    r->send = calloc(size, sizeof *r->send);
    r->heard = calloc(size, sizeof *r->heard);
    r->said = calloc(size, sizeof *r->said);
    if (!r->peer || !r->out || !r->send || !r->heard || !r->said)
        return status_fail(STATUS_OOM, "out of memory");
    for (size_t i = 0; i < size; i++)
        r->send[i] = MPI_REQUEST_NULL;
    struct peer own = {.pid = (int32_t)getpid()};
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        snprintf(own.host, sizeof own.host, "unknown");
    TRY(mpi_status(
        MPI_Allgather(&own, sizeof own, MPI_BYTE, r->peer, sizeof own, MPI_BYTE, m->control),
        "MPI_Allgather"));
    for (size_t i = 0; i < size; i++)
        r->peer[i].host[sizeof own.host - 1] = '\0';
    return listen_again(m);
}

/* Nobody talks any more when all have closed. */
void roll_close(struct mpi *m)
{
    struct roll *r = &m->roll;
    if (m->broken == STATUS_OK) {
        MPI_Cancel(&r->receive);
        MPI_Wait(&r->receive, MPI_STATUS_IGNORE);
    }
    free(r->peer);
    free(r->out);
    free(r->send);
    free(r->heard);
    free(r->said);
}
