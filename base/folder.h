/* Lists the files of folders, and locks folders. */
#pragma once

#include "base/words.h"

#include <stdbool.h>

/* Sets *has to whether the folder exists and has the file or folder `name`. STATUS_IO as path_look.
 */
MUST_CHECK enum status dir_look(const char *dir, const char *name, bool *has);

/* Appends to `names` the names of the files in a folder that end in `suffix`, in byte order and
 * without hidden files; a suffix of "" means all files. STATUS_DATA: there is no such folder.
 * STATUS_IO: the folder cannot be read. */
MUST_CHECK enum status dir_list(const char *dir, const char *suffix, struct words *names);

/* Locks an open file or folder. If another process has the lock, tries again for `wait_s` seconds,
 * or until this process is asked to stop. Returns 0; or -1 with errno, which is EWOULDBLOCK if the
 * other process still has the lock. */
MUST_CHECK int fd_lock(int fd, int wait_s);

/* Opens and locks a folder; the lock lasts until *fd is closed. If another process has the lock
 * after `wait_s` seconds, fails with STATUS_IO and a message that another `who` is using the
 * folder. *fd is -1 after a failure. */
MUST_CHECK enum status dir_lock(const char *dir, const char *who, int wait_s, int *fd);

/* Removes a file. If there is no such file, does nothing. */
MUST_CHECK enum status file_remove(const char *path);
