/* Failure detection among the ranks of an MPI job: a job that cannot continue ends on every rank,
 * within seconds, with one line that names the rank at fault and the reason.
 *
 * A rank whose operation makes no progress for the time limit queries all other ranks. Every
 * communication thread that is alive answers with the number of operations that its caller has
 * started, even while the caller computes. After ANSWER_NS the querying rank knows which ranks are
 * unresponsive and which are late. It sends HEALTH_END to the other ranks, prints the line and
 * aborts the job. If several ranks query at once, the lowest of them reports; the other ranks defer
 * to it.
 *
 * A launcher that loses a rank sends the other ranks SIGTERM and kills them a second later. A rank
 * that receives SIGTERM therefore queries at once, even while its caller computes. Such an urgent
 * query ends the job only if a rank is unresponsive, not if a rank is late: the signal may have
 * come from the user, and all ranks may still exit normally. */
#include "base/text.h"
#include "comm/mpi_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEALTH_TAG = 1,
    NAMED_MAX = 4, /* ranks in a message */
};
#define MS ((int64_t)1000000)
static const int64_t ANSWER_NS = 500 * MS;        /* time to answer a query */
static const int64_t URGENT_ANSWER_NS = 300 * MS; /* time to answer an urgent query: the launcher
                                                   * kills ranks after 1 s */
static const int64_t URGENT_PAUSE_NS = 500 * MS;  /* time between urgent queries */
/* A rank adds this to its time limit for answers, once for each lower rank that also queries. */
static const int64_t DEFER_NS = 1000 * MS;
static const int64_t DELIVERY_NS = 100 * MS; /* time to deliver HEALTH_END to the other
                                              * ranks */
/* Time from the printed line to the abort. The rank supervisor forwards the line in this time.
 * After the abort the launcher may kill the supervisor. */
static const int64_t OUTPUT_NS = 50 * MS;
/* The time that a rank waits for the launcher to kill it after it has received HEALTH_END. The rank
 * does not exit at once: the launcher could then kill the reporter before the reporter has printed
 * its line. */
static const int64_t REPORTER_NS = 5000 * MS;

/* --- messages --- */

static enum status post_receive(struct mpi *m)
{
    struct health *h = &m->health;
    return MPI_CALL(MPI_Irecv, &h->in, sizeof h->in, MPI_BYTE, MPI_ANY_SOURCE, HEALTH_TAG,
                    m->control, &h->receive);
}

/* Sends a message to a rank. Does nothing if the previous message to that rank is still
 * undelivered, because such a rank is unresponsive anyway. An error means that the rank cannot be
 * reached. The rank then does not answer and counts as unresponsive. */
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

static struct health_message message_of(enum health_kind kind, const struct caller_request *w)
{
    return (struct health_message){.kind = kind, .started = w->started, .waiting = w->waiting};
}

static void send_all(struct mpi *m, struct health_message n)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank)
            send_message(m, i, n);
}

/* --- ending the job --- */

void health_before_end(const struct mpi *m, enum status st, const char *message)
{
    if (m->config.ending)
        m->config.ending(m->config.context, st, message);
}

/* Exits without reporting, because the rank that sent HEALTH_END prints the reason and aborts the
 * job. If the abort does not end this process within REPORTER_NS, this function ends it. */
_Noreturn static void exit_unreported(struct mpi *m, const struct health_message *end)
{
    char message[COMM_MESSAGE_MAX];
    mpi_beat(m, MPI_BEATS_NO_MORE);
    snprintf(message, sizeof message, "%.*s", COMM_MESSAGE_MAX - 1, end->text);
    health_before_end(m, (enum status)end->status, message);
    comm_sleep(REPORTER_NS);
    _exit(status_exit_code((enum status)end->status));
}

/* Sends h->end to all ranks, even to a stopped rank that has not received the last query yet. A
 * launcher resumes a stopped rank before it kills the rank. Without this message, the resumed rank
 * would report this rank as unresponsive. */
static void send_end(struct mpi *m)
{
    struct health *h = &m->health;
    for (int i = 0; i < m->size; i++) {
        MPI_Request send;
        if (i != m->rank && MPI_Isend(&h->end, sizeof h->end, MPI_BYTE, i, HEALTH_TAG, m->control,
                                      &send) == MPI_SUCCESS)
            MPI_Request_free(&send);
    }
}

/* Sends HEALTH_END to all ranks and waits for its delivery. If several ranks fail at once, this
 * function returns only on the lowest of these ranks, which reports. The other ranks exit without
 * reporting. */
static void elect_reporter(struct mpi *m, const struct caller_request *w, enum status st,
                           const char *message)
{
    struct health *h = &m->health;
    h->end = message_of(HEALTH_END, w);
    h->end.status = (int32_t)st;
    snprintf(h->end.text, sizeof h->end.text, "%s", message);
    mpi_beat(m, MPI_BEATS_NO_MORE);
    send_end(m);
    for (int64_t until = comm_now() + DELIVERY_NS; comm_now() < until; comm_sleep(MS)) {
        int came = 0;
        MPI_Status from;
        if (MPI_Test(&h->receive, &came, &from) != MPI_SUCCESS || !came)
            continue;
        if (h->in.kind == HEALTH_END && from.MPI_SOURCE < m->rank)
            exit_unreported(m, &h->in);
        if (post_receive(m) != STATUS_OK)
            return;
    }
}

