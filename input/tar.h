/* Reads the headers of a tar archive: ustar, GNU's long names, pax. An archive is not trusted. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { TAR_NAME_MAX = 4096 }; /* bytes of a name with its NUL; for a longer name tar_next fails */

enum tar_kind { TAR_FILE, TAR_LINK, TAR_SPARSE, TAR_OTHER };

struct tar_member {
    char name[TAR_NAME_MAX];
    enum tar_kind kind;
    int64_t offset, bytes; /* contents: a range within the archive; 0 bytes for links and folders */
};

struct tar;

/* Begins reading an archive of `bytes` bytes from `fd`. The caller must keep `fd` open until
 * tar_close, and must close it. */
MUST_CHECK enum status tar_open(int fd, int64_t bytes, struct tar **out);
void tar_close(struct tar *t); /* NULL is fine */

/* Sets *out to the next member, valid until the next call, or to NULL at the end of the archive.
 * STATUS_DATA if the file is truncated, damaged, compressed or not an archive, or if bytes other
 * than zeros follow the end marker, up to the end of the file; the message does not contain its
 * path. */
MUST_CHECK enum status tar_next(struct tar *t, const struct tar_member **out);

/* Reads `n` bytes at `offset`, or fewer if the file ends. *got is the number of bytes read. */
MUST_CHECK enum status tar_read(int fd, int64_t offset, void *out, size_t n, size_t *got);
