/* Replaces functions of the C library. Each replacement asks interpose_fails whether its call must
 * fail. */
#include "interpose.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CALLER __builtin_return_address(0)

/* Finds the C library's own function at the first call. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *real_##name;                                                          \
    if (!real_##name)                                                                              \
    real_##name = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

/* clang-format off */
#define OPEN(name, params, args, path)                                                             \
    int name params                                                                                \
    {                                                                                              \
        va_list ap;                                                                                \
        REAL(name);                                                                                \
        va_start(ap, flags);                                                                       \
        mode_t mode = mode_of(flags, ap);                                                          \
        va_end(ap);                                                                                \
        return interpose_fails(KIND_OPEN, CALLER, path, -1, NULL) ? -1 : real_##name args;         \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode), path)
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode), path)

/* Defines a replacement for a function with a fixed number of arguments. `path` and `fd` are the
 * name and the descriptor of its file. */
#define WRAP(kind, type, bad, name, params, args, path, fd)                                        \
    type name params                                                                               \
    {                                                                                              \
        REAL(name);                                                                                \
        return interpose_fails(kind, CALLER, path, fd, NULL) ? (bad) : real_##name args;           \
    }
WRAP(KIND_OPEN, FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode), path, -1)
WRAP(KIND_OPENDIR, DIR *, NULL, opendir, (const char *path), (path), path, -1)
WRAP(KIND_READDIR, struct dirent *, NULL, readdir, (DIR *d), (d), NULL, -1)
WRAP(KIND_READDIR, int, -1, scandir, (const char *restrict dir, struct dirent ***restrict list, int (*take)(const struct dirent *), int (*order)(const struct dirent **, const struct dirent **)), (dir, list, take, order), dir, -1)
WRAP(KIND_STAT, int, -1, stat, (const char *restrict path, struct stat *restrict s), (path, s), path, -1)
WRAP(KIND_STAT, int, -1, lstat, (const char *restrict path, struct stat *restrict s), (path, s), path, -1)
WRAP(KIND_STAT, int, -1, fstat, (int fd, struct stat *s), (fd, s), NULL, fd)
WRAP(KIND_STAT, int, -1, fstatat, (int dir, const char *restrict path, struct stat *restrict s, int flags), (dir, path, s, flags), path, -1)
WRAP(KIND_STAT, int, -1, access, (const char *path, int mode), (path, mode), path, -1)
WRAP(KIND_STAT, int, -1, statvfs, (const char *restrict path, struct statvfs *restrict s), (path, s), path, -1)
WRAP(KIND_STAT, ssize_t, -1, readlink, (const char *restrict path, char *restrict out, size_t size), (path, out, size), path, -1)
WRAP(KIND_STAT, char *, NULL, realpath, (const char *restrict path, char *restrict out), (path, out), path, -1)
WRAP(KIND_STAT, char *, NULL, getcwd, (char *out, size_t size), (out, size), NULL, -1)
WRAP(KIND_SEEK, off_t, -1, lseek, (int fd, off_t at, int from), (fd, at, from), NULL, fd)
WRAP(KIND_SEEK, int, -1, fseek, (FILE *f, long at, int from), (f, at, from), NULL, fileno(f))
WRAP(KIND_UNLINK, int, -1, unlink, (const char *path), (path), path, -1)
WRAP(KIND_UNLINK, int, -1, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), path, -1)
WRAP(KIND_UNLINK, int, -1, remove, (const char *path), (path), path, -1)
WRAP(KIND_MKDIR, int, -1, mkdir, (const char *path, mode_t mode), (path, mode), path, -1)
WRAP(KIND_MKDIR, char *, NULL, mkdtemp, (char *path), (path), path, -1)
WRAP(KIND_TRUNCATE, int, -1, ftruncate, (int fd, off_t size), (fd, size), NULL, fd)
WRAP(KIND_LOCK, int, -1, flock, (int fd, int how), (fd, how), NULL, fd)
WRAP(KIND_MMAP, void *, MAP_FAILED, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset), (at, n, prot, flags, fd, offset), NULL, fd)
WRAP(KIND_SPAWN, pid_t, -1, fork, (void), (), NULL, -1)
WRAP(KIND_SPAWN, int, -1, setpgid, (pid_t pid, pid_t group), (pid, group), NULL, -1)
WRAP(KIND_SPAWN, int, -1, execv, (const char *path, char *const argv[]), (path, argv), path, -1)
WRAP(KIND_SPAWN, int, -1, execvp, (const char *path, char *const argv[]), (path, argv), path, -1)
WRAP(KIND_SPAWN, int, errno, posix_spawnp, (pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions, const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const env[restrict]), (pid, path, actions, attributes, argv, env), path, -1)
WRAP(KIND_THREAD, int, errno, pthread_create, (pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*run)(void *), void *restrict arg), (thread, attributes, run, arg), NULL, -1)
WRAP(KIND_PIPE, int, -1, pipe2, (int fd[2], int flags), (fd, flags), NULL, -1)
WRAP(KIND_PIPE, int, -1, socketpair, (int domain, int type, int protocol, int fd[2]), (domain, type, protocol, fd), NULL, -1)
WRAP(KIND_PIPE, int, -1, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags), NULL, -1)
WRAP(KIND_PIPE, int, -1, dup2, (int from, int to), (from, to), NULL, -1)
WRAP(KIND_SOCKET, int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol), NULL, -1)
WRAP(KIND_BIND, int, -1, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), NULL, -1)
WRAP(KIND_BIND, int, -1, listen, (int fd, int n), (fd, n), NULL, -1)
WRAP(KIND_BIND, int, -1, setsockopt, (int fd, int level, int name, const void *value, socklen_t n), (fd, level, name, value, n), NULL, -1)
WRAP(KIND_CONNECT, int, -1, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), NULL, -1)
WRAP(KIND_ACCEPT, int, -1, accept4, (int fd, struct sockaddr *restrict a, socklen_t *restrict n, int flags), (fd, a, n, flags), NULL, -1)
WRAP(KIND_POLL, int, -1, poll, (struct pollfd *p, nfds_t n, int ms), (p, n, ms), NULL, -1)

