/* Determines which calls fail (interpose.c). The replacements of C library functions in
 * interpose_calls.c use these functions. */
#pragma once

#include <limits.h>
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

/* Returns whether this call must fail; if so, sets errno. `caller` is the address of the calling
 * code. `path` may be NULL, and `fd` may be -1. If the call must instead process half of its bytes,
 * sets *half. `half` may be NULL. */
bool interpose_fails(enum kind k, const void *caller, const char *path, int fd, bool *half);

/* Returns the kind of a write to `fd`: KIND_PRINT for standard output, KINDS for standard error,
 * else KIND_WRITE. Calls of kind KINDS never fail. */
enum kind interpose_write_kind(int fd);

/* Returns KIND_MALLOC_LIBRARY if `caller` is in a library, else KIND_MALLOC. */
enum kind interpose_malloc_kind(const void *caller);

/* Kills the process if ERROR is KILL. Writes call this function after they have written half of
 * their bytes. For all other calls, interpose_fails kills the process. */
void interpose_end_if_killed(void);

/* Writes the path of the file `fd` to `path`, or "", and returns it. */
const char *interpose_path(int fd, char path[PATH_MAX]);

/* Appends an event to the file that AMPSCALE_INTERPOSE_SYNCS names, if it is set. */
void interpose_log(const char *event, const char *path, const char *to);
