/* Replaces files atomically, and reads files up to a size limit. */
#include "base/file.h"

#include "base/array.h"

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

enum { TEMPORARY_DIGITS = 16 };

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
    if (!path_is_dir(path))
        return status_fail(STATUS_IO, "cannot make folder '%s': there is a file of that name",
                           path);
    return STATUS_OK;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

enum status dir_remove(const char *path)
{
    enum { FOLDERS_OPEN = 16 };
    struct stat s;
    bool absent = lstat(path, &s) != 0 && errno == ENOENT;
    if (absent || nftw(path, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS) == 0)
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

/* Removes the folder if this user owns it and no process has locked it. */
static void remove_unheld_dir(const char *parent, const char *name)
{
    char path[4096];
    struct stat s;
    if (path_format(path, sizeof path, "%s/%s", parent, name) != STATUS_OK)
        return;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    bool left = fstat(fd, &s) == 0 && s.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
    enum status removed = left ? dir_remove(path) : STATUS_OK;
    (void)removed; /* a later call of sweep_dirs tries again */
    close(fd);
}

static void sweep_dirs(const char *parent, const char *prefix, size_t n)
{
    enum { XS = 6 };
    DIR *d = opendir(parent);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, prefix, n) == 0 && strlen(e->d_name) == n + XS)
            remove_unheld_dir(parent, e->d_name);
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
    char prefix[256], path[sizeof d->path];
    snprintf(prefix, sizeof prefix, "%s-", name);
    sweep_dirs(parent, prefix, strlen(prefix));
    for (int i = 0;; i++) {
        if (snprintf(path, sizeof path, "%s/%sXXXXXX", parent, prefix) >= (int)sizeof path)
            return status_fail(STATUS_IO,
                               "cannot make a folder in '%s': its path is too long; set TMPDIR",
                               parent);
        if (!mkdtemp(path))
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
        if (fd >= 0)
            close(fd);
    }
}

enum status temporary_dir_remove(struct temporary_dir *d)
{
    if (!*d->path)
        return STATUS_OK;
    enum status st = dir_remove(d->path);
    if (d->held >= 0)
        close(d->held);
    *d->path = '\0';
    return st;
}

enum status path_look(const char *path, bool *exists)
{
    struct stat s;
    *exists = stat(path, &s) == 0;
    if (*exists || errno == ENOENT || errno == ENOTDIR)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot look for '%s': %s", path, strerror(errno));
}

bool path_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool path_is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool path_of_program(const char *name, char *out, size_t size)
{
    const char *dirs = getenv("PATH");
    while (dirs && *dirs) {
        int n = (int)strcspn(dirs, ":");
        int length = snprintf(out, size, "%.*s/%s", n, dirs, name);
        if (n > 0 && length < (int)size && access(out, X_OK) == 0)
            return true;
        dirs += n + (dirs[n] == ':');
    }
    return false;
}

/* Whether `name` is "<anything>.tmp.<16 hexadecimal digits>", or, as in earlier versions,
 * "<anything>.tmp.<process id>". */
static bool is_temporary(const char *name)
{
    const char *end = strrchr(name, '.');
    if (!end || end - name <= 4 || strncmp(end - 4, ".tmp", 4) != 0)
        return false;
    size_t n = strlen(end + 1);
    return n > 0 && (strspn(end + 1, "0123456789") == n ||
                     (n == TEMPORARY_DIGITS && strspn(end + 1, "0123456789abcdef") == n));
}

enum status path_temporary(const char *path, char *out, size_t size)
{
    uint64_t name;
    if (getrandom(&name, sizeof name, 0) != (ssize_t)sizeof name)
        return status_fail(STATUS_IO, "cannot choose the name of a temporary file for '%s': %s",
                           path, strerror(errno));
    return path_format(out, size, "%s.tmp.%0*" PRIx64, path, TEMPORARY_DIGITS, name);
}

static void remove_unheld(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, name, 0);
    close(fd);
}

/* Creates and locks the temporary file. Its name is unpredictable, so that no other process can
 * create a file or link of that name first. If another process removes the file before this process
 * has locked it, creates a new file. On a file system without locks, no process removes temporary
 * files. */
static enum status open_temporary(struct atomic_file *f)
{
    enum { TRIES = 100 };
    for (int i = 0;; i++) {
        struct stat s;
        TRY(path_temporary(f->path, f->temp, sizeof f->temp));
        int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST && i < TRIES)
            continue;
        if (fd < 0)
            return status_fail(STATUS_IO, "cannot write '%s': %s", f->path, strerror(errno));
        bool swept = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        swept = swept || (fstat(fd, &s) == 0 && s.st_nlink == 0);
        if (!swept || i == TRIES) {
            f->stream = fdopen(fd, "wb");
            if (f->stream)
                return STATUS_OK;
            enum status st =
                status_fail(STATUS_OOM, "cannot write '%s': %s", f->path, strerror(errno));
            close(fd);
            unlink(f->temp);
            return st;
        }
        close(fd);
    }
}

enum status atomic_file_open(struct atomic_file *f, const char *path)
{
    *f = (struct atomic_file){0};
    TRY(path_format(f->path, sizeof f->path, "%s", path));
    /* Removes the temporary files of `path` that no process is writing. */
    char dir[4096];
    const char *name = split(path, dir);
    size_t n = strlen(name);
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, name, n) == 0 && strncmp(e->d_name + n, ".tmp.", 5) == 0 &&
            is_temporary(e->d_name))
            remove_unheld(dirfd(d), e->d_name);
    if (d)
        closedir(d);
    return open_temporary(f);
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

static enum status write_out(struct atomic_file *f, bool durable)
{
    bool bad = ferror(f->stream) != 0;
    bad = fflush(f->stream) != 0 || bad;
    bad = (!bad && durable && fsync(fileno(f->stream)) != 0) || bad;
    if (!bad)
        return STATUS_OK;
    enum status st =
        status_fail(STATUS_IO, "cannot write '%s': %s", f->path, strerror(errno ? errno : EIO));
    atomic_file_abandon(f);
    return st;
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
    int held = fcntl(fileno(f->stream), F_DUPFD_CLOEXEC, 0); /* this copy of the descriptor keeps
                                                              * the file locked until the rename */
    errno = 0;
    bool bad = fclose(f->stream) != 0 || rename(f->temp, f->path) != 0;
    int why = errno ? errno : EIO;
    f->stream = NULL;
    if (held >= 0)
        close(held);
    if (!bad)
        return durable ? sync_parent(f->path) : STATUS_OK;
    unlink(f->temp);
    return status_fail(STATUS_IO, "cannot write '%s': %s", f->path, strerror(why));
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

void atomic_file_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    const struct dirent *e;
    while ((e = readdir(d)))
        if (is_temporary(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
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
