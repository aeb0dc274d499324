/* An asynchronous device for tests: memory, streams and events alone.
 *
 * Each stream is a thread that carries out what is put on it, late now and then. The host cannot
 * touch device memory: a read or a write of it ends the test. */
#pragma once

#include "kernels/backend.h"

/* Closed with device_close. */
MUST_CHECK enum status async_device_open(struct device **dev);

/* Puts a call of the test's on a stream. */
MUST_CHECK enum status async_device_call(struct stream *s, void (*call)(void *arg), void *arg);

/* Has an event passed, as last recorded? */
bool async_device_passed(const struct event *e);

/* Where the test itself may read and write device memory, once nothing is under way there. */
void *async_device_inside(struct device *dev, const void *mem);
