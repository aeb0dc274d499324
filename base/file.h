/* Files that are either whole or absent, and reading what may be hostile. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Makes a folder and its parents; one that exists is fine. */
MUST_CHECK enum status dir_make(const char *path);

/* Removes a folder with all it holds, or a file; links are not followed, and what is not there is
 * fine. */
MUST_CHECK enum status dir_remove(const char *path);

/* Makes a folder for a while, where TMPDIR says: replaces the six X's that `path` ends with. Who
 * made it holds a lock on it, *held, to be closed when it has been removed: those of the same name
 * but for the X's, and of the same user, that nobody holds are removed, which processes that were
 * killed have left. */
MUST_CHECK enum status dir_make_temporary(char *path, int *held);

/* Whether something is at `path`. Only ENOENT and ENOTDIR mean that nothing is: any other error is
 * STATUS_IO, for a file that cannot be seen now may hold what took days. */
MUST_CHECK enum status path_look(const char *path, bool *exists);

/* The same where the next step opens the file: true where the system does not say, so that opening
 * fails with the reason. */
bool path_exists(const char *path);
bool path_is_dir(const char *path);

/* "<path>.tmp.<16 digits>", digits that nobody can foresee: a name for a file that will take the
 * place of `path`. Make it with O_EXCL, link or mkdir, which follow no link. */
MUST_CHECK enum status path_temporary(const char *path, char *out, size_t size);

/* A file being replaced: writes go to a temporary beside it (path_temporary); commit flushes,
 * fsyncs, renames it over `path` and fsyncs the folder, so that a reader sees the old bytes or the
 * new ones and nothing between. Abandon removes the temporary; both may be called on a zeroed
 * struct. Who writes holds a lock on the temporary: open removes those of the same path that nobody
 * holds, which processes that were killed have left. */
struct atomic_file {
    FILE *stream; /* write here; errors may be left for commit to find */
    char path[4096];
    char temp[4096 + 32];
};
MUST_CHECK enum status atomic_file_open(struct atomic_file *f, const char *path);
MUST_CHECK enum status atomic_file_commit(struct atomic_file *f);

/* The first part of a commit: all bytes are on disk, and `path` is as it was. A failure abandons.
 */
MUST_CHECK enum status atomic_file_sync(struct atomic_file *f);

/* Commits without waiting for the disk: for what is soon replaced again and may be lost in a power
 * cut. */
MUST_CHECK enum status atomic_file_publish(struct atomic_file *f);
void atomic_file_abandon(struct atomic_file *f);

/* Removes the temporaries that processes which died halfway have left in `dir`, as far as it can.
 * Only for a folder that nobody else writes to. */
void atomic_file_sweep(const char *dir);

/* Open, write, commit for bytes already at hand. */
MUST_CHECK enum status file_replace(const char *path, const void *bytes, size_t size);

/* Reads a whole file of at most `max` bytes into malloc'ed memory that the caller frees; a NUL
 * that `*size` does not count follows the last byte. A larger file is STATUS_DATA. */
MUST_CHECK enum status file_read(const char *path, size_t max, char **bytes, size_t *size);

/* snprintf into a path buffer; one that would be cut is STATUS_INVALID. */
MUST_CHECK enum status path_format(char *out, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);
#endif
