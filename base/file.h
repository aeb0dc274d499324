/* Replaces files atomically, makes and removes folders, and reads files of unknown origin. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Makes a folder and its parents; no error if the folder exists. */
MUST_CHECK enum status dir_make(const char *path);

/* Removes a file, or a folder with all it contains; does not follow links. A missing one is no
 * error. */
MUST_CHECK enum status dir_remove(const char *path);

/* A temporary folder. Begins as {0}: none. */
struct temporary_dir {
    char path[4096]; /* "": none */
    int held;        /* descriptor with a lock on the folder; -1: none */
};

/* Makes "NAME-123abc", with unpredictable characters at its end, in TMPDIR, or in `otherwise` if
 * TMPDIR is not set. First removes this user's folders of that form that no process locks, because
 * killed processes have left them. */
MUST_CHECK enum status temporary_dir_make(struct temporary_dir *d, const char *otherwise,
                                          const char *name);

/* As temporary_dir_make, but in the folder `parent`. */
MUST_CHECK enum status temporary_dir_make_in(struct temporary_dir *d, const char *parent,
                                             const char *name);

/* Removes the folder and all it contains; {0} is fine. */
MUST_CHECK enum status temporary_dir_remove(struct temporary_dir *d);

/* Is there a file or folder at `path`? Only ENOENT and ENOTDIR mean no: any other error is
 * STATUS_IO, because a file that cannot be seen now may hold the results of days. */
MUST_CHECK enum status path_look(const char *path, bool *exists);

/* For a caller that opens the file next: false only if there is no file or folder at `path`. Any
 * other error gives true, so that the open fails with the reason. */
bool path_exists(const char *path);
bool path_is_dir(const char *path);

/* Finds an executable file `name` in the folders of PATH, as a shell does; writes its path. */
bool path_of_program(const char *name, char *out, size_t size);

/* "<path>.tmp.<16 digits>", with unpredictable digits: a name for a file that will replace `path`.
 * Create it with O_EXCL, link or mkdir, which follow no link. */
MUST_CHECK enum status path_temporary(const char *path, char *out, size_t size);

/* A file being replaced. Writes go to a temporary file in its folder (path_temporary). Commit
 * flushes and fsyncs the temporary, renames it over `path` and fsyncs the folder, so that a reader
 * sees either the old bytes or the new ones. Abandon removes the temporary; it does nothing for a
 * zeroed struct. The writer locks the temporary: open removes the temporaries of the same path that
 * no process locks, because killed processes have left them. */
struct atomic_file {
    FILE *stream; /* write here; commit detects errors */
    char path[4096];
    char temp[4096 + 32];
};
MUST_CHECK enum status atomic_file_open(struct atomic_file *f, const char *path);
MUST_CHECK enum status atomic_file_commit(struct atomic_file *f);

/* The first half of a commit: puts all bytes on disk and leaves `path` as it is. After a failure
 * the temporary is removed. */
MUST_CHECK enum status atomic_file_sync(struct atomic_file *f);

/* Commits without fsync: for a file that is soon replaced again, and that a power failure may
 * destroy. */
MUST_CHECK enum status atomic_file_publish(struct atomic_file *f);
void atomic_file_abandon(struct atomic_file *f);

/* Removes the temporaries in `dir` that killed processes have left, and ignores errors. Only for a
 * folder that no other process writes to. */
void atomic_file_sweep(const char *dir);

/* Opens, writes and commits a file of `size` bytes. */
MUST_CHECK enum status file_replace(const char *path, const void *bytes, size_t size);

/* Reads a whole file of at most `max` bytes into malloc'ed memory that the caller frees; a NUL
 * that `*size` does not count follows the last byte. A larger file is STATUS_DATA. */
MUST_CHECK enum status file_read(const char *path, size_t max, char **bytes, size_t *size);

/* The first line of a small system file, such as those of /sys, without its newline; false where it
 * cannot be read. */
bool file_first_line(const char *path, char *out, size_t size);

/* snprintf into a path buffer; STATUS_INVALID for a path that does not fit. */
MUST_CHECK enum status path_format(char *out, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);
