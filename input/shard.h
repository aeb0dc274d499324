/* Lists the images of one archive of a data set (shards.h), and their class numbers. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { SHARD_CLASSES = 1000000 }; /* class numbers must be below this limit */

/* A list of texts, one after the other, each ended by NUL. */
struct names {
    char *text;
    size_t size, capacity;
};

/* Appends a text. STATUS_OOM leaves the texts as they were. */
MUST_CHECK enum status names_add(struct names *l, const char *text);

/* An image in an archive. */
struct entry {
    size_t name;           /* offset in the shard's names */
    int64_t offset, bytes; /* position and size of its contents within the archive */
    int32_t number;        /* class number from KEY.cls; -1: none */
};

struct shard {
    const char *path;    /* path of the archive, owned by the caller */
    struct entry *entry; /* (n) in the order of the archive */
    int64_t n;
    struct names names; /* names of the entries, without leading "./" and "/" */
};

/* Reads the headers of the archive at s->path; the caller has zeroed the other members. STATUS_DATA
 * or STATUS_IO with a message that names the archive. */
MUST_CHECK enum status shard_read(struct shard *s);
void shard_free(struct shard *s);
