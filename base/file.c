/* Replaces files atomically, and reads files up to a size limit. */
#include "base/file.h"

#include "base/array.h"
#include "base/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS_OPEN = 16 };

enum status dir_make(const char *path)
{
    char part[4096];
    TRY(path_format(part, sizeof part, "%s", path));
    if (*part == '\0')
        return status_fail(STATUS_IO, "cannot make a folder: its path is empty");
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return status_fail(STATUS_IO, "cannot make folder '%s': %s", part, strerror(errno));
        *p = end;
        if (end == '\0')
            break;
    }
    bool is_dir;
    TRY(path_look_dir(path, &is_dir));
    return is_dir ? STATUS_OK
                  : status_fail(STATUS_IO, "cannot make folder '%s': there is a file of that name",
                                path);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static enum status cannot_look(const char *path)
{
    return status_fail(STATUS_IO, "cannot look for '%s': %s", path, strerror(errno));
}

enum status dir_remove(const char *path)
{
    struct stat s;
    if (lstat(path, &s) != 0)
        return errno == ENOENT ? STATUS_OK : cannot_look(path);
    if (nftw(path, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS) == 0)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot remove '%s': %s", path, strerror(errno));
}

/* Splits a path: returns its last component, and writes the folder before it to `dir`. */
static const char *split(const char *path, char dir[4096])
{
    snprintf(dir, 4096, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash) {
        strcpy(dir, ".");
        return path;
    }
    slash[slash == dir] = '\0';
    return strrchr(path, '/') + 1;
}

/* No other program makes names with this mark and TEMPORARY_DIGITS hexadecimal digits behind it, so
 * that no file or folder of the user is taken for a temporary one. */
static const char temporary_mark[] = ".ampscale-tmp.";
enum { TEMPORARY_DIGITS = 16, MARK = sizeof temporary_mark - 1 };

static bool is_temporary(const char *entry, const char *name)
{
    size_t length = strlen(entry), n = name ? strlen(name) : length - MARK - TEMPORARY_DIGITS;
    return length > MARK + TEMPORARY_DIGITS && length == n + MARK + TEMPORARY_DIGITS &&
           memcmp(entry + n, temporary_mark, MARK) == 0 && (!name || memcmp(entry, name, n) == 0) &&
           strspn(entry + n + MARK, "0123456789abcdef") == TEMPORARY_DIGITS;
}

/* Removes the temporary files, or, with O_DIRECTORY as `kind`, folders of `name` or (NULL) of all
 * names that no process has locked: killed processes have left them. Folders must belong to this
 * user. */
static void sweep(const char *parent, int kind, const char *name)
{
    struct stat s;
    char path[4096];
    DIR *d = opendir(parent);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        if (!is_temporary(e->d_name, name))
            continue;
        int fd = openat(dirfd(d), e->d_name, kind | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &s) == 0 &&
            (S_ISREG(s.st_mode) || (S_ISDIR(s.st_mode) && s.st_uid == geteuid())) &&
            flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            snprintf(path, sizeof path, "%s/%s", parent, e->d_name) < (int)sizeof path)
            nftw(path, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS); /* else a later call does */
        close(fd);
    }
    if (d)
        closedir(d);
}

enum status temporary_dir_make(struct temporary_dir *d, const char *otherwise, const char *name)
{
    const char *said = getenv("TMPDIR");
    return temporary_dir_make_in(d, said && *said ? said : otherwise, name);
}

enum status temporary_dir_make_in(struct temporary_dir *d, const char *parent, const char *name)
{
    enum { TRIES = 100 };
    struct stat s;
    char base[sizeof d->path], path[sizeof d->path];
    TRY(path_format(base, sizeof base, "%s/%s", parent, name));
    sweep(parent, O_RDONLY | O_DIRECTORY, name);
    for (int i = 0;; i++) {
        TRY(path_temporary(base, path, sizeof path));
        if (mkdir(path, 0700) != 0)
            return status_fail(STATUS_IO, "cannot make a folder in '%s': %s; set TMPDIR", parent,
                               strerror(errno));
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* Another process may have removed the folder before this process locked it. */
        bool swept = fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
        swept = swept || (fstat(fd, &s) == 0 && s.st_nlink == 0);
        if (!swept || i == TRIES) {
            memcpy(d->path, path, sizeof path);
            d->held = fd;
            return STATUS_OK;
        }
        fd_close(&fd);
    }
}

enum status temporary_dir_remove(struct temporary_dir *d)
{
    if (!*d->path)
        return STATUS_OK;
    enum status st = dir_remove(d->path);
    fd_close(&d->held);
    *d->path = '\0';
    return st;
}

