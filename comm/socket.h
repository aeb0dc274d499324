/* Inside comm/: TCP sockets with time limits. All of them are non-blocking. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Send or receive exactly `bytes` bytes; timeout_s is the time limit of a wait without progress (0:
 * none). STATUS_IO: the connection is lost. STATUS_LIBRARY: the time limit is over. The message
 * does not name the other side. */
MUST_CHECK enum status socket_put(int fd, const void *data, size_t bytes, double timeout_s);
MUST_CHECK enum status socket_get(int fd, void *data, size_t bytes, double timeout_s);

enum { SOCKET_ADDRESSES_MAX = 8 };

struct addrinfo;

/* Finds the addresses of HOST:PORT, or [IPv6]:PORT; the caller frees *list by freeaddrinfo. Sets
 * *loopback to whether all of them are loopback addresses. STATUS_USAGE: `address` has another
 * form, or its host has no address. */
MUST_CHECK enum status socket_resolve(const char *address, struct addrinfo **list, bool *loopback);

/* Opens *n sockets, in fd[SOCKET_ADDRESSES_MAX], that listen only at those addresses of `list` that
 * belong to this machine. */
MUST_CHECK enum status socket_listen(const char *address, const struct addrinfo *list, int *fd,
                                     int *n);

/* Connects to the first address of `list` that accepts a connection within timeout_s, and returns
 * the socket; -1: no address accepts a connection. */
int socket_connect(const struct addrinfo *list, double timeout_s);

/* Sets TCP_NODELAY, so that small messages are sent at once. */
void socket_no_delay(int fd);
