/* An asynchronous device for tests. It has only memory, streams and events. Each stream is a thread
 * that executes its work, sometimes late. The host cannot access device memory: if it reads or
 * writes that memory, the test crashes. */
#pragma once

#include "kernels/backend.h"

/* Closed with device_close. */
MUST_CHECK enum status async_device_open(struct device **dev);

/* Enqueues `call`, a function of a test, on the stream. The stream's thread calls it with `arg`. */
MUST_CHECK enum status async_device_call(struct stream *s, void (*call)(void *arg), void *arg);

/* Returns whether the stream has executed the latest record of the event. */
bool async_device_passed(const struct event *e);

/* Returns the host address at which the test can access device memory. It may do so only while no
 * work on a stream uses that memory. */
void *async_device_inside(struct device *dev, const void *mem);