/* Whether `call`, stat or lstat, finds `path`. Sets *error if this is not known. */
static bool is_there(int (*call)(const char *path, struct stat *s), const char *path,
                     struct stat *s, int *error)
{
    if (call(path, s) == 0)
        return true;
    if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
        *error = errno;
    return false;
}

enum status path_stat(const char *path, struct stat *s, bool *exists)
{
    int error = 0;
    *exists = is_there(stat, path, s, &error);
    errno = error;
    return error == 0 ? STATUS_OK : cannot_look(path);
}

enum status path_look(const char *path, bool *exists)
{
    return path_stat(path, &(struct stat){0}, exists);
}

enum status path_taken(const char *path, bool *taken)
{
    *taken = readlink(path, (char[1]){0}, 1) >= 0;
    return *taken ? STATUS_OK : path_look(path, taken);
}

enum status path_same(const char *a, const char *b, bool *same)
{
    struct stat x, y;
    *same = false;
    TRY(path_stat(a, &x, same));
    if (*same)
        TRY(path_stat(b, &y, same));
    *same = *same && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return STATUS_OK;
}

enum status path_look_dir(const char *path, bool *exists)
{
    struct stat s;
    bool found = stat(path, &s) == 0;
    *exists = found && S_ISDIR(s.st_mode);
    if (found || errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return STATUS_OK;
    return cannot_look(path);
}

bool path_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

enum status path_of_program(const char *dirs, const char *name, char *out, size_t size, bool *found)
{
    struct stat s;
    for (dirs = dirs ? dirs : "/bin:/usr/bin";; dirs++) {
        size_t n = strcspn(dirs, ":");
        int length = snprintf(out, size, "%.*s%s%s", (int)n, dirs, n > 0 ? "/" : "", name);
        errno = ENOENT;
        *found = length < (int)size && stat(out, &s) == 0 && S_ISREG(s.st_mode) &&
                 access(out, X_OK) == 0;
        if (!*found && errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ELOOP)
            return cannot_look(out);
        dirs += n;
        if (*found || !*dirs)
            return STATUS_OK;
    }
}

enum status path_temporary(const char *path, char *out, size_t size)
{
    uint64_t name;
    if (getrandom(&name, sizeof name, 0) != (ssize_t)sizeof name)
        return status_fail(STATUS_IO, "cannot choose the name of a temporary file for '%s': %s",
                           path, strerror(errno));
    return path_format(out, size, "%s%s%016" PRIx64, path, temporary_mark, name);
}

void atomic_file_sweep(const char *dir)
{
    sweep(dir, O_RDWR, NULL);
}

enum status atomic_file_fail(struct atomic_file *f, int error)
{
    atomic_file_abandon(f);
    bool removed = f->result && *f->temp && unlink(f->target) == 0;
    return status_fail(STATUS_IO, "cannot write '%s': %s%s", f->path, strerror(error),
                       removed ? "; the earlier file was removed" : "");
}

/* Takes ownership of `fd`; below 0: it could not be opened. */
static enum status open_stream(struct atomic_file *f, int fd)
{
    f->stream = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f->stream)
        return STATUS_OK;
    int error = errno;
    if (fd >= 0) {
        close(fd);
        unlink(f->temp);
    }
    return atomic_file_fail(f, error);
}

/* Removes the temporary files of `target` that no process is writing; then creates and locks one.
 * Its name is unpredictable, so that no other process can create a file or link of that name first.
 * If another process removes the file before this process has locked it, creates a new file. On a
 * file system without locks, no process removes temporary files. */
static enum status open_temporary(struct atomic_file *f)
{
    enum { TRIES = 100 };
    char dir[4096];
    sweep(dir, O_RDWR, split(f->target, dir));
    int error = 0;
    bool old = is_there(lstat, f->target, &f->old, &error) && S_ISREG(f->old.st_mode);
    if (error)
        return atomic_file_fail(f, error);
    if (!old)
        f->old.st_mode = 0;
    for (int i = 0;; i++) {
        struct stat s;
        TRY(path_temporary(f->target, f->temp, sizeof f->temp));
        int fd =
            open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, old ? 0600 : 0666);
        if (fd < 0 && errno == EEXIST && i < TRIES)
            continue;
        bool swept = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        swept = swept || (fd >= 0 && fstat(fd, &s) == 0 && s.st_nlink == 0);
        if (!swept || i == TRIES)
            return open_stream(f, fd);
        close(fd);
    }
}

enum status atomic_file_open(struct atomic_file *f, const char *path)
{
    *f = (struct atomic_file){0};
    TRY(path_format(f->path, sizeof f->path, "%s", path));
    memcpy(f->target, f->path, sizeof f->target);
    return open_temporary(f);
}

