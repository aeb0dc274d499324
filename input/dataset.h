/* A folder of images by class: <dir>/<split>/<class>/.../<image>, read as torchvision's ImageFolder
 * reads it, so that class numbers and sample numbers are the same in both.
 *
 * Every regular file (links are followed) with an extension that ImageFolder knows counts as an
 * image; whether it is a JPEG is seen when it is decoded. Names that begin with a dot are left out,
 * which ImageFolder does not do: they are leftovers of editors and file managers. */
#ifndef INPUT_DATASET_H
#define INPUT_DATASET_H

#include "base/status.h"

#include <stdint.h>

struct sample {
    uint64_t path; /* offset of its path in dataset.paths */
    int32_t label; /* index into class_name */
};

struct dataset {
    char root[4096]; /* "<dir>/<split>"; empty for a dummy */
    int classes;
    char **class_name; /* (classes) in strcmp order */
    int64_t n;
    struct sample *sample; /* (n) by class, then folder, then name, each in strcmp order; NULL for
                              a dummy */
    char *paths;           /* the paths below root, each ended by NUL */
};

/* Lists the images of a split, "train" or "val". A folder that is missing, holds no class or has a
 * class without images is STATUS_DATA. On failure *out is NULL. */
MUST_CHECK enum status dataset_open(const char *dir, const char *split, struct dataset **out);

/* `n` images that exist nowhere: the loader draws noise in place of reading. */
MUST_CHECK enum status dataset_dummy(int64_t n, int classes, struct dataset **out);

/* Both splits must have the same classes; STATUS_DATA names one that only one of them has. */
MUST_CHECK enum status dataset_check_pair(const struct dataset *train, const struct dataset *val);

/* The path of an image below root; dummies have none. */
static inline const char *dataset_path(const struct dataset *d, int64_t i)
{
    return d->paths + d->sample[i].path;
}

int32_t dataset_label(const struct dataset *d, int64_t i);

/* A hash over class names, paths below root and file sizes: is this still the same data? Sizes are
 * looked at for at most 16384 files spread over the set, as asking for a million can take minutes
 * on a shared file system. */
MUST_CHECK enum status dataset_fingerprint(const struct dataset *d, uint64_t *out);

void dataset_free(struct dataset *d); /* NULL is fine */
#endif
