/* Finds out when a rank fails, is lost or is late, for MPI and Gloo alike: a thread of each process
 * watches its connection to rank 0, whatever the process itself does. A rank that fails informs
 * rank 0, which informs all others. A lost process closes its connection. When an operation makes
 * no progress in time, rank 0 asks all ranks which operation they have reached, and names the one
 * at fault. Rank 0 prints the reason; if rank 0 is at fault, the lowest other rank does. */
#include "base/file.h"
#include "comm/control.h"
#include "comm/internal.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TEXT_MAX = 320, HOST_MAX = 64, CLOSES = COMM_KIND_COUNT };
#define MS ((int64_t)1000000)
static const int64_t CHECK_NS = 50 * MS;    /* time between checks of the operation under way */
static const int64_t ANSWER_NS = 3000 * MS; /* time limit for the answer to a query */
static const double MESSAGE_S = 3;          /* time limit for the rest of a message */
/* Rank r prints r - 1 turns after rank 0 was lost, unless the launcher ends it before. */
static const int64_t TURN_NS = 3000 * MS;
/* Time from the printed line to the end of the process, in which it is forwarded. The others wait
 * for the launcher, which ends them when one has ended: that must be the one that prints. */
static const int64_t OUTPUT_NS = 50 * MS, REPORTER_NS = 3000 * MS;

enum kind {
    HELLO,   /* the sender's process, its host in `text` */
    FAILED,  /* the ranks cannot continue, for the reason in `st` and `text` */
    QUERY,   /* rank 0 asks which operation the receiver has reached */
    ALIVE,   /* the answer */
    OVERDUE, /* to rank 0: the sender's operation has made no progress in time */
    CLOSING, /* to rank 0: the sender starts no more operations; from rank 0: no rank does */
};

/* An operation; of kind CLOSES, in its place the rank closes. */
struct point {
    int64_t number; /* 0: none */
    int32_t kind;   /* an enum comm_kind, or CLOSES */
};

/* All ranks run the same build and have the same byte order. */
struct message {
    int32_t kind, st, pid;
    int32_t reported;       /* of FAILED: the sender has printed the reason, or will at once */
    struct point under_way; /* the sender's operation */
    int64_t over;           /* number of the sender's last operation */
    char text[TEXT_MAX];
};

struct peer {
    int fd; /* -1: not watched */
    char name[HOST_MAX + 64];
    int64_t closing_at; /* number of the operation in whose place the rank closes; 0: none */
    struct message answer;
};

struct health {
    struct health_config config;
    struct peer *peer;   /* (size) */
    struct pollfd *poll; /* (size + 1) */
    pthread_t thread;
    int wake; /* an eventfd */

    /* The operation under way, written by the thread that carries it out. */
    _Atomic int64_t number, over;
    _Atomic int32_t kind;
    atomic_uint moved;

    pthread_mutex_t lock; /* guards the requests and `ended` */
    pthread_cond_t change;
    bool explain, fail, close;
    struct first_failure request; /* of `explain` or `fail` */
    bool ended;

    /* Only the health thread uses the members below. */
    bool finished, closing, all_closing;
    struct first_failure fallback; /* the reason if rank 0 says nothing until verdict_ns */
    int64_t verdict_ns;            /* INT64_MAX: no verdict is awaited */
    int64_t checked_ns, stalled_ns, seen_number;
    unsigned seen_moved;
};

/* --- the operation under way --- */

void health_begin(struct health *h, const struct comm_op *op)
{
    atomic_store_explicit(&h->kind, (int32_t)op->kind, memory_order_relaxed);
    atomic_store_explicit(&h->number, op->handle, memory_order_release);
}

void health_moved(struct health *h)
{
    atomic_fetch_add_explicit(&h->moved, 1, memory_order_relaxed);
}

void health_over(struct health *h)
{
    int64_t number = atomic_load_explicit(&h->number, memory_order_relaxed);
    atomic_store_explicit(&h->over, number, memory_order_relaxed);
    atomic_store_explicit(&h->number, 0, memory_order_release);
}

static struct point under_way(const struct health *h)
{
    int64_t number = atomic_load_explicit(&h->number, memory_order_acquire);
    if (number == 0 && h->closing)
        return (struct point){h->over + 1, CLOSES};
    return (struct point){number, h->kind};
}

static const char *point_text(const struct point *at, char out[COMM_TEXT_MAX])
{
    const struct comm_op op = {.kind = (enum comm_kind)at->kind, .handle = at->number};
    if (at->kind != CLOSES)
        return comm_op_text(&op, out);
    snprintf(out, COMM_TEXT_MAX, "the end of the job");
    return out;
}

/* --- messages --- */

static struct message message_of(const struct health *h, enum kind kind)
{
    return (struct message){.kind = kind, .under_way = under_way(h), .over = h->over};
}

