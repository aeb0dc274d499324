/* Keeps the files of a data set open: its folder, or its tar archives, in which images are read in
 * place. Recognises images by their names, and compares paths for the order of ImageFolder. */
#pragma once

#include "base/status.h"
#include "input/dataset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether a name has an extension that ImageFolder knows. */
bool image_name_is(const char *name);

/* Compares two paths, each with at least one '/', by folder, then by file name. So the files of a
 * folder come before the files of its subfolders. */
int image_name_compare(const char *a, const char *b);

/* Where the bytes of an image are. */
struct image_file {
    int fd;                /* an open folder, or an open archive */
    const char *path;      /* the image's path below the folder; NULL if the image lies in an
                            * archive */
    int64_t offset, bytes; /* the image's position and size within the archive */
};

struct image_files {
    const struct dataset *data; /* must stay valid until image_files_close */
    int folder;                 /* descriptor; -1: none */
    int *shard;                 /* (data->shards) descriptors, kept open */
};

/* Opens the folder or all archives of a data set. The set must not be a dummy. Raises the process's
 * soft limit of open files if needed; STATUS_USAGE if the hard limit is too low. */
MUST_CHECK enum status image_files_open(const struct dataset *data, struct image_files *f);

/* Closes the files. A zeroed struct is fine. */
void image_files_close(struct image_files *f);

static inline struct image_file image_files_at(const struct image_files *f, int64_t i)
{
    const struct sample *s = &f->data->sample[i];
    if (f->shard)
        return (struct image_file){f->shard[s->shard], NULL, s->offset, s->bytes};
    return (struct image_file){.fd = f->folder, .path = dataset_path(f->data, i)};
}
