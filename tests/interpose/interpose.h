/* Decides which calls fail (interpose.c). The functions of interpose_calls.c, which replace
 * functions of the C library, call it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum kind {
    KIND_OPEN,
    KIND_OPENDIR,
    KIND_READDIR,
    KIND_STAT,
    KIND_READ,
    KIND_WRITE,
    KIND_CLOSE,
    KIND_SEEK,
    KIND_FSYNC,        /* of files */
    KIND_FSYNC_FOLDER, /* of folders, and syncfs */
    KIND_RENAME,       /* and link */
    KIND_UNLINK,
    KIND_MKDIR,
    KIND_TRUNCATE,
    KIND_LOCK,
    KIND_MMAP,
    KIND_FILE,  /* each of those above */
    KIND_PRINT, /* to standard output */
    KIND_MALLOC,
    KIND_MALLOC_LIBRARY,
    KIND_SPAWN, /* fork, exec, posix_spawn */
    KIND_THREAD,
    KIND_PIPE, /* and socketpair, signalfd, dup2 */
    KIND_SOCKET,
    KIND_BIND, /* and listen, setsockopt */
    KIND_CONNECT,
    KIND_ACCEPT,
    KIND_SEND,
    KIND_RECV,
    KIND_POLL,
    KINDS
};

/* Returns whether this call of a function fails; if so, sets errno. `caller` is the address of the
 * calling code. `path` may be NULL, and `fd` may be -1. If the call must do half of its work
 * instead of failing, sets *half, unless `half` is NULL. */
bool interpose_fails(enum kind k, const void *caller, const char *path, int fd, bool *half);

/* Returns KIND_WRITE. If fd is standard output, returns KIND_PRINT; for standard error returns
 * KINDS, a kind that never fails. */
enum kind interpose_write_kind(int fd);

/* KIND_MALLOC, or KIND_MALLOC_LIBRARY if a library calls. */
enum kind interpose_malloc_kind(const void *caller);

/* Kills the process if ERROR is KILL. Only a write calls this, because it does half of its work
 * first. */
void interpose_end_if_killed(void);

/* Appends a line to the list of syncs and renames, if the test asks for a list. */
void interpose_log(const char *event, const char *path, const char *to);