static bool put(struct health *h, int r, const struct message *m)
{
    return h->peer[r].fd >= 0 && socket_put(h->peer[r].fd, m, sizeof *m, MESSAGE_S) == STATUS_OK;
}

/* A rank may have failed while it connected, after this rank had connected. */
static enum status get(struct health *h, int r, struct message *m)
{
    union {
        struct message own;
        struct control_message early;
    } in;
    const struct first_failure *failure = &in.early.failure;
    int fd = h->peer[r].fd;
    enum status st = socket_get_plain(fd, &in, sizeof in.early.magic, MESSAGE_S);
    bool early = st == STATUS_OK && in.early.magic == CONTROL_MAGIC;
    size_t size = early ? sizeof in.early : sizeof in.own;
    if (st == STATUS_OK)
        st = socket_get_rest(fd, &in, sizeof in.early.magic, size, MESSAGE_S);
    if (st != STATUS_OK)
        return status_context(st, "rank %d: the connection to rank %d failed", h->config.rank, r);
    *m = in.own;
    if (early) {
        *m = (struct message){
            .kind = FAILED, .st = (int32_t)failure->status, .reported = h->config.rank > 0};
        snprintf(m->text, TEXT_MAX, "%.*s", TEXT_MAX - 1, failure->message);
    }
    m->text[TEXT_MAX - 1] = '\0';
    if (m->st <= STATUS_OK || m->st > STATUS_LOST_RANK)
        m->st = STATUS_LIBRARY;
    return STATUS_OK;
}

/* --- the end --- */

static void finish(struct health *h, enum status st, const char *message, bool reports)
{
    h->finished = true;
    if (h->config.exits && reports)
        fprintf(stderr, "ampscale: %s\n", message);
    if (h->config.speaks && reports && h->config.rank == 1)
        *h->config.speaks = true;
    if (h->config.ended)
        h->config.ended(h->config.context, st, message);
    if (h->config.exits) {
        comm_sleep(reports ? OUTPUT_NS : REPORTER_NS);
        _exit(status_exit_code(st));
    }
    pthread_mutex_lock(&h->lock);
    h->ended = true;
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
}

/* Fails all ranks. `decides`: this is rank 0, or rank 0 is lost or does not answer; if not, this
 * rank asks rank 0 to fail all ranks. */
static void end(struct health *h, enum status st, const char *message, bool decides)
{
    struct message failed = message_of(h, FAILED);
    int rank = h->config.rank;
    bool sent = false;
    if (h->finished)
        return;
    if (decides && rank > 1 && h->config.exits)
        comm_sleep((rank < 4 ? rank - 1 : 3) * TURN_NS);
    /* A launcher lets a stopped rank 0 continue before it ends it: rank 0 must not report again.
     * Over Gloo the main thread prints; that of a rank 0 at fault is busy. */
    const char *own = h->peer[rank].name;
    failed.reported = decides && (h->config.exits || strncmp(message, own, strlen(own)) != 0);
    failed.st = (int32_t)st;
    snprintf(failed.text, sizeof failed.text, "%s", message);
    for (int r = 0; r < h->config.size; r++)
        sent = put(h, r, &failed) || sent;
    finish(h, st, failed.text, decides || !sent);
}

PRINTF_LIKE(3, 4)
static void end_named(struct health *h, int rank, const char *fmt, ...)
{
    char message[TEXT_MAX];
    va_list ap;
    int n = snprintf(message, sizeof message, "%s ", h->peer[rank].name);
    va_start(ap, fmt);
    vsnprintf(message + n, sizeof message - (size_t)n, fmt, ap);
    va_end(ap);
    end(h, STATUS_LOST_RANK, message, true);
}

static void end_lost(struct health *h, int rank)
{
    char text[COMM_TEXT_MAX];
    struct point i = under_way(h);
    h->peer[rank].fd = -1;
    if (i.number > 0)
        end_named(h, rank, "was lost in %s: its connection was closed", point_text(&i, text));
    else
        end_named(h, rank, "was lost after operation %lld: its connection was closed",
                  (long long)h->over);
}

/* --- closing --- */

/* On rank 0: a rank that is closing will not carry out the operation under way. */
static void check_closing(struct health *h)
{
    char text[COMM_TEXT_MAX];
    struct point i = under_way(h);
    h->all_closing = h->closing;
    for (int r = 1; r < h->config.size; r++) {
        int64_t at = h->peer[r].closing_at;
        h->all_closing = h->all_closing && at > 0;
        if (at > 0 && i.number >= at && i.kind != CLOSES)
            end_named(h, r, "ended before %s", point_text(&i, text));
    }
    struct message closing = message_of(h, CLOSING);
    for (int r = 1; r < h->config.size && h->all_closing && !h->finished; r++)
        (void)put(h, r, &closing);
}

