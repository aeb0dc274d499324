/* An asynchronous device for tests, which has only memory, streams and events. Each stream is a
 * thread that executes its work, sometimes late. The host cannot access device memory: if it reads
 * or writes that memory, the test ends. */
#pragma once

#include "kernels/backend.h"

/* Closed with device_close. */
MUST_CHECK enum status async_device_open(struct device **dev);

/* Puts a call of a test's function on the stream. */
MUST_CHECK enum status async_device_call(struct stream *s, void (*call)(void *arg), void *arg);

/* Returns whether the event has completed since it was last recorded. */
bool async_device_passed(const struct event *e);

/* Returns the host address of device memory. The test may access it only while no work uses that
 * memory. */
void *async_device_inside(struct device *dev, const void *mem);
