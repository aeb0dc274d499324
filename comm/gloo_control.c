/* The control messages of the Gloo communicator. They go over the connections to rank 0, and say
 * that a rank has failed, that it still runs, or that it closes.
 *
 * A rank that fails informs rank 0, which informs all other ranks. When the connection between two
 * ranks is lost, each of them waits for a message from rank 0, which knows why the other rank
 * ended. When an operation makes no progress in time, rank 0 asks all ranks which operation they
 * have reached. */
#include "comm/gloo_internal.h"

#include <stdio.h>
#include <unistd.h>

static const int64_t ANSWER_NS = 3000000000; /* time limit for the answer to a query */

static enum status tcp_put(struct gloo *g, int rank, const struct tcp_message *m)
{
    return socket_put(control_socket(g->control, rank), m, sizeof *m, g->timeout_s);
}

static enum status tcp_get(struct gloo *g, int rank, struct tcp_message *m)
{
    TRY(socket_get(control_socket(g->control, rank), m, sizeof *m, g->timeout_s));
    m->message[TCP_TEXT_MAX - 1] = '\0';
    return STATUS_OK;
}

/* Sends a failure to all ranks to which this rank is connected; ignores errors. */
static void tcp_put_failure(struct gloo *g, enum status st, const char *message)
{
    struct tcp_message failed = {.intent.kind = TCP_FAILED, .st = (int32_t)st};
    snprintf(failed.message, sizeof failed.message, "%.*s", TCP_TEXT_MAX - 1, message);
    for (int r = 0; r < g->base.size; r++)
        if (control_socket(g->control, r) >= 0)
            (void)!tcp_put(g, r, &failed);
}

/* The status in a message about a failure; STATUS_LIBRARY if the message has an unknown status. */
static enum status tcp_message_status(const struct tcp_message *m)
{
    bool known = m->st > STATUS_OK && m->st <= STATUS_LOST_RANK;
    return known ? (enum status)m->st : STATUS_LIBRARY;
}

static bool is_troubled(const struct gloo *g)
{
    return g->trouble.status != STATUS_OK;
}

/* Stores the failure, if it is the first, and sends it to the ranks to which `control` connects
 * this rank. */
static void end_all(struct gloo *g, enum status st, const char *message)
{
    if (is_troubled(g))
        return;
    comm_failure_keep(&g->trouble, st, "%s", message);
    tcp_put_failure(g, st, message);
}

/* Writes " in operation 5 (barrier)", or "" if no operation is in progress. */
static const char *in_operation(const struct gloo *g, char out[COMM_TEXT_MAX])
{
    char text[COMM_TEXT_MAX - 4];
    out[0] = '\0';
    if (g->op)
        snprintf(out, COMM_TEXT_MAX, " in %.59s", comm_op_text(g->op, text));
    return out;
}

static void end_lost(struct gloo *g, int rank, const char *why)
{
    char text[COMM_TEXT_MAX], message[TCP_TEXT_MAX];
    snprintf(message, sizeof message, "the connection to rank %d was lost%s: %.120s", rank,
             in_operation(g, text), why);
    end_all(g, STATUS_LOST_RANK, message);
}

static struct tcp_message message_of(const struct gloo *g, enum tcp_kind kind)
{
    struct tcp_message m = {.intent = {.number = g->carried_out, .kind = (int32_t)kind}};
    if (g->op)
        m.under_way = comm_intent_of(g->op);
    return m;
}

static void put(struct gloo *g, int rank, enum tcp_kind kind)
{
    struct tcp_message m = message_of(g, kind);
    if (tcp_put(g, rank, &m) != STATUS_OK)
        end_lost(g, rank, status_message());
}

/* --- closing --- */

void gloo_check_closed(struct gloo *g)
{
    char text[COMM_TEXT_MAX], message[TCP_TEXT_MAX];
    for (int r = 1; r < g->base.size && g->op && g->base.rank == 0; r++)
        if (g->closed_after[r] >= 0 && g->closed_after[r] < g->op->handle) {
            snprintf(message, sizeof message, "rank %d ended before %s", r,
                     comm_op_text(g->op, text));
            end_all(g, STATUS_LOST_RANK, message);
        }
}

static void note_closing(struct gloo *g, int rank, const struct tcp_message *m)
{
    g->all_closed = true;
    g->closed_after[rank] = m->intent.number;
    for (int r = 1; r < g->base.size && g->base.rank == 0; r++)
        g->all_closed = g->all_closed && g->closed_after[r] >= 0;
    g->watch[g->base.rank == 0 ? rank : 1] = -1;
    gloo_check_closed(g);
}