/* --- inquiries of rank 0 --- */

static void take_message(struct health *h, int rank);

static void collect_answers(struct health *h)
{
    for (int64_t until = comm_now() + ANSWER_NS; !h->finished && comm_now() < until;) {
        bool all = true;
        for (int r = 1; r < h->config.size && !h->finished; r++) {
            struct pollfd p = {.fd = h->peer[r].fd, .events = POLLIN};
            bool answered = h->peer[r].answer.kind == ALIVE;
            all = all && answered;
            if (!answered && poll(&p, 1, 10) > 0)
                take_message(h, r);
        }
        if (all)
            return;
    }
}

/* Fails all ranks if rank r has not reached the operation `awaited`, and has answered or not. */
static void blame(struct health *h, int r, const struct point *awaited, bool answered)
{
    char text[COMM_TEXT_MAX];
    const struct message *m = &h->peer[r].answer;
    if (m->over < awaited->number && m->under_way.number < awaited->number &&
        (m->kind == ALIVE) == answered)
        end_named(h, r, "did not reach %s within %g s; %s", point_text(awaited, text),
                  h->config.timeout_s,
                  answered ? "the process is alive, but busy with something else"
                           : "it may have died or be stuck");
}

/* Asks all ranks which operation they have reached, and fails all ranks with a message that names
 * the one at fault. */
static void inquire(struct health *h, struct point awaited)
{
    char text[COMM_TEXT_MAX], message[TEXT_MAX];
    const struct message query = message_of(h, QUERY);
    struct point own = under_way(h);
    point_text(&awaited, text);
    for (int r = 1; r < h->config.size; r++) {
        h->peer[r].answer = (struct message){.kind = QUERY};
        (void)put(h, r, &query); /* a lost rank does not answer */
    }
    collect_answers(h);
    for (int answered = 0; answered <= 1; answered++) /* a lost rank makes others late */
        for (int r = 1; r < h->config.size && !h->finished; r++)
            blame(h, r, &awaited, answered);
    if (!h->finished && h->over < awaited.number && own.number < awaited.number)
        end_named(
            h, 0,
            "did not reach %s within %g s; the process is alive, but busy with something else",
            text, h->config.timeout_s);
    snprintf(
        message, sizeof message,
        "%s made no progress within %g s, although every rank answers: the network may be stuck",
        text, h->config.timeout_s);
    end(h, STATUS_LOST_RANK, message, true);
}

/* --- the thread --- */

static void take_hello(struct health *h, int rank, const struct message *m)
{
    snprintf(h->peer[rank].name, sizeof h->peer[rank].name, "rank %d (host %.*s, pid %d)", rank,
             HOST_MAX - 1, m->text, (int)m->pid);
}

static void take_message(struct health *h, int rank)
{
    struct message m, alive;
    enum status st = get(h, rank, &m);
    if (st == STATUS_MISMATCH)
        end(h, st, status_message(), h->config.rank == 0);
    if (st != STATUS_OK) {
        end_lost(h, rank); /* without effect after `end` */
        return;
    }
    switch (m.kind) {
    case HELLO:
        take_hello(h, rank, &m);
        break;
    case FAILED:
        if (h->config.rank == 0 && !m.reported)
            end(h, (enum status)m.st, m.text, true);
        else
            finish(h, (enum status)m.st, m.text, h->config.rank > 0 && !m.reported);
        break;
    case QUERY:
        alive = message_of(h, ALIVE);
        (void)put(h, rank, &alive);
        break;
    case ALIVE:
        h->peer[rank].answer = m;
        break;
    case OVERDUE:
        inquire(h, m.under_way);
        break;
    case CLOSING:
        h->peer[rank].closing_at = m.under_way.number;
        h->all_closing = h->config.rank > 0;
        break;
    default:
        break;
    }
}

/* Takes the requests of the other threads of this process. */
static void take_requests(struct health *h)
{
    pthread_mutex_lock(&h->lock);
    bool fail = h->fail, explain = h->explain, close = h->close;
    enum status st = h->request.status;
    h->explain = false;
    pthread_mutex_unlock(&h->lock);
    if (fail) {
        end(h, st, h->request.message, h->config.rank == 0);
    } else if (explain && h->verdict_ns == INT64_MAX) {
        h->fallback = h->request;
        h->verdict_ns = comm_now() + ANSWER_NS; /* rank 0 finds a lost connection itself */
    } else if (close && !h->closing) {
        h->closing = true;
        struct message m = message_of(h, CLOSING);
        if (h->config.rank > 0 && !put(h, 0, &m))
            end_lost(h, 0);
    }
}

/* Counts the time in which the operation under way has made no progress. Time in which the whole
 * process was stopped does not count. */
