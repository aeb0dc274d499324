/* The parts of the MPI communicator. The communication thread joins the job and moves the data; the
 * caller's thread uses only the first half of struct mpi. */
#pragma once

#include "comm/internal.h"

#include <mpi.h>
#include <pthread.h>

enum {
    FLOW_COUNT = 4, /* largest number of operations in progress; later operations wait */
    FLOW_WINDOW = 4 /* largest number of messages posted ahead, in each direction */
};

/* One operation in progress (mpi_flow.c). */
struct flow {
    struct comm_slot *slot; /* NULL: none */
    char *scratch;
    bool single;         /* the whole operation is one MPI call, instead of items */
    MPI_Request request; /* if `single`: the request of that call */
    /* The members below are for operations that are divided into items. */
    MPI_Request send[FLOW_WINDOW], receive[FLOW_WINDOW];
    int64_t begin, length; /* range of elements that is being moved in each part */
    int64_t segments;      /* number of segments of each part */
    /* For an exchange: [0] the first step with items to send, [1] the first step with items to
     * receive. */
    int64_t first_step[2];
    int64_t send_items, sent; /* number of items to send to the next rank, and number of items sent
                               * so far */
    int64_t receive_items, received;
    int64_t send_posted, receive_posted;
    int64_t lag;  /* item t may be sent when item t - lag has been received */
    int64_t hold; /* item t may be received when item t - hold has been sent */
};

enum health_kind { HEALTH_QUERY, HEALTH_ALIVE, HEALTH_END };

/* A message between ranks that belongs to no operation (mpi_health.c). */
struct health_message {
    int32_t kind;
    int32_t status;  /* for HEALTH_END: an enum status; its message is `text` */
    int64_t started; /* number of the last operation that the sender has started */
    int64_t waiting; /* number of the operation that the sender waits for, or 0 */
    char text[COMM_MESSAGE_MAX];
};

struct peer {
    char host[64];
    int32_t pid;
};

struct health {
    struct peer *peer;        /* (size) */
    struct health_message in; /* buffer of `receive`, which receives messages from any rank */
    MPI_Request receive;
    struct health_message *out; /* (size) message that `send` sends */
    MPI_Request *send;          /* (size) MPI_REQUEST_NULL: sent */
    struct health_message end;  /* HEALTH_END of this rank */

    bool querying;                 /* this rank is querying the other ranks; the members below
                                    * describe the query */
    bool urgent;                   /* the query ends the job only if a rank is unresponsive */
    int64_t awaited;               /* the operation without progress, or 0 */
    int64_t began_ns, ended_ns;    /* when the latest query began, and when the latest complete
                                    * query ended */
    bool *answered;                /* (size) whether the rank has answered since the query began */
    struct health_message *answer; /* (size) the last message of each rank */
    int64_t queried_ns;            /* when another rank last queried */
};

/* The requests of the caller's thread. The communication thread works on a copy of them. */
struct caller_request {
    int64_t started; /* number of the last operation to carry out */
    int64_t waiting; /* number of the operation waited for, or 0 */
    int64_t waiting_since_ns;
    bool close, fail;
};

struct mpi {
    struct comm base;
    struct comm_mpi_config config;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members from here to `failure`, and `done` and `st` of each
                           * slot */
    pthread_cond_t work;  /* `request` has changed */
    pthread_cond_t done;  /* signalled when an operation is over, and when opening is over */
    struct caller_request request;
    int64_t beat_ns; /* when the communication thread was last outside of an MPI call */
    enum status fail_status;
    char fail_message[COMM_MESSAGE_MAX];
    bool opened; /* opening is over, whether it succeeded or failed */
    struct first_failure failure;

    /* The number of the barrier after which the ranks are divided, and this rank's group. The
     * caller's thread sets both before it starts the barrier, and the start of the barrier makes
     * both visible to the communication thread. */
    int64_t divide;
    int group;

    /* Members that only the communication thread uses. */
    int rank, size;         /* rank and size in the job; `base` has rank and size in the group */
    MPI_Comm data, control; /* communicators for the group's operations, and for health messages */
    MPI_Comm whole;         /* a communicator of all ranks of the job */
    struct flow flow[FLOW_COUNT];
    int64_t taken;    /* number of the last operation that was assigned a flow */
    int64_t moved_ns; /* when data last moved or an operation began */
    struct health health;
};

/* Converts an error code of the MPI library to a status; `call` names the function that returned
 * the code. */
MUST_CHECK enum status mpi_status(int code, const char *call);
#define MPI_CALL(function, ...) mpi_status(function(__VA_ARGS__), #function)

/* Called by the communication thread: records that it is not stuck at time `now`. If `now` is
 * MPI_BEATS_NO_MORE, the caller's thread no longer checks whether the communication thread is
 * stuck. */
void mpi_beat(struct mpi *m, int64_t now);
static const int64_t MPI_BEATS_NO_MORE = INT64_MAX / 2;

/* Allocates scratch memory for any operation. */
MUST_CHECK enum status flow_open(struct flow *f);
void flow_close(struct flow *f);

/* Begins the operation in `slot`. */
MUST_CHECK enum status flow_begin(struct mpi *m, struct flow *f, struct comm_slot *slot);

/* Limits later operations to the ranks of this rank's group, m->group. All ranks must have set
 * m->group before. */
MUST_CHECK enum status mpi_regroup(struct mpi *m);

/* Moves as much data as possible without waiting. Sets *moved if any data moved, and *over if the
 * operation is over. */
MUST_CHECK enum status flow_move(struct mpi *m, struct flow *f, bool *moved, bool *over);

/* Exchanges hosts and process ids, and posts the first receive. */
MUST_CHECK enum status health_open(struct mpi *m);
void health_close(struct mpi *m);

/* Receives messages and answers queries. Does not return after a message that ends the job. */
void health_receive(struct mpi *m, const struct caller_request *w);

/* Queries the other ranks when a query is due. Does not return if a rank is at fault. */
void health_check(struct mpi *m, const struct caller_request *w);

/* Called after an error of the MPI library: queries all ranks. Returns only if all ranks answer. */
void health_explain(struct mpi *m, const struct caller_request *w);

/* Calls config.ending, if it is set. The process ends soon afterwards. */
void health_before_end(const struct mpi *m, enum status st, const char *message);

/* Ends the job. The reason is fail_message. */
_Noreturn void health_fail(struct mpi *m, const struct caller_request *w);

/* The communication thread: `arg` is the struct mpi. */
void *mpi_serve(void *arg);
