/* Failure detection among the ranks of an MPI job: a job that cannot continue ends on every rank,
 * within seconds, with one line that names the rank at fault and why.
 *
 * A rank whose operation has not moved for the time limit queries all others. Every communication
 * thread that is alive answers with the number of operations that its caller has started, even
 * while the caller computes. When the time to answer is over the querying rank knows which ranks
 * are unresponsive and which are late, sends HEALTH_END to the others, prints the line and aborts
 * the job. If several ranks query at once, the lowest one reports; the others defer to it.
 *
 * A launcher that loses a rank sends the others SIGTERM and kills them a second later. A rank that
 * receives SIGTERM therefore queries at once, whatever its caller does. Such an urgent query faults
 * unresponsive ranks only: the signal may have come from the user, and all ranks may still exit in
 * order. */
#include "comm/mpi_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEALTH_TAG = 1,
    MOST_NAMED = 4, /* ranks in a message */
};
#define MS ((int64_t)1000000)
static const int64_t ANSWER_NS = 500 * MS;        /* to answer a query */
static const int64_t URGENT_ANSWER_NS = 300 * MS; /* when killed within the second */
static const int64_t URGENT_PAUSE_NS = 500 * MS;  /* between urgent queries */
static const int64_t DEFER_NS = 1000 * MS;        /* to each lower rank that queries */
static const int64_t DELIVERY_NS = 100 * MS;      /* for a last message to be delivered */
static const int64_t OUTPUT_NS =
    50 * MS; /* for the last line: the launcher may kill the rank supervisor that forwards it */
/* From HEALTH_END to the launcher's kill. A rank that exits before the reporter has printed its
 * line makes the launcher kill the reporter. */
static const int64_t REPORTER_NS = 5000 * MS;

/* --- messages --- */

static enum status post_receive(struct mpi *m)
{
    struct health *h = &m->health;
    return mpi_status(MPI_Irecv(&h->in, sizeof h->in, MPI_BYTE, MPI_ANY_SOURCE, HEALTH_TAG,
                                m->control, &h->receive),
                      "MPI_Irecv");
}

/* A rank that has not received the last message yet is sent no other: it is unresponsive anyway. An
 * error means that the rank cannot be reached; it will count as unresponsive. */
static void send_message(struct mpi *m, int rank, struct health_message n)
{
    struct health *h = &m->health;
    int gone = 0;
    if (MPI_Test(&h->send[rank], &gone, MPI_STATUS_IGNORE) != MPI_SUCCESS || !gone)
        return;
    h->out[rank] = n;
    if (MPI_Isend(&h->out[rank], sizeof n, MPI_BYTE, rank, HEALTH_TAG, m->control,
                  &h->send[rank]) != MPI_SUCCESS)
        h->send[rank] = MPI_REQUEST_NULL;
}

static void send_all(struct mpi *m, const struct caller_request *w, enum health_kind kind,
                     int exit_code)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank)
            send_message(m, i, (struct health_message){kind, exit_code, w->started, w->waiting});
}

