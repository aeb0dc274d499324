/* Which calls fail (interpose.c), for the functions that stand before the C library's
 * (interpose_calls.c). */
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

/* Whether this call of a function, from the code at `caller`, fails; errno says how. `path` may be
 * NULL, and `fd` -1. `*half`, unless NULL, is whether to do half of it instead. */
bool interpose_fails(enum kind k, const void *caller, const char *path, int fd, bool *half);

/* KIND_WRITE, where fd is standard output KIND_PRINT, and KINDS (never fails) for standard error.
 */
enum kind interpose_write_kind(int fd);

/* KIND_MALLOC, or KIND_MALLOC_LIBRARY where a library calls. */
enum kind interpose_malloc_kind(const void *caller);

/* Kills the process if ERROR is KILL. Only a write has to ask: it does half of its work first. */
void interpose_end_if_killed(void);

/* Appends a line to the list of syncs and renames, if there is one. */
void interpose_log(const char *event, const char *path, const char *to);
