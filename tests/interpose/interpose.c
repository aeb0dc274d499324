/* Makes calls of the program ampscale fail. LD_PRELOAD must name this library.
 *
 *     AMPSCALE_INTERPOSE=KIND:ERROR:FIRST[-[LAST]][:PATH]
 *
 * KIND is a name in INTERPOSE_KINDS; interpose_calls.c lists the functions of each kind. ERROR is
 * the name of an errno, "delayN", "SHORT", "FLIP" or "KILL". With "delayN" the call takes N ms
 * longer. With "SHORT" it reads or writes half of the bytes. With "FLIP", for recv and recv-gloo,
 * one bit changes in the first of the calls that receives bytes. With "KILL" the process is killed
 * before the call.
 *
 * The calls of each kind are numbered from 1. FIRST alone makes one call fail. FIRST-LAST makes all
 * calls from FIRST to LAST fail, and FIRST- all calls from FIRST on. With PATH, only calls on files
 * whose name contains PATH have numbers and can fail. A write that fails, or that kills the
 * process, writes half of its bytes first.
 *
 *     AMPSCALE_INTERPOSE_COUNT=FILE   appends a line "KIND CALLS" for each kind at exit
 *     AMPSCALE_INTERPOSE_SYNCS=FILE   appends "write PATH", "file PATH" and "folder PATH" (syncs)
 *                                     and "rename FROM TO", in the order of the calls
 *     AMPSCALE_INTERPOSE_STATE=FILE   the calls of all processes with the same FILE are numbered in
 *                                     one sequence
 *     AMPSCALE_INTERPOSE_ONLY=WORD    calls fail only in processes whose first argument is WORD
 *
 * Only calls made by the program's own code are numbered, because the number of calls made inside
 * libraries differs between machines. The exception is "malloc-library": the allocations of
 * libjansson and libjpeg, which report a failed allocation to the program; and "recv-gloo": what
 * the Gloo module receives. */
#include "interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME(name, text) text
static const char *const kind_name[KINDS] = {INTERPOSE_KINDS(NAME)};

static enum kind failing = KINDS;
static int failing_error, delay_ms;
static bool half_done, killed, flips;
static long first, last;
static char failing_path[256];
static atomic_long calls[KINDS];
static atomic_long own_turn, *turn = &own_turn; /* number of the last call */

struct code {
    uintptr_t begin, end;
};
enum { LIBRARIES = 2 };
static struct code text, library[LIBRARIES];

static void take_code(struct code *c, const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            c->begin = info->dlpi_addr + p->p_vaddr;
            c->end = c->begin + p->p_memsz;
        }
    }
}

static int find_code(struct dl_phdr_info *info, size_t size, void *data)
{
    static const char *const name[LIBRARIES] = {"/libjansson.so", "/libjpeg.so"};
    bool *is_first = data;
    (void)size;
    if (*is_first) /* the first loaded object is the program */
        take_code(&text, info);
    *is_first = false;
    for (int i = 0; i < LIBRARIES; i++)
        if (strstr(info->dlpi_name, name[i]))
            take_code(&library[i], info);
    return 0;
}

static int error_number(const char *error)
{
    enum { LARGEST = 133 };
    for (int n = 1; n <= LARGEST; n++)
        if (strerrorname_np(n) && strcmp(error, strerrorname_np(n)) == 0)
            return n;
    return 0;
}

static void share_turn(const char *file)
{
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *shared = fd >= 0 && ftruncate(fd, sizeof *turn) == 0
                       ? mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    if (shared == MAP_FAILED) {
        perror("interpose: AMPSCALE_INTERPOSE_STATE");
        _exit(99);
    }
    close(fd);
    turn = shared;
}

/* Returns true if this process is ampscale. Programs that ampscale starts, such as mpirun and
 * shells, inherit the variables, but their calls must not fail. */
static bool is_under_test(int argc, char **argv)
{
    const char *only = getenv("AMPSCALE_INTERPOSE_ONLY");
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(exe, '/');
    return name && strcmp(name, "/ampscale") == 0 &&
           (!only || (argc > 1 && strcmp(argv[1], only) == 0));
}

static void parse(const char *spec)
{
    char kind[32], error[32], range[32];
    int n = sscanf(spec, "%31[^:]:%31[^:]:%31[^:]:%255s", kind, error, range, failing_path);
    char *dash = n >= 3 ? strchr(range, '-') : NULL;
    first = n >= 3 ? atol(range) : 0;
    last = !dash ? first : dash[1] ? atol(dash + 1) : INTPTR_MAX;
    killed = n >= 3 && strcmp(error, "KILL") == 0;
    half_done = n >= 3 && strcmp(error, "SHORT") == 0;
    flips = n >= 3 && strcmp(error, "FLIP") == 0;
    bool delayed = n >= 3 && sscanf(error, "delay%d", &delay_ms) == 1;
    failing_error = n >= 3 ? error_number(error) : 0;
    for (int k = 0; k < KINDS && n >= 3; k++)
        if (strcmp(kind, kind_name[k]) == 0)
            failing = (enum kind)k;
    bool known = killed || half_done || flips || delayed || failing_error != 0;
    if (failing == KINDS || !known || first < 1) {
        fprintf(stderr, "interpose: AMPSCALE_INTERPOSE='%s' is not KIND:ERROR:FIRST...\n", spec);
        _exit(99);
    }
}