/* Whether `path` is in /proc. There, a link to an open file, such as /proc/self/fd/1, may have no
 * path that could be followed. /dev/stdout and /dev/fd/1 lead to it. */
static bool is_in_proc(const char *path, int *error)
{
    struct stat s, proc;
    return is_there(lstat, path, &s, error) && is_there(stat, "/proc", &proc, error) &&
           s.st_dev == proc.st_dev;
}

enum status output_find(const char *path, char target[4096], bool *direct)
{
    enum { LINKS_MAX = 40 };
    struct stat s;
    char link[4096], dir[4096];
    int error = 0;
    TRY(path_format(target, 4096, "%s", path));
    for (int i = 0; is_there(lstat, target, &s, &error) && S_ISLNK(s.st_mode) &&
                    !is_in_proc(target, &error) && !error;
         i++) {
        ssize_t n = readlink(target, link, sizeof link - 1);
        if (n < 0 || i == LINKS_MAX)
            return status_fail(STATUS_IO, "cannot write '%s': %s", path,
                               strerror(n < 0 ? errno : ELOOP));
        link[n] = '\0';
        split(target, dir);
        bool whole = *link == '/';
        TRY(path_format(target, 4096, "%s%s%s", whole ? "" : dir, whole ? "" : "/", link));
    }
    bool there = is_there(stat, target, &s, &error);
    *direct = is_in_proc(target, &error) || (there && !S_ISREG(s.st_mode));
    if (error)
        return status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(error));
    if (*path && !(there && S_ISDIR(s.st_mode)))
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "'%s' is %s: give the name of a file", path,
                       *path ? "a folder" : "empty");
}

/* Opens what is written to itself. A signal ends the wait for the reader of a pipe. */
static int open_direct(const char *path)
{
    struct stat s;
    int fd;
    while ((fd = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) < 0 &&
           errno == ENXIO && stat(path, &s) == 0 && S_ISFIFO(s.st_mode) && !stop_requested())
        usleep(20000);
    return fd >= 0 && fcntl(fd, F_SETFL, 0) == 0 ? fd : -1;
}

enum status output_file_open(struct atomic_file *f, const char *path)
{
    bool direct;
    int n;
    *f = (struct atomic_file){.result = true};
    TRY(path_format(f->path, sizeof f->path, "%s", path));
    TRY(output_find(path, f->target, &direct));
    if (!direct)
        return open_temporary(f);
    fflush(stdout);
    /* A descriptor of this process is used itself: a socket cannot be opened, and what others have
     * written to a file must stay. */
    bool own =
        sscanf(f->target, "/proc/self/fd/%d", &n) == 1 || sscanf(f->target, "/dev/fd/%d", &n) == 1;
    enum status st = open_stream(f, own ? fcntl(n, F_DUPFD_CLOEXEC, 0) : open_direct(f->target));
    return st == STATUS_OK || !stop_requested() ? st : stop_check();
}

enum status log_open(const char *path, int flags, int *fd)
{
    struct stat s;
    int unknown; /* then a link is refused */
    /* The name of a log in memory is a link. */
    int follow = is_in_proc(path, &unknown) ? 0 : O_NOFOLLOW;
    flags |= O_CREAT | O_APPEND | O_CLOEXEC;
    *fd = open(path, flags | O_NONBLOCK | follow, 0666);
    bool other = *fd < 0 ? errno == ELOOP || errno == ENXIO /* a link, or a pipe without a reader */
                         : fstat(*fd, &s) != 0 || !S_ISREG(s.st_mode);
    if (*fd >= 0 && !other && fcntl(*fd, F_SETFL, flags) == 0)
        return STATUS_OK;
    enum status st = status_fail(STATUS_IO, "cannot write '%s': %s", path,
                                 other ? "not a regular file" : strerror(errno));
    fd_close(fd);
    return st;
}

/* Syncs the folder of `path`, because a rename is durable only after that. */
static enum status sync_parent(const char *path)
{
    char dir[4096];
    split(path, dir);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return STATUS_OK; /* the folder is writable but not readable */
    /* EINVAL, ENOTSUP: this file system cannot sync a folder. */
    bool bad = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
    enum status st = bad ? status_fail(STATUS_IO, "cannot write '%s': cannot sync its folder: %s",
                                       path, strerror(errno))
                         : STATUS_OK;
    close(fd);
    return st;
}

int stream_flush(FILE *f)
{
    bool failed = ferror(f) != 0;
    errno = 0;
    if (fflush(f) == 0 && (!failed || write(fileno(f), "\n", 1) == 1)) /* sets errno again */
        return failed ? EIO : 0;
    return errno;
}

