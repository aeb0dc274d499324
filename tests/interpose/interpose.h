/* Determines which calls fail (interpose.c). The replacements of C library functions in
 * interpose_calls.c use these functions. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The kinds of calls and their names. "file" stands for each of those before it. "fsync-folder" has
 * syncfs, "rename" has link, "print" is a write to standard output, "spawn" has fork, exec and
 * setpgid, "pipe" has socketpair, signalfd and dup2, and "bind" has listen and setsockopt. */
#define INTERPOSE_KINDS(X)                                                                         \
    X(OPEN, "open"), X(OPENDIR, "opendir"), X(READDIR, "readdir"), X(STAT, "stat"),                \
        X(READ, "read"), X(WRITE, "write"), X(CLOSE, "close"), X(SEEK, "seek"), X(FSYNC, "fsync"), \
        X(FSYNC_FOLDER, "fsync-folder"), X(RENAME, "rename"), X(UNLINK, "unlink"),                 \
        X(MKDIR, "mkdir"), X(TRUNCATE, "truncate"), X(LOCK, "lock"), X(MMAP, "mmap"),              \
        X(FILE, "file"), X(PRINT, "print"), X(MALLOC, "malloc"),                                   \
        X(MALLOC_LIBRARY, "malloc-library"), X(SPAWN, "spawn"), X(THREAD, "thread"),               \
        X(PIPE, "pipe"), X(SOCKET, "socket"), X(BIND, "bind"), X(CONNECT, "connect"),              \
        X(ACCEPT, "accept"), X(SEND, "send"), X(RECV, "recv"), X(POLL, "poll"),                    \
        X(RECV_GLOO, "recv-gloo")

#define KIND(name, text) KIND_##name
enum kind { INTERPOSE_KINDS(KIND), KINDS };
#undef KIND

/* Returns whether this call must fail; if so, sets errno. `caller` is the address of the calling
 * code. `path` may be NULL, and `fd` may be -1. If the call must instead process half of its bytes,
 * sets *half. `half` may be NULL. */
bool interpose_fails(enum kind k, const void *caller, const char *path, int fd, bool *half);

/* Returns the kind of a write to `fd`: KIND_PRINT for standard output, KINDS for standard error,
 * else KIND_WRITE. Calls of kind KINDS never fail. */
enum kind interpose_write_kind(int fd);

/* Returns KIND_MALLOC_LIBRARY if `caller` is in a library, else KIND_MALLOC. */
enum kind interpose_malloc_kind(const void *caller);

/* Returns KIND_RECV_GLOO if `caller` is in the Gloo module, else KIND_RECV. */
enum kind interpose_recv_kind(const void *caller);

/* Changes a bit if ERROR is FLIP, and `n` > 0. False: it is not FLIP. */
bool interpose_flips(void *bytes, ssize_t n);

/* Kills the process if ERROR is KILL. Writes call this function after they have written half of
 * their bytes. For all other calls, interpose_fails kills the process. */
void interpose_end_if_killed(void);

/* Writes the path of the file `fd` to `path`, or "", and returns it. */
const char *interpose_path(int fd, char path[PATH_MAX]);

/* Appends an event to the file that AMPSCALE_INTERPOSE_SYNCS names, if it is set. */
void interpose_log(const char *event, const char *path, const char *to);
