/* Lists the images of a data set with their classes. The images are files in a folder, or members
 * of tar archives, which are read in place (shards.h).
 *
 * A folder <dir>/<split>/<class>/.../<image> is read as torchvision's ImageFolder reads it, so that
 * class and sample numbers equal those of ImageFolder.
 *
 * Every regular file (links are followed) with an extension that ImageFolder knows is listed as an
 * image; only the decoder checks that the file really is an image. Unlike ImageFolder, dataset_open
 * ignores names that begin with a dot: they belong to temporary files of editors and file
 * managers. And it fails if a link leads nowhere that could be a class, a folder or an image, or if
 * an image is no regular file, for example a FIFO. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sample {
    uint64_t path; /* offset of the image's path in dataset.paths */
    int32_t label; /* index into class_name */
    int32_t shard; /* index of the image's archive, if images are in archives; `offset` and `bytes`
                    * are its position and size there */
    int64_t offset, bytes;
};

struct dataset {
    char root[4096]; /* the folder or archive below which `paths` begin; "" for dataset_dummy */
    char name[4096]; /* name of the split in messages: "<dir>/<split>", an archive or a pattern */
    int classes;
    char **class_name; /* (classes) in strcmp order */
    int64_t n;
    struct sample *sample; /* (n) sorted by class, folder and name in strcmp order; NULL in a dummy
                            * set */
    char *paths;           /* the images' paths below root, each ended by NUL */
    int shards;            /* 0: images are files */
    char **shard;          /* (shards) paths of the archives */
};

/* Lists the images of a split, "train" or "val", in the folder <dir>/<split> or, if there are no
 * class folders, in archives. STATUS_DATA if data are missing, an image has no class, a class has
 * no images, or an archive is damaged; STATUS_IO for a folder or entry that cannot be read. On
 * failure *out is NULL. */
MUST_CHECK enum status dataset_open(const char *dir, const char *split, struct dataset **out);

/* Returns whether a split has a folder or an archive. dataset_open may still fail, for example
 * because the folder is empty. */
bool dataset_has_split(const char *dir, const char *split);

/* Makes a data set of `n` images without files. The loader uses noise as their pixels. */
MUST_CHECK enum status dataset_dummy(int64_t n, int classes, struct dataset **out);

/* Checks that both splits have the same classes. The message of STATUS_DATA names a class that is
 * missing in one split. */
MUST_CHECK enum status dataset_check_pair(const struct dataset *train, const struct dataset *val);

/* If there is only one class, prints a warning: most often the classes are one folder deeper. */
void dataset_warn(const struct dataset *d, FILE *out);

/* Returns the path of an image below root. The data set must not be a dummy set. */
static inline const char *dataset_path(const struct dataset *d, int64_t i)
{
    return d->paths + d->sample[i].path;
}

int32_t dataset_label(const struct dataset *d, int64_t i);

/* Computes a hash over class names, paths below root and file sizes. Callers compare such hashes to
 * detect changed data. Reads the sizes of at most 16384 files, spread evenly over the set: reading
 * a million sizes takes minutes on a shared file system. */
MUST_CHECK enum status dataset_fingerprint(const struct dataset *d, uint64_t *out);

void dataset_free(struct dataset *d); /* NULL is fine */