static enum status write_out(struct atomic_file *f, bool durable)
{
    int error = stream_flush(f->stream);
    if (error == 0 && durable && fsync(fileno(f->stream)) != 0 &&
        (*f->temp || (errno != EINVAL && errno != EROFS))) /* a pipe cannot be synced */
        error = errno;
    return error ? atomic_file_fail(f, error) : STATUS_OK;
}

enum status atomic_file_sync(struct atomic_file *f)
{
    return write_out(f, true);
}

void atomic_file_begin_sync(struct atomic_file *f)
{
    if (fflush(f->stream) == 0)
        (void)sync_file_range(fileno(f->stream), 0, 0, SYNC_FILE_RANGE_WRITE);
}

static enum status put_in_place(struct atomic_file *f, bool durable)
{
    TRY(write_out(f, durable));
    if (f->old.st_mode) {
        (void)!fchown(fileno(f->stream), f->old.st_uid, f->old.st_gid); /* only root can */
        (void)!fchmod(fileno(f->stream), f->old.st_mode & 0777);
    }
    int held = fcntl(fileno(f->stream), F_DUPFD_CLOEXEC, 0); /* this copy of the descriptor keeps
                                                              * the file locked until the rename */
    bool bad = fclose(f->stream) != 0 || (*f->temp && rename(f->temp, f->target) != 0);
    int why = errno;
    f->stream = NULL;
    fd_close(&held);
    if (!bad)
        return durable && *f->temp ? sync_parent(f->target) : STATUS_OK;
    unlink(f->temp);
    return atomic_file_fail(f, why);
}

enum status atomic_file_commit(struct atomic_file *f)
{
    return put_in_place(f, true);
}

enum status atomic_file_publish(struct atomic_file *f)
{
    return put_in_place(f, false);
}

void atomic_file_abandon(struct atomic_file *f)
{
    if (!f->stream)
        return;
    fclose(f->stream);
    f->stream = NULL;
    unlink(f->temp);
}

enum status atomic_file_end(struct atomic_file *f, enum status st)
{
    st = st == STATUS_OK ? atomic_file_commit(f) : st;
    atomic_file_abandon(f);
    return st;
}

enum status file_replace(const char *path, const void *bytes, size_t size)
{
    struct atomic_file f;
    TRY(atomic_file_open(&f, path));
    fwrite(bytes, 1, size, f.stream); /* commit checks the stream */
    return atomic_file_commit(&f);
}

/* Reads a whole open file; messages name it `path`. */
static enum status read_whole(FILE *in, const char *path, size_t max, char **bytes, size_t *size)
{
    struct stat s;
    if (fstat(fileno(in), &s) != 0)
        return status_fail(STATUS_IO, "cannot read '%s': %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return status_fail(STATUS_DATA, "cannot read '%s': not a regular file", path);
    if ((size_t)s.st_size > max)
        return status_fail(STATUS_DATA, "'%s' has %lld bytes, at most %zu are allowed", path,
                           (long long)s.st_size, max);
    char *buf;
    TRY(array_new(&buf, s.st_size + 1));
    *size = fread(buf, 1, (size_t)s.st_size, in);
    if (*size == (size_t)s.st_size) {
        *bytes = buf;
        return STATUS_OK;
    }
    free(buf);
    return status_fail(STATUS_IO, "cannot read '%s': %s", path,
                       ferror(in) ? strerror(errno) : "the file became shorter");
}

enum status file_read(const char *path, size_t max, char **bytes, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
    FILE *in = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!in)
        return status_fail(errno == ENOENT ? STATUS_DATA : STATUS_IO, "cannot open '%s': %s", path,
                           strerror(errno));
    enum status st = read_whole(in, path, max, bytes, size);
    fclose(in);
    return st;
}

bool file_first_line(const char *path, char *out, size_t size)
{
    return file_find_line(path, "", out, size);
}

bool file_find_line(const char *path, const char *begin, char *out, size_t size)
{
    FILE *in = fopen(path, "re");
    size_t n = strlen(begin);
    bool got = false;
    while (in && !got && fgets(out, (int)size, in))
        got = strncmp(out, begin, n) == 0;
    if (in)
        fclose(in);
    if (got) {
        size_t length = strcspn(out + n, "\n");
        memmove(out, out + n, length);
        out[length] = '\0';
    }
    return got;
}

enum status path_format(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, size, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size)
        return status_fail(STATUS_INVALID, "the path '%.80s...' is too long", out);
    return STATUS_OK;
}
