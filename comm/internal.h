/* Inside comm/: what each kind of communicator implements, and what the kinds share. comm.c checks
 * and numbers operations, and keeps those that have started in slots, which exist from the start;
 * the kind of communicator carries the operations out. */
#pragma once

#include "base/array.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

/* An operation that has started and has not been waited for. */
struct comm_slot {
    struct comm_op op; /* a copy; `handle` is its number, or 0 if the slot is free */
    bool done;         /* guarded by the lock of struct comm_queue */
    enum status st;    /* valid when `done` is set */
};

/* The functions of one kind of communicator. A kind without a thread has only `run`; the other
 * kinds have `start` and `wait`, and may have `run`. */
struct comm_calls {
    const char *name;
    /* Carries out an operation on the calling thread. comm_run calls it if no operation is in
     * progress; without `wait`, comm_wait calls it in the order of the operations' start. */
    enum status (*run)(struct comm *c, const struct comm_op *op);
    enum status (*start)(struct comm *c, struct comm_slot *slot);
    enum status (*wait)(struct comm *c, struct comm_slot *slot); /* also sets slot->op.ended_ns */
    /* See comm_wait_on; NULL: as `wait`. */
    enum status (*wait_on)(struct comm *c, struct comm_slot *slot, struct stream *s);
    enum status (*reuse)(struct comm *c, void *mem, size_t bytes);     /* NULL: no effect */
    enum status (*divide)(struct comm *c, int group);                  /* NULL: unsupported */
    void (*fail)(struct comm *c, enum status st, const char *message); /* NULL: no effect */
    void (*close)(struct comm *c); /* frees the communicator; NULL: free(c) */
};

/* The first member of the struct of each kind of communicator, such as struct mpi. */
struct comm {
    const struct comm_calls *calls;
    const char *name;      /* NULL: calls->name */
    struct device *device; /* see comm_device */
    int rank, size;
    int64_t started;     /* number of the last operation that was started */
    int64_t carried_out; /* number of the last operation that calls->run has carried out */
    int in_progress;     /* operations started and not waited for */
    _Atomic bool speaks; /* see comm_speaks */
    struct comm_slot slot[COMM_MAX_STARTED];
};

/* The slot of operation `number`. */
static inline struct comm_slot *comm_slot_of(struct comm *c, int64_t number)
{
    return &c->slot[number % COMM_MAX_STARTED];
}

/* The sizes in bytes of `op`'s buffers on this rank; 0: `op` does not use the buffer. */
size_t comm_send_bytes(const struct comm *c, const struct comm_op *op);
size_t comm_recv_bytes(const struct comm *c, const struct comm_op *op);

/* Carries out an operation in a group of one rank: copies `send` to `recv`. */
enum status comm_copy_alone(struct comm *c, const struct comm_op *op);

enum { COMM_TEXT_MAX = 64 };
/* Writes "operation 57 (allreduce)" to out[COMM_TEXT_MAX]. */
const char *comm_op_text(const struct comm_op *op, char *out);

/* The fields of an operation that must be equal on all ranks before it begins. */
struct comm_intent {
    int64_t number, count;
    int32_t kind, type, reduction, root;
};
struct comm_intent comm_intent_of(const struct comm_op *op);

/* STATUS_INVALID if a rank's operation differs from rank 0's; the message describes both. */
MUST_CHECK enum status comm_intent_check(int rank, const struct comm_intent *theirs,
                                         const struct comm_intent *first);

/* What ranks of a communicator of comm_open_tcp send to each other: a rank's intent, followed by
 * its data; rank 0's answer, followed by the result; or a failure. The health thread, which takes
 * over the sockets, can still receive a failure, and recognizes it by the magic, with which its own
 * messages do not begin. All ranks run the same build and have the same byte order. */
enum { CONTROL_MAGIC = 0x616d7063 /* "ampc" */ };
struct control_message {
    int32_t magic;
    uint32_t bytes; /* that follow */
    struct comm_intent intent;
    struct first_failure failure; /* of the sender, which is then the failure of all ranks */
};

