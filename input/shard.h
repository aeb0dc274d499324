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

/* Kinds of labels. KEY.cls is sure, and so is KEY.json with a class number. KEY.txt may be a
 * caption, so that a number in it counts only if no image of the split has a sure one. */
enum label_kind { LABEL_NONE, LABEL_UNSURE, LABEL_SURE, LABELS };

struct label {
    enum label_kind kind;
    int32_t number;   /* class number; -1: the file does not contain one */
    const char *file; /* name of the file; NULL: none */
};

/* An image in an archive. */
struct entry {
    const char *name;      /* without leading "./" and "/" */
    size_t stem;           /* length of the name without the extension */
    int64_t offset, bytes; /* position and size of its contents within the archive */
    struct label label;
};

struct shard {
    const char *path;    /* path of the archive, owned by the caller */
    struct entry *entry; /* (n) in any order */
    int64_t n;
    struct names names;         /* of the entries and labels */
    const char *orphan[LABELS]; /* for each kind, the name of a label without an image, or NULL */
};

/* Reads the headers of the archive at s->path, and its labels; the caller has zeroed the other
 * members. An image and a label belong together if they have the same name but for the extension.
 * KEY.*.* beside a labelled image KEY.*, such as KEY.seg.png, is left out unless it has a label
 * too. STATUS_DATA (also for an image with two labels that differ, a name that occurs twice, or an
 * image or label with ".." in its name) or STATUS_IO with a message that
 * names the archive. */
MUST_CHECK enum status shard_read(struct shard *s);
void shard_free(struct shard *s);