_Noreturn static void end_job(struct mpi *m, const struct caller_request *w, enum status st,
                              const char *message)
{
    int exit_code = status_exit_code(st);
    elect_reporter(m, w, st, message);
    fprintf(stderr, "ampscale: %s\n", message);
    health_before_end(m, st, message);
    comm_sleep(OUTPUT_NS);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
}

_Noreturn void health_fail(struct mpi *m, const struct caller_request *w)
{
    end_job(m, w, m->fail_status, m->fail_message);
}

/* --- queries --- */

static void handle_message(struct mpi *m, const struct caller_request *w, int rank,
                           const struct health_message *n)
{
    struct health *h = &m->health;
    h->answered[rank] = true;
    h->answer[rank] = *n;
    if (n->kind == HEALTH_END)
        exit_unreported(m, n);
    if (n->kind == HEALTH_QUERY) {
        send_message(m, rank, message_of(HEALTH_ALIVE, w));
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
    h->answer[m->rank] = message_of(HEALTH_QUERY, w);
    h->querying = true;
    h->urgent = urgent;
    h->began_ns = comm_now();
    h->awaited = w->waiting;
    send_all(m, h->answer[m->rank]);
}

static bool is_unresponsive(const struct health *h, int rank)
{
    return !h->answered[rank];
}

static bool is_late(const struct health *h, int rank)
{
    return h->answered[rank] && h->answer[rank].started < h->awaited;
}

/* Writes the ranks at fault, as "rank 1 (host a, pid 7)" or "ranks 1 (host a, pid 7), 2 (host b,
 * pid 9)". Returns their number. */
static int name_ranks(const struct mpi *m, bool (*is_at_fault)(const struct health *, int),
                      char *out, size_t size)
{
    int count = 0;
    char names[COMM_MESSAGE_MAX - 32] = "";
    for (int i = 0; i < m->size; i++) {
        const struct peer *p = &m->health.peer[i];
        if (is_at_fault(&m->health, i) && count++ < NAMED_MAX)
            text_join(names, sizeof names, ", ", "%d (host %s, pid %d)", i, p->host, (int)p->pid);
    }
    snprintf(out, size, "rank%s %s", count > 1 ? "s" : "", names);
    if (count > NAMED_MAX)
        text_append(out, size, " and %d more", count - NAMED_MAX);
    return count;
}

/* Ends the job with a line that names the ranks at fault. Returns only after an urgent query that
 * all ranks have answered. */
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
        snprintf(
            message, sizeof message,
            "%s did not reach %s within %g s; the process is alive, but busy with something else",
            who, operation, m->config.timeout_s);
    } else {
        snprintf(message, sizeof message,
                 "%s made no progress for %g s, though every rank reached it; check the network",
                 operation, m->config.timeout_s);
    }
    end_job(m, w, STATUS_LOST_RANK, message);
}

/* Is another rank querying? */
static bool defers_to_other(const struct mpi *m, int64_t now)
{
    const struct health *h = &m->health;
    return h->queried_ns > 0 && now - h->queried_ns < ANSWER_NS + DEFER_NS;
}

/* The number of ranks that also query and are lower than this rank. */
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
        h->querying = false; /* the operation has made progress since the query began */
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
        comm_sleep(MS);
        mpi_beat(m, comm_now());
        health_receive(m, w);
        health_check(m, w);
    }
}

/* --- open and close --- */

enum status health_open(struct mpi *m)
{
    struct health *h = &m->health;
    TRY(array_new(&h->peer, m->size));
    TRY(array_new(&h->out, m->size));
    TRY(array_new(&h->send, m->size));
    TRY(array_new(&h->answered, m->size));
    TRY(array_new(&h->answer, m->size));
    for (int i = 0; i < m->size; i++)
        h->send[i] = MPI_REQUEST_NULL;
    struct peer own = {.pid = (int32_t)getpid()};
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        snprintf(own.host, sizeof own.host, "unknown");
    TRY(MPI_CALL(MPI_Allgather, &own, sizeof own, MPI_BYTE, h->peer, sizeof own, MPI_BYTE,
                 m->control));
    for (int i = 0; i < m->size; i++) {
        h->peer[i].host[sizeof own.host - 1] = '\0';
        snprintf(own.host, sizeof own.host, "%s", h->peer[i].host);
        text_clean(h->peer[i].host, sizeof own.host, own.host);
    }
    return post_receive(m);
}

/* Cancels the receive, because no rank sends messages when every rank has closed. */
void health_close(struct mpi *m)
{
    struct health *h = &m->health;
    if (m->failure.status == STATUS_OK) {
        MPI_Cancel(&h->receive);
        MPI_Wait(&h->receive, MPI_STATUS_IGNORE);
    }
    free(h->peer);
    free(h->out);
    free(h->send);
    free(h->answered);
    free(h->answer);
}
