/* The parts of the MPI communicator. Everything here but struct mpi's first half belongs to the
 * communication thread, which makes every MPI call of the process. */
#ifndef COMM_MPI_INTERNAL_H
#define COMM_MPI_INTERNAL_H

#include "comm/internal.h"

#include <mpi.h>
#include <pthread.h>

enum {
    FLOW_COUNT = 4, /* operations in motion at a time; later ones queue */
    FLOW_WINDOW = 4 /* messages posted ahead, in each direction */
};

/* One operation in motion (mpi_flow.c). */
struct flow {
    struct comm_slot *slot; /* NULL: none */
    char *scratch;
    bool single;         /* one call of the library's, `request`, moves it all */
    MPI_Request request; /* else it is a flow of items: */
    MPI_Request send[FLOW_WINDOW], receive[FLOW_WINDOW];
    int64_t begin, length;    /* elements of each part that are in motion now */
    int64_t segments;         /* per part */
    int64_t send_items, sent; /* to the next rank: in all, and done */
    int64_t receive_items, received;
    int64_t send_posted, receive_posted;
    int64_t lag;  /* item t may be sent when item t - lag has been received */
    int64_t hold; /* item t may be received when item t - hold has been sent */
};

enum health_kind { HEALTH_QUERY, HEALTH_ALIVE, HEALTH_END };

/* Between ranks, outside of operations (mpi_health.c). */
struct health_message {
    int32_t kind;
    int32_t exit_code; /* END */
    int64_t started;   /* the sender's last operation, and the one it waits for or 0 */
    int64_t waiting;
};

struct peer {
    char host[64];
    int32_t pid;
};

struct health {
    struct peer *peer;        /* (size) */
    struct health_message in; /* what `receive` listens for, from anybody */
    MPI_Request receive;
    struct health_message *out; /* (size) on its way by `send`; NULL requests have arrived */
    MPI_Request *send;          /* (size) */

    bool querying;                 /* this rank queries the others: */
    bool urgent;                   /* only unresponsive ranks are at fault */
    int64_t awaited;               /* the operation that does not move, or 0 */
    int64_t began_ns, ended_ns;    /* this query, or the last one */
    bool *answered;                /* (size) since it began */
    struct health_message *answer; /* (size) the last of each rank */
    int64_t queried_ns;            /* when another rank last queried */
};

/* The caller thread's request, as of one moment. */
struct caller_request {
    int64_t started; /* operations to be carried out */
    int64_t waiting; /* the operation waited for, or 0 */
    int64_t waiting_since_ns;
    bool close, fail;
};

struct mpi {
    struct comm base;
    struct comm_mpi_config config;
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows, and `done` and `st` of slots */
    pthread_cond_t work;  /* `request` has changed */
    pthread_cond_t done;  /* an operation is over, or opening is */
    struct caller_request request;
    int64_t beat_ns; /* when the communication thread last came by, outside of the library */
    enum status fail_status;
    char fail_message[COMM_MESSAGE_MAX];
    bool opened;        /* or failed to: */
    enum status broken; /* no operation can succeed any more; why: */
    char broken_message[COMM_MESSAGE_MAX];

    /* Set before the operation is started, which hands them to the communication thread: a barrier
     * of all ranks behind which they are parted. */
    int64_t divide;
    int group;

    /* The communication thread's own. */
    int rank, size;         /* in the job; those of `base` are in the group */
    MPI_Comm data, control; /* for operations, of the group; for health messages */
    MPI_Comm whole;         /* for operations of the job */
    struct flow flow[FLOW_COUNT];
    int64_t taken;    /* operations that were given a flow */
    int64_t moved_ns; /* when anything last moved */
    struct health health;
};

/* An error code of the library as a status; `call` is what returned it. */
MUST_CHECK enum status mpi_status(int code, const char *call);

/* Says that the communication thread is not stuck, or never will be again. */
void mpi_beat(struct mpi *m, int64_t now);
static const int64_t MPI_BEATS_NO_MORE = INT64_MAX / 2;

/* Memory for any operation. */
MUST_CHECK enum status flow_open(struct flow *f);
void flow_close(struct flow *f);

/* Begins the operation in `slot`. */
MUST_CHECK enum status flow_begin(struct mpi *m, struct flow *f, struct comm_slot *slot);

/* Makes m->group, of which all ranks have heard, the ranks of the operations that follow. */
MUST_CHECK enum status mpi_regroup(struct mpi *m);

/* Moves what can be moved without waiting; sets *moved if anything did. The operation is over when
 * *over is set. */
MUST_CHECK enum status flow_move(struct mpi *m, struct flow *f, bool *moved, bool *over);

/* Exchanges hosts and process ids, and listens from now on. */
MUST_CHECK enum status health_open(struct mpi *m);
void health_close(struct mpi *m);

/* Receives messages and answers queries; does not return when the job is to end. */
void health_receive(struct mpi *m, const struct caller_request *w);

/* Queries the other ranks when it is due; does not return when a rank is at fault. */
void health_check(struct mpi *m, const struct caller_request *w);

/* After an error of the MPI library: queries, and returns only if no rank is at fault. */
void health_explain(struct mpi *m, const struct caller_request *w);

/* Ends the job for the reason in fail_message. */
_Noreturn void health_fail(struct mpi *m, const struct caller_request *w);

/* The communication thread: `arg` is the struct mpi. */
void *mpi_serve(void *arg);

#endif