__attribute__((constructor)) static void interpose_begin(int argc, char **argv)
{
    const char *spec = getenv("AMPSCALE_INTERPOSE"), *state = getenv("AMPSCALE_INTERPOSE_STATE");
    bool is_first = true;
    if (!is_under_test(argc, argv))
        return;
    if (spec)
        parse(spec);
    if (state)
        share_turn(state);
    dl_iterate_phdr(find_code, &is_first);
}

/* Appends a line with a single write: several processes may append to the file. */
static void append(const char *file, const char *line, int n)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        perror("interpose");
    if (fd >= 0)
        close(fd);
}

__attribute__((destructor)) static void interpose_end(void)
{
    const char *file = getenv("AMPSCALE_INTERPOSE_COUNT");
    char line[1024];
    int n = 0;
    if (!file || text.end == 0)
        return;
    for (int k = 0; k < KINDS; k++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s %ld\n", kind_name[k],
                      atomic_load(&calls[k]));
    append(file, line, n);
}

void interpose_log(const char *event, const char *path, const char *to)
{
    const char *file = getenv("AMPSCALE_INTERPOSE_SYNCS");
    char line[2 * PATH_MAX + 64];
    int error = errno;
    if (file && text.end != 0)
        append(file, line, snprintf(line, sizeof line, "%s %s %s\n", event, path, to ? to : ""));
    errno = error;
}

static bool within(const struct code *c, const void *caller)
{
    return (uintptr_t)caller >= c->begin && (uintptr_t)caller < c->end;
}

enum kind interpose_write_kind(int fd)
{
    return fd == STDERR_FILENO ? KINDS : fd == STDOUT_FILENO ? KIND_PRINT : KIND_WRITE;
}

enum kind interpose_malloc_kind(const void *caller)
{
    for (int i = 0; i < LIBRARIES; i++)
        if (within(&library[i], caller))
            return KIND_MALLOC_LIBRARY;
    return KIND_MALLOC;
}

enum kind interpose_recv_kind(const void *caller)
{
    Dl_info info;
    bool other = text.end != 0 && !within(&text, caller) && dladdr(caller, &info) != 0;
    return other && strstr(info.dli_fname, "/ampscale_gloo.so") ? KIND_RECV_GLOO : KIND_RECV;
}

bool interpose_flips(void *bytes, ssize_t n)
{
    static atomic_bool done;
    if (flips && n > 0 && !atomic_exchange(&done, true))
        ((unsigned char *)bytes)[first * 7919 % n] ^= (unsigned char)(1 << first % 8);
    return flips;
}

const char *interpose_path(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = fd >= 0 ? readlink(link, path, PATH_MAX - 1) : 0;
    path[n > 0 ? n : 0] = '\0';
    return path;
}

static bool path_counts(const char *path, int fd)
{
    char of_fd[PATH_MAX];
    return !*failing_path || strstr(path ? path : interpose_path(fd, of_fd), failing_path);
}

void interpose_end_if_killed(void)
{
    if (killed)
        kill(getpid(), SIGKILL);
}

bool interpose_fails(enum kind k, const void *caller, const char *path, int fd, bool *half)
{
    char of_fd[PATH_MAX];
    /* interpose_malloc_kind and interpose_recv_kind have checked the caller in a library */
    bool checked = k == KIND_MALLOC_LIBRARY || k == KIND_RECV_GLOO;
    if (k == KINDS || !(checked ? text.end != 0 : within(&text, caller)))
        return false;
    if (k == KIND_WRITE)
        interpose_log("write", interpose_path(fd, of_fd), NULL);
    atomic_fetch_add(&calls[k], 1);
    if (k < KIND_FILE)
        atomic_fetch_add(&calls[KIND_FILE], 1);
    int saved = errno;
    bool is_kind = k == failing || (failing == KIND_FILE && k < KIND_FILE);
    bool matches = is_kind && path_counts(path, fd);
    errno = saved;
    long n = matches ? atomic_fetch_add(turn, 1) + 1 : 0;
    if (n < first || n > last || !matches)
        return false;
    if (delay_ms > 0) {
        usleep((useconds_t)delay_ms * 1000);
        errno = saved;
        return false;
    }
    if (half_done || flips) {
        if (half)
            *half = true;
        return false;
    }
    if (k != KIND_WRITE)
        interpose_end_if_killed();
    errno = failing_error;
    return true;
}
