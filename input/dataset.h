/* Images by class: a folder, or tar archives whose images are read in place (shards.h).
 *
 * A folder <dir>/<split>/<class>/.../<image> is read as torchvision's ImageFolder reads it, so that
 * class and sample numbers equal those of ImageFolder.
 *
 * Every regular file (links are followed) with an extension that ImageFolder knows is listed as an
 * image; decoding shows whether it is one that can be read. Unlike in ImageFolder, names that begin
 * with a dot are ignored: they are temporary files of editors and file managers. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct sample {
    uint64_t path; /* offset of its path in dataset.paths */
    int32_t label; /* index into class_name */
    int32_t shard; /* its archive, if there are any, and where it lies in the archive */
    int64_t offset, bytes;
};

struct dataset {
    char root[4096]; /* the folder or archive that paths begin in; "" for dataset_dummy */
    char name[4096]; /* of the split, for messages: "<dir>/<split>", an archive or a pattern */
    int classes;
    char **class_name; /* (classes) in strcmp order */
    int64_t n;
    struct sample *sample; /* (n) by class, folder and name, in strcmp order; NULL: a dummy */
    char *paths;           /* the paths below root, each ended by NUL */
    int shards;            /* 0: images are files */
    char **shard;          /* (shards) paths of the archives */
};

/* Lists the images of a split, "train" or "val", in the folder <dir>/<split> or, if there are no
 * class folders, in archives. STATUS_DATA if data are missing, an image has no class, a class has
 * no images, or an archive is damaged; STATUS_IO for a folder or entry that cannot be read. On
 * failure *out is NULL. */
MUST_CHECK enum status dataset_open(const char *dir, const char *split, struct dataset **out);

/* Whether there is a folder or an archive for a split; dataset_open may still refuse it. */
bool dataset_has_split(const char *dir, const char *split);

/* A data set of `n` images without files: the loader uses noise as their pixels. */
MUST_CHECK enum status dataset_dummy(int64_t n, int classes, struct dataset **out);

/* Checks that both splits have the same classes; STATUS_DATA names one that a split lacks. */
MUST_CHECK enum status dataset_check_pair(const struct dataset *train, const struct dataset *val);

/* The path of an image below root; not for a dummy set. */
static inline const char *dataset_path(const struct dataset *d, int64_t i)
{
    return d->paths + d->sample[i].path;
}

int32_t dataset_label(const struct dataset *d, int64_t i);

/* A hash over class names, paths below root and file sizes, to detect changed data. At most 16384
 * file sizes are read, spread evenly over the set: reading a million takes minutes on a shared file
 * system. */
MUST_CHECK enum status dataset_fingerprint(const struct dataset *d, uint64_t *out);

void dataset_free(struct dataset *d); /* NULL is fine */