void gloo_part(struct gloo *g)
{
    g->all_closed = g->base.size == 1 || g->all_closed;
    if (g->base.rank > 0)
        put(g, 0, TCP_CLOSING);
    gloo_listen(g, &g->all_closed, comm_deadline(g->timeout_s));
    for (int r = 1; r < g->base.size && g->base.rank == 0 && !is_troubled(g); r++)
        put(g, r, TCP_CLOSING);
}

/* --- inquiries --- */

/* Reads a message that rank `rank` sends during an inquiry. */
static void take_answer(struct gloo *g, int rank)
{
    struct tcp_message m;
    if (tcp_get(g, rank, &m) != STATUS_OK)
        end_lost(g, rank, status_message());
    else if (m.intent.kind == TCP_FAILED)
        end_all(g, tcp_message_status(&m), m.message);
    else if (m.intent.kind == TCP_CLOSING)
        note_closing(g, rank, &m);
    else if (m.intent.kind == TCP_ALIVE)
        g->answer[rank] = m;
}

static bool has_answered(const struct gloo *g, int rank)
{
    return g->answer[rank].intent.kind == TCP_ALIVE;
}

static bool all_answered(const struct gloo *g)
{
    for (int r = 1; r < g->base.size; r++)
        if (!has_answered(g, r) && g->closed_after[r] < 0)
            return false;
    return true;
}

static void collect_answers(struct gloo *g)
{
    int64_t until = comm_now() + ANSWER_NS;
    while (!is_troubled(g) && !all_answered(g) && comm_now() < until)
        for (int r = 1; r < g->base.size && !is_troubled(g); r++) {
            struct pollfd p = {.fd = g->watch[r], .events = POLLIN};
            if (poll(&p, 1, has_answered(g, r) ? 0 : 10) > 0)
                take_answer(g, r);
        }
}

/* Fails all ranks if rank r and this rank have started different operations. */
static void compare(struct gloo *g, int r)
{
    const struct comm_intent *theirs = &g->answer[r].under_way;
    if (!g->op || theirs->number != g->op->handle)
        return;
    struct comm_intent own = comm_intent_of(g->op);
    if (comm_intent_check(r, theirs, &own) != STATUS_OK)
        end_all(g, STATUS_INVALID, status_message());
}

/* Fails all ranks if rank r has not answered, or has not reached the operation `awaited`. */
static void blame(struct gloo *g, int r, const struct comm_op *awaited)
{
    char text[COMM_TEXT_MAX], message[TCP_TEXT_MAX];
    const struct tcp_message *m = &g->answer[r];
    bool reached = m->intent.number >= awaited->handle || m->under_way.number >= awaited->handle;
    if (g->closed_after[r] >= 0 || reached)
        return;
    snprintf(message, sizeof message, "rank %d did not reach %s within %g s; %s", r,
             comm_op_text(awaited, text), g->timeout_s,
             has_answered(g, r) ? "the process is alive, but busy with something else"
                                : "it may have died or be stuck");
    end_all(g, STATUS_LOST_RANK, message);
}

/* Called on rank 0. Asks all ranks which operation they have reached. Then fails all ranks with a
 * message that names the cause. A rank that started another operation is the cause even if a
 * further rank has not started any: that rank may only be late. */
static void inquire(struct gloo *g, const struct comm_op *awaited)
{
    char text[COMM_TEXT_MAX], message[TCP_TEXT_MAX];
    comm_op_text(awaited, text);
    for (int r = 1; r < g->base.size && !is_troubled(g); r++) {
        g->answer[r] = (struct tcp_message){0};
        if (g->closed_after[r] < 0)
            put(g, r, TCP_QUERY);
    }
    collect_answers(g);
    for (int r = 1; r < g->base.size && !is_troubled(g); r++)
        compare(g, r);
    for (int r = 1; r < g->base.size && !is_troubled(g); r++)
        blame(g, r, awaited);
    if (g->carried_out < awaited->handle && (!g->op || g->op->handle < awaited->handle))
        snprintf(message, sizeof message,
                 "rank 0 did not reach %s within %g s; the process is alive, but busy with "
                 "something else",
                 text, g->timeout_s);
    else
        snprintf(message, sizeof message,
                 "%s made no progress within %g s, although every rank answers: the network may be "
                 "stuck",
                 text, g->timeout_s);
    end_all(g, STATUS_LOST_RANK, message); /* does nothing if an earlier failure is stored */
}

/* Starts an inquiry on behalf of another rank: `m` describes the operation for which that rank
 * waits. */
static void inquire_for(struct gloo *g, const struct tcp_message *m)
{
    struct comm_op awaited = {.kind = (enum comm_kind)m->under_way.kind,
                              .handle = m->under_way.number};
    inquire(g, &awaited);
}

/* Another rank has another operation than the sender of `m`. Inquires when rank 0 has begun its
 * own, with which it can compare theirs. */
