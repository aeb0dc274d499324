/* Reads the headers of a tar archive: ustar, GNU's long names, pax. An archive is not trusted. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { TAR_NAME_MAX = 4096 }; /* bytes of a name with its NUL; longer ones are refused */

enum tar_kind { TAR_FILE, TAR_LINK, TAR_SPARSE, TAR_OTHER };

struct tar_member {
    char name[TAR_NAME_MAX];
    enum tar_kind kind;
    int64_t offset, bytes; /* contents: a range within the archive; none for links and others */
};

struct tar;

/* Begins an archive that is open for reading at `fd`, which stays the caller's. */
MUST_CHECK enum status tar_open(int fd, int64_t bytes, struct tar **out);
void tar_close(struct tar *t); /* NULL is fine */

/* The next member, valid until the next call; NULL at the end of the archive. STATUS_DATA where the
 * archive is truncated, damaged, compressed or no archive; the message has no path. */
MUST_CHECK enum status tar_next(struct tar *t, const struct tar_member **out);

/* Reads n bytes at `offset`, fewer where the file ends; *got is their number. */
MUST_CHECK enum status tar_read(int fd, int64_t offset, void *out, size_t n, size_t *got);
