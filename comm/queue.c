/* Operations that a thread carries out, in the order of their start, while the caller computes. */
#include "comm/internal.h"

/* Waits for the next operation and returns its slot; NULL: the communicator is being closed. */
static struct comm_slot *next_slot(struct comm_queue *q, enum status *failed)
{
    pthread_mutex_lock(&q->lock);
    while (q->next > q->wanted && !q->closing)
        pthread_cond_wait(&q->change, &q->lock);
    struct comm_slot *slot = q->next <= q->wanted ? comm_slot_of(&q->base, q->next) : NULL;
    *failed = q->failure.status;
    pthread_mutex_unlock(&q->lock);
    return slot;
}

static void end_operation(struct comm_queue *q, struct comm_slot *slot, enum status st)
{
    pthread_mutex_lock(&q->lock);
    first_failure_keep(&q->failure, st);
    q->next++;
    slot->st = q->failure.status;
    slot->op.ended_ns = comm_now();
    slot->done = true;
    pthread_cond_broadcast(&q->change);
    pthread_mutex_unlock(&q->lock);
}

enum status comm_queue_enter(struct comm_queue *q)
{
    enum status st = q->enter ? q->enter(q) : STATUS_OK;
    pthread_mutex_lock(&q->lock);
    first_failure_keep(&q->failure, st);
    q->entered = true;
    pthread_cond_broadcast(&q->change);
    pthread_mutex_unlock(&q->lock);
    return st;
}

static void *serve(void *arg)
{
    struct comm_queue *q = arg;
    struct comm_slot *slot;
    enum status failed;
    if (comm_queue_enter(q) == STATUS_OK)
        while ((slot = next_slot(q, &failed)))
            end_operation(q, slot, failed == STATUS_OK ? q->carry_out(q, &slot->op) : failed);
    if (q->leave)
        q->leave(q);
    return NULL;
}

void comm_queue_init(struct comm_queue *q, const struct comm_calls *calls, int rank, int size)
{
    q->base.calls = calls;
    q->base.rank = rank;
    q->base.size = size;
    q->next = 1;
    pthread_cond_init(&q->change, NULL);
    pthread_mutex_init(&q->lock, NULL);
}

enum status comm_queue_open(struct comm_queue *q, double limit_s, bool *late)
{
    int64_t deadline = comm_deadline(limit_s);
    *late = false;
    TRY(thread_start(&q->thread, "communication thread", serve, q));
    pthread_mutex_lock(&q->lock);
    while (!q->entered && comm_condition_wait(&q->change, &q->lock, deadline))
        ;
    *late = !q->entered;
    q->running = q->entered;
    enum status st = first_failure_return(&q->failure);
    pthread_mutex_unlock(&q->lock);
    if (*late)
        pthread_detach(q->thread);
    return st;
}

enum status comm_queue_start(struct comm *c, struct comm_slot *slot)
{
    struct comm_queue *q = (struct comm_queue *)c;
    pthread_mutex_lock(&q->lock);
    enum status st = first_failure_return(&q->failure);
    if (st == STATUS_OK) {
        if (q->next > q->wanted)
            q->next = slot->op.handle;
        q->wanted = slot->op.handle;
        pthread_cond_broadcast(&q->change);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

enum status comm_queue_wait(struct comm *c, struct comm_slot *slot)
{
    struct comm_queue *q = (struct comm_queue *)c;
    pthread_mutex_lock(&q->lock);
    q->waiting = true;
    while (!slot->done)
        pthread_cond_wait(&q->change, &q->lock);
    q->waiting = false;
    enum status st = slot->st == STATUS_OK ? STATUS_OK : first_failure_return(&q->failure);
    pthread_mutex_unlock(&q->lock);
    return st;
}

void comm_queue_fail(struct comm_queue *q, enum status st, const char *message)
{
    pthread_mutex_lock(&q->lock);
    comm_failure_keep(&q->failure, st, "%s", message);
    pthread_mutex_unlock(&q->lock);
}

enum status comm_queue_status(struct comm_queue *q)
{
    pthread_mutex_lock(&q->lock);
    enum status st = first_failure_return(&q->failure);
    pthread_mutex_unlock(&q->lock);
    return st;
}

void comm_queue_stop(struct comm_queue *q)
{
    if (!q->running)
        return;
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->change);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    q->running = false;
}

void comm_queue_free(struct comm_queue *q)
{
    pthread_cond_destroy(&q->change);
    pthread_mutex_destroy(&q->lock);
}