static void take_dispute(struct gloo *g, const struct tcp_message *m)
{
    if (m->under_way.number <= g->carried_out || (g->op && m->under_way.number <= g->op->handle))
        inquire_for(g, m);
    else
        g->disputed = m->under_way.number;
}

void gloo_check_disputed(struct gloo *g)
{
    if (g->disputed == g->op->handle)
        inquire(g, g->op);
}

/* Asks rank 0 to inquire. If rank 0 does not answer, fails with `st` and the message `fallback`. */
static void appeal(struct gloo *g, enum tcp_kind why, enum status st, const char *fallback)
{
    if (g->base.rank == 0) {
        inquire(g, g->op);
        return;
    }
    put(g, 0, why);
    gloo_listen(g, NULL, comm_now() + 2 * ANSWER_NS);
    end_all(g, st, fallback);
}

bool gloo_overdue(struct gloo *g)
{
    char text[COMM_TEXT_MAX], message[TCP_TEXT_MAX];
    snprintf(message, sizeof message, "rank 0 did not reach %s within %g s; it may be stuck",
             comm_op_text(g->op, text), g->timeout_s);
    appeal(g, TCP_OVERDUE, STATUS_LOST_RANK, message);
    return true;
}

void gloo_explain(struct gloo *g, const struct gloo_result *result)
{
    char text[COMM_TEXT_MAX], message[TCP_TEXT_MAX];
    if (result->end == GLOO_LOST) {
        gloo_listen(g, NULL, comm_now() + ANSWER_NS);
        end_lost(g, result->rank, result->message);
    } else if (result->end == GLOO_DIFFER) {
        snprintf(message, sizeof message, "rank %d started another operation than %s: %.120s",
                 result->rank, comm_op_text(g->op, text), result->message);
        appeal(g, TCP_DIFFERS, STATUS_INVALID, message);
    } else if (result->end == GLOO_FAILED) {
        snprintf(message, sizeof message, "%s: %.160s", comm_op_text(g->op, text), result->message);
        end_all(g, STATUS_LIBRARY, message);
    }
}

/* --- messages --- */

/* Handles a wake-up by the caller's thread: fails all ranks if that thread has requested it. */
static void take_wake(struct gloo *g)
{
    uint64_t count;
    if (read(g->watch[0], &count, sizeof count) < 0)
        return; /* another call has handled the wake-up */
    pthread_mutex_lock(&g->lock);
    bool fail = g->fail;
    pthread_mutex_unlock(&g->lock);
    if (fail)
        end_all(g, g->fail_status, g->fail_message);
}

static void take_message(struct gloo *g, int rank)
{
    struct tcp_message m;
    if (tcp_get(g, rank, &m) != STATUS_OK) {
        end_lost(g, rank, status_message());
        return;
    }
    switch (m.intent.kind) {
    case TCP_FAILED:
        if (g->base.rank == 0)
            end_all(g, tcp_message_status(&m), m.message);
        else /* rank 0 has already informed the other ranks */
            comm_failure_keep(&g->trouble, tcp_message_status(&m), "%s", m.message);
        break;
    case TCP_QUERY:
        put(g, rank, TCP_ALIVE);
        break;
    case TCP_OVERDUE:
        inquire_for(g, &m);
        break;
    case TCP_DIFFERS:
        take_dispute(g, &m);
        break;
    case TCP_CLOSING:
        note_closing(g, rank, &m);
        break;
    default: /* an answer that came too late */
        break;
    }
}

bool gloo_readable(struct gloo *g, int i)
{
    if (i == 0)
        take_wake(g);
    else
        take_message(g, g->base.rank == 0 ? i : 0);
    return is_troubled(g);
}

/* The timeout for poll, in milliseconds: the time until `until_ns`, but at most one minute. -1: no
 * limit. */
static int poll_time(int64_t until_ns)
{
    if (until_ns == INT64_MAX)
        return -1;
    int64_t left = (until_ns - comm_now()) / 1000000 + 1;
    return left > 60000 ? 60000 : left < 0 ? 0 : (int)left;
}

void gloo_listen_once(struct gloo *g, int64_t until_ns)
{
    for (int i = 0; i < g->watches; i++)
        g->poll[i] = (struct pollfd){.fd = g->watch[i], .events = POLLIN};
    int ready = poll(g->poll, (nfds_t)g->watches, poll_time(until_ns));
    for (int i = 0; i < g->watches && ready > 0; i++)
        if (g->poll[i].revents && g->watch[i] >= 0)
            gloo_readable(g, i);
}

void gloo_listen(struct gloo *g, const bool *over, int64_t until_ns)
{
    while (!is_troubled(g) && !(over && *over) && comm_now() < until_ns)
        gloo_listen_once(g, until_ns);
}
