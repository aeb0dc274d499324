/* Memory, streams and events of a device whose memory is the host's: shared by ref and cpu.
 *
 * A stream is the calling thread itself: the work of every call is complete when the call
 * returns. */
#pragma once

#include "kernels/backend.h"

enum status host_alloc(struct device *dev, size_t bytes, void **mem);
void host_free(struct device *dev, void *mem);
enum status host_copy(struct stream *s, void *dst, const void *src, size_t bytes);
enum status host_zero(struct stream *s, void *dst, size_t bytes);
enum status host_stream_open(struct device *dev, struct stream **s);
void host_stream_close(struct stream *s);
enum status host_stream_sync(struct stream *s);
enum status host_event_open(struct device *dev, struct event **e);
void host_event_close(struct event *e);
enum status host_event_record(struct event *e, struct stream *s);
enum status host_stream_wait(struct stream *s, const struct event *e);
enum status host_event_wait(const struct event *e);
double host_event_seconds(const struct event *from, const struct event *to);

/* The memory, stream and event members of a backend, for its initializer. */
#define HOST_BACKEND_MEMBERS                                                                       \
    .alloc = host_alloc, .free = host_free, .alloc_host = host_alloc, .free_host = host_free,      \
    .upload = host_copy, .download = host_copy, .copy = host_copy, .zero = host_zero,              \
    .stream_open = host_stream_open, .stream_close = host_stream_close,                            \
    .stream_sync = host_stream_sync, .event_open = host_event_open,                                \
    .event_close = host_event_close, .event_record = host_event_record,                            \
    .event_seconds = host_event_seconds, .stream_wait = host_stream_wait,                          \
    .event_wait = host_event_wait