static void check_time(struct health *h)
{
    char text[COMM_TEXT_MAX];
    struct point i = under_way(h);
    unsigned moved = h->moved;
    int64_t now = comm_now(), passed = now - h->checked_ns;
    h->checked_ns = now;
    if (i.number == 0 || i.number != h->seen_number || moved != h->seen_moved) {
        h->seen_number = i.number;
        h->seen_moved = moved;
        h->stalled_ns = 0;
        return;
    }
    h->stalled_ns += passed < 2 * CHECK_NS ? passed : CHECK_NS;
    if (h->config.timeout_s <= 0 || (double)h->stalled_ns < h->config.timeout_s * 1e9 ||
        h->verdict_ns != INT64_MAX)
        return;
    if (h->config.rank == 0) {
        inquire(h, i);
        return;
    }
    comm_failure_keep(&h->fallback, STATUS_LOST_RANK,
                      "%s did not reach %s within %g s; it may have died or be stuck",
                      h->peer[0].name, point_text(&i, text), h->config.timeout_s);
    struct message m = message_of(h, OVERDUE);
    if (!put(h, 0, &m))
        end_lost(h, 0);
    h->verdict_ns = comm_now() + 2 * ANSWER_NS;
}

static void *watch(void *arg)
{
    struct health *h = arg;
    uint64_t count;
    int size = h->config.size;
    h->checked_ns = comm_now();
    while (!h->finished && !h->all_closing) {
        for (int r = 0; r < size; r++)
            h->poll[r] = (struct pollfd){.fd = h->peer[r].fd, .events = POLLIN};
        h->poll[size] = (struct pollfd){.fd = h->wake, .events = POLLIN};
        int ready = poll(h->poll, (nfds_t)size + 1, (int)(CHECK_NS / MS));
        for (int r = 0; r < size && ready > 0 && !h->finished; r++)
            if (h->poll[r].revents && h->peer[r].fd >= 0)
                take_message(h, r);
        if (ready > 0 && h->poll[size].revents && read(h->wake, &count, sizeof count) > 0 &&
            !h->finished)
            take_requests(h);
        if (h->config.rank == 0 && !h->finished)
            check_closing(h);
        if (!h->finished)
            check_time(h);
        if (comm_now() >= h->verdict_ns)
            end(h, h->fallback.status, h->fallback.message, true);
    }
    return NULL;
}

/* --- functions of the other threads --- */

static void request(struct health *h, bool *what, enum status st, const char *message)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&h->lock);
    *what = true;
    if (st != STATUS_OK)
        comm_failure_keep(&h->request, st, "%s", message);
    (void)!write(h->wake, &one, sizeof one);
    while (st != STATUS_OK && !h->ended)
        pthread_cond_wait(&h->change, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

void health_explain(struct health *h, enum status st, const char *message)
{
    request(h, &h->explain, st, message);
}

void health_fail(struct health *h, enum status st, const char *message)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "rank %d: %s", h->config.rank, message);
    request(h, &h->fail, st, text);
}

static void health_free(struct health *h)
{
    fd_close(&h->wake);
    pthread_cond_destroy(&h->change);
    pthread_mutex_destroy(&h->lock);
    free(h->peer);
    free(h->poll);
    free(h);
}

void health_close(struct health *h)
{
    if (!h)
        return;
    request(h, &h->close, STATUS_OK, NULL);
    pthread_join(h->thread, NULL);
    health_free(h);
}

/* Introduces this rank to the ranks at the other ends of its connections. */
static void say_hello(struct health *h)
{
    struct message m = {.kind = HELLO, .pid = (int32_t)getpid()};
    if (gethostname(m.text, HOST_MAX - 1) != 0)
        snprintf(m.text, sizeof m.text, "?");
    for (int r = 0; r < h->config.size; r++) {
        h->peer[r].fd = h->config.peer[r];
        snprintf(h->peer[r].name, sizeof h->peer[r].name, "rank %d", r);
        (void)put(h, r, &m);
    }
    take_hello(h, h->config.rank, &m);
}

enum status health_open(const struct health_config *config, struct health **out)
{
    enum status st;
    struct health *h;
    TRY(array_new(&h, 1));
    h->config = *config;
    h->wake = -1;
    h->verdict_ns = INT64_MAX;
    pthread_cond_init(&h->change, NULL);
    pthread_mutex_init(&h->lock, NULL);
    CHECK(array_new(&h->peer, config->size));
    CHECK(array_new(&h->poll, config->size + 1));
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wake < 0)
        CHECK(status_fail(STATUS_IO, "cannot open a descriptor for the health thread"));
    say_hello(h);
    CHECK(thread_start(&h->thread, "health thread", watch, h));
    *out = h;
    return STATUS_OK;
done:
    health_free(h);
    return st;
}