/* Stores `st` and the message in `f`, unless it has a failure. Keeps status_message(). */
void comm_failure_keep(struct first_failure *f, enum status st, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* --- time --- */

static inline int64_t comm_now(void)
{
    return (int64_t)clock_ns();
}

void comm_sleep(int64_t ns);

/* The value of comm_now() in timeout_s seconds; INT64_MAX, which is no limit, if timeout_s is 0. */
int64_t comm_deadline(double timeout_s);

/* Waits for a signal until comm_now() is `until_ns`. False: the time is over without a signal. */
bool comm_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

/* --- reductions (reduce.c) --- */

/* out[i] = a[i] (reduction) b[i] for i < count; out may be a or b, but no other overlap is allowed.
 * All types except U8 are supported. COMM_AVG gives the sum, which comm_divide_by then divides by
 * the number of ranks. Quotients are rounded to the type, for I32 towards zero. */
void comm_reduce(enum dtype type, enum comm_reduction reduction, void *out, const void *a,
                 const void *b, int64_t count);
void comm_divide_by(enum dtype type, void *values, int64_t count, int n);

/* --- operations on a thread (queue.c) --- */

/* A communicator with a thread that carries out the operations. The first member of struct mpi,
 * gloo and staged. */
struct comm_queue {
    struct comm base;
    enum status (*carry_out)(struct comm_queue *q, const struct comm_op *op);
    /* The thread calls them at its beginning and its end, also if `enter` fails; may be NULL. */
    enum status (*enter)(struct comm_queue *q);
    void (*leave)(struct comm_queue *q);
    pthread_t thread;
    bool running;
    atomic_bool waiting;  /* the caller waits for an operation */
    pthread_mutex_t lock; /* guards the members below, and `done` and `st` of each slot */
    pthread_cond_t change;
    int64_t next, wanted; /* numbers of the next and of the last operation to carry out; none if
                           * next > wanted. comm_run's operations have numbers between them */
    bool entered, closing;
    struct first_failure failure; /* all later operations fail in this way */
};

/* Initialises what comm_queue_free frees. */
void comm_queue_init(struct comm_queue *q, const struct comm_calls *calls, int rank, int size);

/* Starts the thread, and waits until it has called `enter`. *late: it has not returned within
 * limit_s (0: no limit), is still in `enter`, and uses *q. */
MUST_CHECK enum status comm_queue_open(struct comm_queue *q, double limit_s, bool *late);

/* Calls `enter` on the calling thread instead. Operations cannot be started then. */
MUST_CHECK enum status comm_queue_enter(struct comm_queue *q);

/* Members of comm_calls. */
MUST_CHECK enum status comm_queue_start(struct comm *c, struct comm_slot *slot);
MUST_CHECK enum status comm_queue_wait(struct comm *c, struct comm_slot *slot);

/* comm_queue_fail stores the failure of all later operations, unless there is one;
 * comm_queue_status returns it, or STATUS_OK. Any thread may call them. */
void comm_queue_fail(struct comm_queue *q, enum status st, const char *message);
MUST_CHECK enum status comm_queue_status(struct comm_queue *q);

/* Ends the thread after the operations that were started. */
void comm_queue_stop(struct comm_queue *q);
void comm_queue_free(struct comm_queue *q);

/* --- failures of ranks (health.c) --- */

struct health;

struct health_config {
    int rank, size;
    const int *peer;  /* (size) sockets of the control connections: on rank 0 to each other rank,
                       * elsewhere peer[0] to rank 0. The caller closes them after health_close */
    double timeout_s; /* time limit of an operation without progress; 0: none */
    bool exits; /* when the ranks cannot continue, the process ends, with one line on one rank,
                 * because its threads may be inside a library that never returns */
    _Atomic bool *speaks; /* set before `ended` on the rank that speaks for rank 0; may be NULL */
    /* Called once, on the health thread, with the reason why they cannot; may be NULL. */
    void (*ended)(void *context, enum status st, const char *message);
    void *context;
};

/* Starts a thread that finds ranks that fail, are lost or are late. */
MUST_CHECK enum status health_open(const struct health_config *config, struct health **h);

/* The thread that carries out an operation calls them before it, when data has moved, and after it.
 * They cost a few nanoseconds. */
void health_begin(struct health *h, const struct comm_op *op);
void health_moved(struct health *h);
void health_over(struct health *h);

/* Both fail all ranks, and wait until `ended` has returned: health_fail for the reason
 * "rank 1: `message`"; health_explain because an operation has failed, for the reason `message` if
 * rank 0 knows no better one. */
void health_fail(struct health *h, enum status st, const char *message);
void health_explain(struct health *h, enum status st, const char *message);

/* Waits, within the time limit, until every rank calls this function or the ranks have failed; ends
 * the thread and frees *h. NULL: does nothing. */
void health_close(struct health *h);
