/* Inside stream_backend: a stream as a thread with a queue of commands. Each stream and each event
 * has its own lock, so that the thread sanitizer sees no more order than the test's waits give. */
#pragma once

#include "base/rng.h"
#include "tests/kernels/stream_backend.h"

#include <pthread.h>

struct queue_device {
    struct device base;
    struct device *ref;
    pthread_mutex_t lock;
    enum status failed; /* status of the first command that failed on any stream */
    char message[512];
    struct stream_counts counts;
    char *reserved; /* the memory of a device of stream_device_open; else NULL */
    size_t used;
};

/* MOVE: from or to the host; CALL: of a function of a test */
enum command_kind { EXECUTE, MOVE, COPY, ZERO, RECORD, WAIT, CALL };

struct command {
    struct command *next;
    enum command_kind kind;
    struct op_plan *plan;
    void *arg[ROLE_COUNT];
    void *dst;
    const void *src;
    size_t bytes;
    struct event *event;
    uint64_t number; /* number of the record to make or wait for */
    void (*call)(void *context);
    void *context;
    struct queue_stream *stream; /* in a graph: the stream that recorded it */
};

struct list {
    struct command *first, *last;
};

struct graph_exec {
    struct queue_device *dev;
    struct list list;
    struct queue_stream *origin; /* the stream that captures */
    struct queue_stream *branch; /* a stream that is captured too, because it waits for an event of
                                    the capture; NULL: none */
    bool open;                   /* the branch has commands that the origin has not waited for */
};

struct queue_stream {
    struct stream base;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    struct list list;
    bool busy, closing;
    struct graph_exec *recording; /* NULL: commands are executed, not recorded */
    struct rng delays;            /* the thread's */
};

struct event {
    struct queue_device *dev;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded;                 /* number of records that the host has requested */
    uint64_t passed;                   /* number of the last record that a stream has executed */
    uint64_t ns;                       /* time of that record */
    const struct graph_exec *captured; /* the capture in which it was last recorded; NULL: none */
    const struct queue_stream *by;     /* the stream that recorded it last */
};

static inline struct queue_device *device_of(struct device *dev)
{
    return (struct queue_device *)dev;
}

static inline struct queue_stream *stream_of(struct stream *s)
{
    return (struct queue_stream *)s;
}

/* Zeroed memory; a test without memory ends. */
void *queue_new(size_t size);

/* Counts a call of a device. Returns a failure if this call is configured to fail, or if a sticky
 * failure has happened. STREAM_CALL_NONE fails only after a sticky failure. */
enum status queue_call(const struct device *dev, enum stream_call call);

/* Returns the failure of the device's first command that failed. */
enum status queue_failure(struct queue_device *d);

enum status queue_open(struct device *dev, struct stream **out);
void queue_close(struct stream *stream); /* after all commands are executed */

/* Puts a copy of a command on the stream, or into the graph that is being recorded. */
enum status queue_put(struct stream *stream, const struct command *what);

/* Waits until all commands are executed. */
enum status queue_sync(struct stream *stream);

/* Waits until a stream has executed record `number` of the event. */
void event_await(struct event *e, uint64_t number);
