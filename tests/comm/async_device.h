/* An asynchronous device for tests: memory, streams and events only. Each stream is a thread that
 * executes its work, sometimes late. The host cannot access device memory: a read or write ends the
 * test. */
#pragma once

#include "kernels/backend.h"

/* Closed with device_close. */
MUST_CHECK enum status async_device_open(struct device **dev);

/* Enqueues a call of a function of the test. */
MUST_CHECK enum status async_device_call(struct stream *s, void (*call)(void *arg), void *arg);

/* Whether the event has completed since it was last recorded. */
bool async_device_passed(const struct event *e);

/* The host address at which the test may access device memory while no work is in progress there.
 */
void *async_device_inside(struct device *dev, const void *mem);
