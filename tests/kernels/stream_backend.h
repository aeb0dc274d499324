/* An asynchronous device for tests. It executes operations with the reference. Every stream is a
 * thread with a queue. The thread executes commands in their order, and delays some of them. Events
 * are marks in the queue, and threads can wait for them. A recorded graph stores the commands of a
 * stream; launching the graph executes them again.
 *
 * If the caller makes every necessary wait, the results equal the reference's bit for bit. A
 * missing wait makes a test fail:
 *
 *     - host memory is read and written when a copy is executed, not when it is called;
 *     - the thread sanitizer reports accesses that are not ordered.
 *
 * After a command fails, its stream executes no other command, but still passes marks. Waiting for
 * the stream or for any event of the device returns the failure. */
#pragma once

#include "kernels/backend.h"

/* Calls that can fail on request. */
enum stream_call {
    STREAM_CALL_NONE,
    STREAM_CALL_PLAN_FUSED, /* planning of an operation that fuses convolution and batch norm */
    STREAM_CALL_EXECUTE,
    STREAM_CALL_CAPTURE_BEGIN,
    STREAM_CALL_CAPTURE_END,
    STREAM_CALL_LAUNCH
};

struct stream_fault {
    enum stream_call call;
    int number;  /* which of the calls fails, from 1; calls of all devices are counted */
    bool sticky; /* every later call fails too, on every device, as in a process whose CUDA context
                    is lost */
    enum status status; /* status of the failure; 0: STATUS_LIBRARY */
};

struct stream_backend {
    struct backend base;
    struct op_record record[OP_KIND_COUNT];
    bool fusion_pays; /* plans report times, and the times of fused operations are shorter */
    struct stream_fault fault;
    int calls; /* number of calls of fault.call so far */
    bool lost; /* a sticky fault has happened */
};

/* Initialises a backend named "stream". It must exist as long as its devices. */
void stream_backend_make(struct stream_backend *b);

/* Resets the counts of calls, as in a new process, and configures which call fails. */
void stream_backend_fail(struct stream_backend *b, const struct stream_fault *fault);

/* Numbers of graphs that a device has recorded and launched since it was opened. */
struct stream_counts {
    int recorded, launched;
};
struct stream_counts stream_backend_counts(struct device *dev);

/* Opens a device that only moves data. Its memory cannot be accessed by the host: a test crashes if
 * it reads or writes that memory. Closed with device_close. */
MUST_CHECK enum status stream_device_open(struct device **dev);

/* Returns the address at which a call on a stream can access memory of the device. Memory of other
 * devices and of the host has the same address. */
void *stream_device_inside(struct device *dev, const void *mem);

/* Puts `call` on the stream, whose thread calls it with `context`. */
MUST_CHECK enum status stream_device_call(struct stream *s, void (*call)(void *context),
                                          void *context);

/* Returns whether a stream has executed the latest record of the event. */
bool stream_event_passed(const struct event *e);
