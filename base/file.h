/* Replaces files atomically, makes and removes folders, and reads files of unknown origin. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* Creates a folder and its parents. If the folder exists, does nothing. */
MUST_CHECK enum status dir_make(const char *path);

/* Removes a file, or a folder with all that it contains; does not follow links. If there is no file
 * or folder at `path`, does nothing. */
MUST_CHECK enum status dir_remove(const char *path);

/* A temporary folder; {0}: none. */
struct temporary_dir {
    char path[4096]; /* "": none */
    int held;        /* descriptor that keeps the folder locked; -1: none */
};

/* Creates a folder with the name that path_temporary makes of `name`, in TMPDIR, or in `otherwise`
 * if TMPDIR is not set. First removes the folders with such names that killed processes have left:
 * those that belong to this user and that no process has locked. */
MUST_CHECK enum status temporary_dir_make(struct temporary_dir *d, const char *otherwise,
                                          const char *name);

/* Does the same as temporary_dir_make, but in the folder `parent`. */
MUST_CHECK enum status temporary_dir_make_in(struct temporary_dir *d, const char *parent,
                                             const char *name);

/* Removes the folder and all that it contains; does nothing for {0}. */
MUST_CHECK enum status temporary_dir_remove(struct temporary_dir *d);

/* Sets *exists to whether there is a file or folder at `path`. Only the errors ENOENT, ENOTDIR
 * and ENAMETOOLONG mean that nothing is there. Any other error is STATUS_IO: a file with the
 * results of days may be there, and be unreachable only at the moment. */
MUST_CHECK enum status path_look(const char *path, bool *exists);

/* As path_look, but a link that leads nowhere takes its name too. */
MUST_CHECK enum status path_taken(const char *path, bool *taken);

/* As path_look; *s is the status of the file or folder, if it exists. */
MUST_CHECK enum status path_stat(const char *path, struct stat *s, bool *exists);

/* Sets *same to whether both paths lead to the same file or folder. STATUS_IO as path_look. */
MUST_CHECK enum status path_same(const char *a, const char *b, bool *same);

/* Sets *exists to whether there is a folder at `path`, which may be a link to it. A link that leads
 * nowhere, or to itself, is none. STATUS_IO as path_look. */
MUST_CHECK enum status path_look_dir(const char *path, bool *exists);

/* As path_look, but takes what cannot be looked at for what exists: for messages, and where the
 * next process gives the reason. */
bool path_exists(const char *path);

/* Looks for the executable file `name` in folders that are listed as in PATH, as a shell does
 * (NULL: those of a shell without PATH). Writes its path to `out`, and to *found whether there is
 * one. */
MUST_CHECK enum status path_of_program(const char *dirs, const char *name, char *out, size_t size,
                                       bool *found);

/* Writes "<path>.ampscale-tmp.<16 hexadecimal digits>" to `out`: an unpredictable name for a file
 * that will replace `path`. The caller creates that file with O_EXCL, link or mkdir, which do not
 * follow links. */
MUST_CHECK enum status path_temporary(const char *path, char *out, size_t size);

/* Closes a descriptor, unless it is below 0, and sets it to -1. */
void fd_close(int *fd);

/* A file being replaced. Writes go to a temporary file in the same folder (path_temporary).
 * atomic_file_commit flushes and fsyncs the temporary file, renames it to `target` and fsyncs the
 * folder, so that a reader sees either the old bytes or the new ones. A regular file's mode is
 * kept, and its owner if the user is root. atomic_file_abandon removes the temporary file; it does
 * nothing for a zeroed struct. The writer keeps the temporary file locked. Opening removes
 * temporary files of the same path that no process has locked: killed processes have left them. */
struct atomic_file {
    FILE *stream; /* the caller writes here; atomic_file_commit reports write errors */
    char path[4096];
    char target[4096];    /* `path` with its links followed, if output_file_open has opened it */
    char temp[4096 + 32]; /* "": the stream writes to `target` itself */
    struct stat old;      /* st_mode 0: there is no regular file to replace */
    bool result;          /* if the file cannot be written, the earlier one is removed: it would
                           * be taken for this result */
};

/* Opens a file that the program names, in one of its folders: replaces links and special files. */
MUST_CHECK enum status atomic_file_open(struct atomic_file *f, const char *path);

/* Opens a result that the user names. The file to which a symbolic link leads is replaced. What
 * exists and is not a regular file (a device, pipe, socket, /dev/stdout, /dev/fd/N) is opened and
 * written to, never replaced, and may block. A folder is STATUS_USAGE. */
MUST_CHECK enum status output_file_open(struct atomic_file *f, const char *path);

/* Writes the path of the file that output_file_open would replace, or sets *direct if it would be
 * written to. Opens nothing. */
MUST_CHECK enum status output_find(const char *path, char target[4096], bool *direct);

/* Abandons a file that cannot be written; `error` is an errno. Returns STATUS_IO. */
MUST_CHECK enum status atomic_file_fail(struct atomic_file *f, int error);
MUST_CHECK enum status atomic_file_commit(struct atomic_file *f);

/* The first half of a commit: writes all bytes to disk and leaves `path` unchanged. If
 * that fails, it removes the temporary file. */
MUST_CHECK enum status atomic_file_sync(struct atomic_file *f);

/* Lets the kernel begin to write the bytes so far to disk, so that atomic_file_sync waits less at
 * the end of a large file. Ignores errors: atomic_file_sync reports them. */
void atomic_file_begin_sync(struct atomic_file *f);

/* Commits without fsync, for a file that is soon replaced again. A power failure may destroy the
 * file. */
MUST_CHECK enum status atomic_file_publish(struct atomic_file *f);
void atomic_file_abandon(struct atomic_file *f);

/* Commits the file if `st` is STATUS_OK, else abandons it; returns `st` or the commit's failure. */
MUST_CHECK enum status atomic_file_end(struct atomic_file *f, enum status st);

/* Removes the temporary files that killed processes have left in `dir`, and ignores errors. */
void atomic_file_sweep(const char *dir);

/* Writes what the stream has buffered. Returns 0, or the errno with which this or an earlier write
 * has failed. */
int stream_flush(FILE *f);

/* Opens a log or journal for appending, with open's `flags` added; creates a missing file. Does not
 * follow a symbolic link or wait for a pipe: STATUS_IO if `path` is not a regular file. */
MUST_CHECK enum status log_open(const char *path, int flags, int *fd);

/* Replaces the file `path` by these `size` bytes, atomically and durably. */
MUST_CHECK enum status file_replace(const char *path, const void *bytes, size_t size);

/* Reads a whole file of at most `max` bytes into memory that the caller frees. After the last byte
 * there is a NUL, which *size does not count. A larger file is STATUS_DATA. */
MUST_CHECK enum status file_read(const char *path, size_t max, char **bytes, size_t *size);

/* Reads the first line of a small system file, such as those of /sys, without its newline; false if
 * the file cannot be read. */
bool file_first_line(const char *path, char *out, size_t size);

/* The same for the first line that begins with `begin`; `out` is the rest of that line. */
bool file_find_line(const char *path, const char *begin, char *out, size_t size);

/* snprintf into a path buffer; STATUS_INVALID for a path that does not fit. */
MUST_CHECK enum status path_format(char *out, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);
