/* Makes a system call of a program under test fail: to be named in LD_PRELOAD.
 *
 *     AMPSCALE_INTERPOSE=KIND:ERRNO:FIRST[-[LAST]][:PATH]
 *
 * KIND is one of the groups below; ERRNO a name (EIO) or a number, or "delay300" for a call that
 * takes 300 ms longer. Call number FIRST of the kind, from 1, fails, or those up to LAST, or all
 * from FIRST on where LAST is empty. With PATH only calls count whose file's name contains it.
 * AMPSCALE_INTERPOSE_COUNT=FILE appends a line "KIND CALLS" for each kind at exit. Calls count
 * where the program's own code makes them, not a library: a library's are its own affair, and their
 * number differs between machines. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind {
    KIND_OPEN,
    KIND_STAT,
    KIND_READ,
    KIND_WRITE,
    KIND_FSYNC,        /* of files */
    KIND_FSYNC_FOLDER, /* of folders */
    KIND_RENAME,
    KIND_MMAP,
    KIND_MALLOC,
    KIND_SOCKET,
    KINDS
};

static const char *const kind_name[KINDS] = {"open",         "stat",   "read", "write",  "fsync",
                                             "fsync-folder", "rename", "mmap", "malloc", "socket"};

static const struct {
    const char *name;
    int number;
} error_name[] = {{"EIO", EIO},         {"ENOENT", ENOENT}, {"EACCES", EACCES},
                  {"ESTALE", ESTALE},   {"ENOMEM", ENOMEM}, {"EMFILE", EMFILE},
                  {"ENFILE", ENFILE},   {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
                  {"EINTR", EINTR},     {"EROFS", EROFS},   {"ECONNREFUSED", ECONNREFUSED},
                  {"ENOBUFS", ENOBUFS}, {"EPERM", EPERM},   {"ECONNRESET", ECONNRESET}};

static enum kind failing = KINDS;
static int failing_error, delay_ms;
static long first, last;
static char failing_path[256];
static atomic_long calls[KINDS];
static uintptr_t text_begin, text_end; /* of the program itself */

static int find_program(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            text_begin = info->dlpi_addr + p->p_vaddr;
            text_end = text_begin + p->p_memsz;
        }
    }
    return 1; /* the first object is the program */
}

static int error_number(const char *text)
{
    for (size_t i = 0; i < sizeof error_name / sizeof *error_name; i++)
        if (strcmp(text, error_name[i].name) == 0)
            return error_name[i].number;
    return atoi(text);
}

__attribute__((constructor)) static void interpose_begin(void)
{
    const char *spec = getenv("AMPSCALE_INTERPOSE");
    char kind[32], error[32], range[32];
    dl_iterate_phdr(find_program, NULL);
    if (!spec)
        return;
    int n = sscanf(spec, "%31[^:]:%31[^:]:%31[^:]:%255s", kind, error, range, failing_path);
    char *dash = strchr(range, '-');
    first = n >= 3 ? atol(range) : 0;
    last = !dash ? first : dash[1] ? atol(dash + 1) : INTPTR_MAX;
    failing_error = n >= 3 ? error_number(error) : 0;
    if (n >= 3 && sscanf(error, "delay%d", &delay_ms) == 1)
        failing_error = EINTR; /* not used */
    for (int k = 0; k < KINDS && n >= 3; k++)
        if (strcmp(kind, kind_name[k]) == 0)
            failing = (enum kind)k;
    if (failing == KINDS || failing_error == 0 || first < 1) {
        fprintf(stderr, "interpose: AMPSCALE_INTERPOSE='%s' is not KIND:ERRNO:FIRST...\n", spec);
        _exit(99);
    }
}

__attribute__((destructor)) static void interpose_end(void)
{
    const char *file = getenv("AMPSCALE_INTERPOSE_COUNT");
    char text[512];
    int n = 0;
    for (int k = 0; k < KINDS; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %ld\n", kind_name[k],
                      atomic_load(&calls[k]));
    int fd = file ? open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd < 0)
        return;
    if (write(fd, text, (size_t)n) != n)
        perror("interpose");
    close(fd);
}

/* Whether this call fails; errno says how. `path` may be NULL, and `fd` -1. */
static bool fails(enum kind k, const void *caller, const char *path, int fd)
{
    char of_fd[4096] = "", link[64];
    if ((uintptr_t)caller < text_begin || (uintptr_t)caller >= text_end)
        return false;
    if (k == failing && *failing_path) {
        if (!path && fd >= 0) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t n = readlink(link, of_fd, sizeof of_fd - 1);
            of_fd[n > 0 ? n : 0] = '\0';
            path = of_fd;
        }
        if (!path || !strstr(path, failing_path))
            return false;
    }
    long n = atomic_fetch_add(&calls[k], 1) + 1;
    if (k != failing || n < first || n > last)
        return false;
    if (delay_ms > 0) {
        usleep((useconds_t)delay_ms * 1000);
        return false;
    }
    errno = failing_error;
    return true;
}

#define CALLER __builtin_return_address(0)