static void sleep_ns(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

/* --- ending the job --- */

/* The rank that sent HEALTH_END prints the reason and aborts the job; where the abort does not
 * reach this process, it exits by itself. */
_Noreturn static void exit_unreported(struct mpi *m, int exit_code)
{
    mpi_beat(m, MPI_BEATS_NO_MORE);
    sleep_ns(REPORTER_NS);
    _exit(exit_code);
}

/* Sends HEALTH_END and waits for its delivery. If several ranks fail at once, the lowest one
 * reports; the others exit without reporting. */
static void elect_reporter(struct mpi *m, const struct caller_request *w, int exit_code)
{
    struct health *h = &m->health;
    mpi_beat(m, MPI_BEATS_NO_MORE);
    send_all(m, w, HEALTH_END, exit_code);
    for (int64_t until = comm_now() + DELIVERY_NS; comm_now() < until; sleep_ns(MS)) {
        int came = 0, gone = 0;
        MPI_Status from;
        for (int i = 0; i < m->size; i++)
            MPI_Test(&h->send[i], &gone, MPI_STATUS_IGNORE);
        if (MPI_Test(&h->receive, &came, &from) != MPI_SUCCESS || !came)
            continue;
        if (h->in.kind == HEALTH_END && from.MPI_SOURCE < m->rank)
            exit_unreported(m, h->in.exit_code);
        if (post_receive(m) != STATUS_OK)
            return;
    }
}

_Noreturn static void end_job(struct mpi *m, const struct caller_request *w, int exit_code,
                              const char *message)
{
    elect_reporter(m, w, exit_code);
    fprintf(stderr, "ampscale: %s\n", message);
    sleep_ns(OUTPUT_NS);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
}

_Noreturn void health_fail(struct mpi *m, const struct caller_request *w)
{
    end_job(m, w, status_exit_code(m->fail_status), m->fail_message);
}

/* --- queries --- */

static void handle_message(struct mpi *m, const struct caller_request *w, int rank,
                           const struct health_message *n)
{
    struct health *h = &m->health;
    h->answered[rank] = true;
    h->answer[rank] = *n;
    if (n->kind == HEALTH_END)
        exit_unreported(m, n->exit_code);
    if (n->kind == HEALTH_QUERY) {
        send_message(m, rank, (struct health_message){HEALTH_ALIVE, 0, w->started, w->waiting});
        h->queried_ns = comm_now();
    }
}

void health_receive(struct mpi *m, const struct caller_request *w)
{
    struct health *h = &m->health;
    for (;;) {
        int came = 0;
        MPI_Status from;
        if (MPI_Test(&h->receive, &came, &from) != MPI_SUCCESS || !came)
            return;
        struct health_message n = h->in;
        if (post_receive(m) != STATUS_OK)
            return;
        handle_message(m, w, from.MPI_SOURCE, &n);
    }
}

static void begin_query(struct mpi *m, const struct caller_request *w, bool urgent)
{
    struct health *h = &m->health;
    memset(h->answered, 0, (size_t)m->size * sizeof *h->answered);
    h->answered[m->rank] = true;
    h->answer[m->rank] = (struct health_message){HEALTH_QUERY, 0, w->started, w->waiting};
    h->querying = true;
    h->urgent = urgent;
    h->began_ns = comm_now();
    h->awaited = w->waiting;
    send_all(m, w, HEALTH_QUERY, 0);
}

static bool is_unresponsive(const struct health *h, int rank)
{
    return !h->answered[rank];
}

static bool is_late(const struct health *h, int rank)
{
    return h->answered[rank] && h->answer[rank].started < h->awaited;
}

/* "rank 1 (host a, pid 7)", "ranks 1 (host a, pid 7), 2 (host b, pid 9)"; returns how many. */
static int name_ranks(const struct mpi *m, bool (*is_at_fault)(const struct health *, int),
                      char *out, size_t size)
{
    int count = 0;
    size_t used = 0;
    for (int i = 0; i < m->size; i++)
        count += is_at_fault(&m->health, i);
    used += (size_t)snprintf(out, size, "rank%s", count > 1 ? "s" : "");
    for (int i = 0, named = 0; i < m->size && named < MOST_NAMED; i++) {
        if (!is_at_fault(&m->health, i))
            continue;
        const struct peer *p = &m->health.peer[i];
        used += (size_t)snprintf(out + used, size - used, "%s %d (host %s, pid %d)",
                                 named > 0 ? "," : "", i, p->host, (int)p->pid);
        named++;
    }
    if (count > MOST_NAMED)
        snprintf(out + used, size - used, " and %d more", count - MOST_NAMED);
    return count;
}

/* Ends the job if a rank is at fault. */
static void report_fault(struct mpi *m, const struct caller_request *w)
{
    struct health *h = &m->health;
    char who[COMM_MESSAGE_MAX], message[2 * COMM_MESSAGE_MAX], operation[COMM_TEXT_MAX] = "";
    if (h->awaited > 0)
        comm_op_text(&comm_slot_of(&m->base, h->awaited)->op, operation);
    if (name_ranks(m, is_unresponsive, who, sizeof who) > 0) {
        if (h->urgent)
            snprintf(message, sizeof message,
                     "%s did not answer after operation %lld; it may have died or be stuck", who,
                     (long long)(h->awaited > 0 ? h->awaited - 1 : w->started));
        else
            snprintf(message, sizeof message,
                     "%s did not reach %s within %g s; it may have died or be stuck", who,
                     operation, m->config.timeout_s);
    } else if (h->urgent) {
        return;
    } else if (name_ranks(m, is_late, who, sizeof who) > 0) {
        snprintf(message, sizeof message,
                 "%s did not reach %s within %g s; it is alive, and busy with something else", who,
                 operation, m->config.timeout_s);
    } else {
        snprintf(message, sizeof message,
                 "%s did not move for %g s, though every rank reached it; look at the network",
                 operation, m->config.timeout_s);
    }
    end_job(m, w, status_exit_code(STATUS_LIBRARY), message);
}

/* Is another rank querying? */
static bool defers_to_other(const struct mpi *m, int64_t now)
{
    const struct health *h = &m->health;
    return h->queried_ns > 0 && now - h->queried_ns < ANSWER_NS + DEFER_NS;
}

/* Lower ranks that query as well. */
static int lower_queriers(const struct mpi *m)
{
    int count = 0;
    for (int i = 0; i < m->rank; i++)
        count += m->health.answered[i] && m->health.answer[i].kind == HEALTH_QUERY;
    return count;
}

static void query_when_due(struct mpi *m, const struct caller_request *w, int64_t now)
{
    const struct health *h = &m->health;
    int64_t since = w->waiting_since_ns > m->moved_ns ? w->waiting_since_ns : m->moved_ns;
    bool limited = m->config.timeout_s > 0 && w->waiting > 0;
    if (defers_to_other(m, now))
        return;
    if (limited && (double)(now - since) > m->config.timeout_s * 1e9)
        begin_query(m, w, false);
    else if (now - h->ended_ns > URGENT_PAUSE_NS && m->config.stop_requested &&
             m->config.stop_requested())
        begin_query(m, w, true);
}

void health_check(struct mpi *m, const struct caller_request *w)
{
    struct health *h = &m->health;
    int64_t now = comm_now();
    if (!h->querying) {
        query_when_due(m, w, now);
        return;
    }
    if (!h->urgent && (w->waiting != h->awaited || m->moved_ns > h->began_ns)) {
        h->querying = false; /* the operation moved after all */
        return;
    }
    int64_t answer = h->urgent ? URGENT_ANSWER_NS : ANSWER_NS;
    if (now - h->began_ns < answer + lower_queriers(m) * DEFER_NS)
        return;
    h->querying = false;
    h->ended_ns = now;
    report_fault(m, w);
}

void health_explain(struct mpi *m, const struct caller_request *w)
{
    begin_query(m, w, true);
    while (m->health.querying) {
        sleep_ns(MS);
        mpi_beat(m, comm_now());
        health_receive(m, w);
        health_check(m, w);
    }
}

/* --- open and close --- */

enum status health_open(struct mpi *m)
{
    struct health *h = &m->health;
    size_t size = (size_t)m->size;
    h->peer = calloc(size, sizeof *h->peer);
    h->out = calloc(size, sizeof *h->out);
    h->send = calloc(size, sizeof *h->send);
    h->answered = calloc(size, sizeof *h->answered);
    h->answer = calloc(size, sizeof *h->answer);
    if (!h->peer || !h->out || !h->send || !h->answered || !h->answer)
        return status_fail(STATUS_OOM, "out of memory");
    for (size_t i = 0; i < size; i++)
        h->send[i] = MPI_REQUEST_NULL;
    struct peer own = {.pid = (int32_t)getpid()};
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        snprintf(own.host, sizeof own.host, "unknown");
    TRY(mpi_status(
        MPI_Allgather(&own, sizeof own, MPI_BYTE, h->peer, sizeof own, MPI_BYTE, m->control),
        "MPI_Allgather"));
    for (size_t i = 0; i < size; i++)
        h->peer[i].host[sizeof own.host - 1] = '\0';
    return post_receive(m);
}

/* No rank sends any more when all have closed. */
void health_close(struct mpi *m)
{
    struct health *h = &m->health;
    if (m->broken == STATUS_OK) {
        MPI_Cancel(&h->receive);
        MPI_Wait(&h->receive, MPI_STATUS_IGNORE);
    }
    free(h->peer);
    free(h->out);
    free(h->send);
    free(h->answered);
    free(h->answer);
}