/* Defines a replacement for a function that transfers `n` bytes. The replacement may transfer only
 * half of the bytes. */
#define TRANSFER(kind, name, params, args, fd)                                                     \
    ssize_t name params                                                                            \
    {                                                                                              \
        bool half = false;                                                                         \
        REAL(name);                                                                                \
        if (interpose_fails(kind, CALLER, NULL, fd, &half))                                        \
            return -1;                                                                             \
        if (half && n > 1)                                                                         \
            n /= 2;                                                                                \
        return real_##name args;                                                                   \
    }
TRANSFER(KIND_READ, read, (int fd, void *bytes, size_t n), (fd, bytes, n), fd)
TRANSFER(KIND_READ, pread, (int fd, void *bytes, size_t n, off_t at), (fd, bytes, n, at), fd)
TRANSFER(KIND_SEND, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags), -1)
/* clang-format on */

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    bool part = false;
    REAL(recv);
    if (flags & MSG_PEEK) /* the same bytes are received later */
        return real_recv(fd, bytes, n, flags);
    if (interpose_fails(interpose_recv_kind(CALLER), CALLER, NULL, -1, &part))
        return -1;
    bool half = part && n > 1 && !interpose_flips(bytes, 0);
    ssize_t done = real_recv(fd, bytes, half ? n / 2 : n, flags);
    if (part)
        interpose_flips(bytes, done);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    bool half = false;
    REAL(write);
    bool bad = interpose_fails(interpose_write_kind(fd), CALLER, NULL, fd, &half);
    if (!bad && !half)
        return real_write(fd, bytes, n);
    int error = errno;
    ssize_t done = real_write(fd, bytes, n > 1 ? n / 2 : n);
    if (!bad)
        return done;
    interpose_end_if_killed();
    errno = error;
    return -1;
}

/* fsync on a folder is KIND_FSYNC_FOLDER, and fsync on a file is KIND_FSYNC. */
int fsync(int fd)
{
    char path[PATH_MAX];
    struct stat s;
    REAL(fsync);
    bool folder = fstatat(fd, "", &s, AT_EMPTY_PATH) == 0 && S_ISDIR(s.st_mode);
    if (interpose_fails(folder ? KIND_FSYNC_FOLDER : KIND_FSYNC, CALLER, NULL, fd, NULL))
        return -1;
    interpose_log(folder ? "folder" : "file", interpose_path(fd, path), NULL);
    return real_fsync(fd);
}

int syncfs(int fd)
{
    REAL(syncfs);
    if (interpose_fails(KIND_FSYNC_FOLDER, CALLER, NULL, fd, NULL))
        return -1;
    interpose_log("all", "", NULL);
    return real_syncfs(fd);
}

#define RENAME(name, params, args, from, to)                                                       \
    int name params                                                                                \
    {                                                                                              \
        REAL(name);                                                                                \
        if (interpose_fails(KIND_RENAME, CALLER, from, -1, NULL))                                  \
            return -1;                                                                             \
        interpose_log("rename", from, to);                                                         \
        return real_##name args;                                                                   \
    }
RENAME(rename, (const char *a, const char *b), (a, b), a, b)
RENAME(link, (const char *a, const char *b), (a, b), a, b)
RENAME(renameat, (int da, const char *a, int db, const char *b), (da, a, db, b), a, b)

/* glibc's stdio does not call the replacements of read and write. The replacements of stdio
 * functions therefore set the error flag of the stream, as glibc does. */
enum { STREAM_ERROR = 0x20 };

/* Makes a write to the stream fail. Writes half of the buffered bytes and drops the others, as
 * glibc does. */