/* The C library's own function; found when it is first called. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *real_##name;                                                          \
    if (!real_##name)                                                                              \
    real_##name = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define MODE(flags, mode)                                                                          \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode = va_arg(ap, mode_t);                                                                 \
        va_end(ap);                                                                                \
    }

/* clang-format off */
#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        REAL(name);                                                                                \
        MODE(flags, mode)                                                                          \
        return fails(KIND_OPEN, CALLER, path, -1) ? -1 : real_##name(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int dir, const char *path, int flags, ...)                                            \
    {                                                                                              \
        REAL(name);                                                                                \
        MODE(flags, mode)                                                                          \
        return fails(KIND_OPEN, CALLER, path, -1) ? -1 : real_##name(dir, path, flags, mode);      \
    }
OPENAT(openat)
OPENAT(openat64)

/* A function of fixed arguments: its parameters, its arguments, the file's name and descriptor. */
#define WRAP(kind, type, bad, name, params, args, path, fd)                                        \
    type name params                                                                               \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(kind, CALLER, path, fd) ? (bad) : real_##name args;                           \
    }
WRAP(KIND_OPEN, FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode), path, -1)
WRAP(KIND_OPEN, FILE *, NULL, fopen64, (const char *path, const char *mode), (path, mode), path, -1)
WRAP(KIND_OPEN, DIR *, NULL, opendir, (const char *path), (path), path, -1)
WRAP(KIND_STAT, int, -1, stat, (const char *restrict path, struct stat *restrict s), (path, s), path, -1)
WRAP(KIND_STAT, int, -1, lstat, (const char *restrict path, struct stat *restrict s), (path, s), path, -1)
WRAP(KIND_STAT, int, -1, fstat, (int fd, struct stat *s), (fd, s), NULL, fd)
WRAP(KIND_STAT, int, -1, fstatat, (int dir, const char *restrict path, struct stat *restrict s, int flags), (dir, path, s, flags), path, -1)
WRAP(KIND_STAT, int, -1, faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags), path, -1)
WRAP(KIND_READ, ssize_t, -1, read, (int fd, void *bytes, size_t n), (fd, bytes, n), NULL, fd)
WRAP(KIND_READ, ssize_t, -1, pread, (int fd, void *bytes, size_t n, off_t at), (fd, bytes, n, at), NULL, fd)
WRAP(KIND_WRITE, ssize_t, -1, write, (int fd, const void *bytes, size_t n), (fd, bytes, n), NULL, fd)
WRAP(KIND_RENAME, int, -1, rename, (const char *a, const char *b), (a, b), a, -1)
WRAP(KIND_RENAME, int, -1, renameat, (int da, const char *a, int db, const char *b), (da, a, db, b), a, -1)
WRAP(KIND_RENAME, int, -1, link, (const char *a, const char *b), (a, b), a, -1)
WRAP(KIND_MMAP, void *, MAP_FAILED, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset), (at, n, prot, flags, fd, offset), NULL, fd)
WRAP(KIND_SOCKET, int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol), NULL, -1)
WRAP(KIND_SOCKET, int, -1, accept4, (int fd, struct sockaddr *restrict a, socklen_t *restrict n, int flags), (fd, a, n, flags), NULL, -1)
WRAP(KIND_SOCKET, int, -1, accept, (int fd, struct sockaddr *restrict a, socklen_t *restrict n), (fd, a, n), NULL, -1)
WRAP(KIND_SOCKET, int, -1, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), NULL, -1)
WRAP(KIND_SOCKET, ssize_t, -1, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags), NULL, -1)
WRAP(KIND_SOCKET, ssize_t, -1, recv, (int fd, void *bytes, size_t n, int flags), (fd, bytes, n, flags), NULL, -1)
/* clang-format on */

/* glibc's streams read and write below what a wrapper sees: the stream is marked as failed. */
enum { STREAM_ERROR = 0x20 };

size_t fread(void *restrict bytes, size_t size, size_t n, FILE *restrict f)
{
    REAL(fread);
    if (!fails(KIND_READ, CALLER, NULL, fileno(f)))
        return real_fread(bytes, size, n, f);
    f->_flags |= STREAM_ERROR;
    return 0;
}

int fflush(FILE *f)
{
    REAL(fflush);
    if (!f || !fails(KIND_WRITE, CALLER, NULL, fileno(f)))
        return real_fflush(f);
    f->_flags |= STREAM_ERROR;
    return EOF;
}

static enum kind fsync_kind(int fd)
{
    char link[64];
    struct stat s;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return stat(link, &s) == 0 && S_ISDIR(s.st_mode) ? KIND_FSYNC_FOLDER : KIND_FSYNC;
}

int fsync(int fd)
{
    REAL(fsync);
    return fails(fsync_kind(fd), CALLER, NULL, fd) ? -1 : real_fsync(fd);
}

/* Not by dlsym, which allocates. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *mem, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

void *malloc(size_t n)
{
    return fails(KIND_MALLOC, CALLER, NULL, -1) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails(KIND_MALLOC, CALLER, NULL, -1) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *mem, size_t n)
{
    return fails(KIND_MALLOC, CALLER, NULL, -1) ? NULL : __libc_realloc(mem, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fails(KIND_MALLOC, CALLER, NULL, -1) ? NULL : __libc_memalign(alignment, n);
}
