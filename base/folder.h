/* Lists the files of folders, and locks folders. */
#pragma once

#include "base/words.h"

/* Appends the names in a folder that end in `suffix` ("": all) to `names`, without hidden ones, in
 * byte order. STATUS_DATA where there is no such folder, STATUS_IO where it cannot be read. */
MUST_CHECK enum status dir_list(const char *dir, const char *suffix, struct words *names);

/* Opens and locks a folder; the lock lasts until *fd is closed. If another process has the lock,
 * the call waits (`who` is NULL), or fails with STATUS_IO and the message that another `who` works
 * in the folder. *fd is -1 after a failure. */
MUST_CHECK enum status dir_lock(const char *dir, const char *who, int *fd);

/* Removes a file; a missing one is no error. */
MUST_CHECK enum status file_remove(const char *path);