static void stream_fail(FILE *f)
{
    int error = errno;
    size_t n = (size_t)(f->_IO_write_ptr - f->_IO_write_base);
    REAL(write);
    ssize_t done =
        fileno(f) >= 0 && n > 0 ? real_write(fileno(f), f->_IO_write_base, n > 1 ? n / 2 : n) : 0;
    (void)done;
    f->_IO_write_ptr = f->_IO_write_base;
    interpose_end_if_killed();
    f->_flags |= STREAM_ERROR;
    errno = error;
}

/* Returns whether a write to the stream must fail. A stream without a file descriptor writes to
 * memory and never fails. */
static bool stream_fails(FILE *f, const void *caller)
{
    int fd = f ? fileno(f) : -1;
    if (fd < 0 || !interpose_fails(interpose_write_kind(fd), caller, NULL, fd, NULL))
        return false;
    stream_fail(f);
    return true;
}

static bool stream_read_fails(FILE *f, const void *caller)
{
    if (!interpose_fails(KIND_READ, caller, NULL, fileno(f), NULL))
        return false;
    f->_flags |= STREAM_ERROR;
    return true;
}

/* clang-format off */
#define STREAM(fails, type, bad, name, params, args, stream)                                       \
    type name params                                                                               \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(stream, CALLER) ? (bad) : real_##name args;                                   \
    }
STREAM(stream_read_fails, size_t, 0, fread, (void *restrict bytes, size_t size, size_t n, FILE *restrict f), (bytes, size, n, f), f)
STREAM(stream_read_fails, char *, NULL, fgets, (char *restrict line, int n, FILE *restrict f), (line, n, f), f)
STREAM(stream_fails, size_t, n / 2, fwrite, (const void *restrict bytes, size_t size, size_t n, FILE *restrict f), (bytes, size, n, f), f)
STREAM(stream_fails, int, EOF, fputs, (const char *restrict line, FILE *restrict f), (line, f), f)
STREAM(stream_fails, int, EOF, fputc, (int c, FILE *f), (c, f), f)
STREAM(stream_fails, int, EOF, puts, (const char *line), (line), stdout)
STREAM(stream_fails, int, -1, vfprintf, (FILE *restrict f, const char *restrict format, va_list ap), (f, format, ap), f)
STREAM(stream_fails, int, EOF, fflush, (FILE *f), (f), f)

/* Defines a function with the arguments of printf, whose real one is `vname`. */
#define FORMATTED(name, vname, params, first, fails)                                               \
    int name params                                                                                \
    {                                                                                              \
        va_list ap;                                                                                \
        REAL(vname);                                                                               \
        if (fails)                                                                                 \
            return -1;                                                                             \
        va_start(ap, format);                                                                      \
        int n = real_##vname(first, format, ap);                                                   \
        va_end(ap);                                                                                \
        return n;                                                                                  \
    }
FORMATTED(fprintf, vfprintf, (FILE *restrict f, const char *restrict format, ...), f, stream_fails(f, CALLER))
FORMATTED(printf, vfprintf, (const char *restrict format, ...), stdout, stream_fails(stdout, CALLER))
/* clang-format on */

/* Even a call of close() that must fail closes the file. */
int close(int fd)
{
    REAL(close);
    bool bad = interpose_fails(KIND_CLOSE, CALLER, NULL, fd, NULL);
    int error = errno, closed = real_close(fd);
    if (!bad)
        return closed;
    errno = error;
    return -1;
}

int fclose(FILE *f)
{
    REAL(fclose);
    bool bad = fileno(f) >= 0 && interpose_fails(KIND_CLOSE, CALLER, NULL, fileno(f), NULL);
    int error = errno, closed = real_fclose(f);
    if (!bad)
        return closed;
    errno = error;
    return EOF;
}

/* The replacements of malloc must not call dlsym, which allocates memory. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *mem, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

#define NO_MEMORY interpose_fails(interpose_malloc_kind(CALLER), CALLER, NULL, -1, NULL)

void *malloc(size_t n)
{
    return NO_MEMORY ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return NO_MEMORY ? NULL : __libc_calloc(n, size);
}

void *realloc(void *mem, size_t n)
{
    return NO_MEMORY ? NULL : __libc_realloc(mem, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return NO_MEMORY ? NULL : __libc_memalign(alignment, n);
}

/* clang-format off */
FORMATTED(asprintf, vasprintf, (char **restrict out, const char *restrict format, ...), out, NO_MEMORY)
#define ALLOCATES(type, bad, name, params, args) WRAP(interpose_malloc_kind(CALLER), type, bad, name, params, args, NULL, -1)
ALLOCATES(int, -1, vasprintf, (char **restrict out, const char *restrict format, va_list ap), (out, format, ap))
ALLOCATES(char *, NULL, strdup, (const char *s), (s))
ALLOCATES(FILE *, NULL, open_memstream, (char **bytes, size_t *size), (bytes, size))
ALLOCATES(FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode))
/* clang-format on */
