/* Listing class folders. */
#include "input/dataset.h"

#include "base/file.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_DEPTH = 32, /* of folders within a class; links may form a circle */
    FINGERPRINT_SIZES = 16384,
};

/* A list of strings that grows. */
struct names {
    char **item;
    size_t n, capacity;
};

static enum status names_add(struct names *list, const char *name)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **item = realloc(list->item, capacity * sizeof *item);
        if (!item)
            return status_fail(STATUS_OOM, "no memory for a list of %zu files", capacity);
        list->item = item;
        list->capacity = capacity;
    }
    list->item[list->n] = strdup(name);
    if (!list->item[list->n])
        return status_fail(STATUS_OOM, "no memory for a list of files");
    list->n++;
    return STATUS_OK;
}

static void names_free(struct names *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->item[i]);
    free(list->item);
    *list = (struct names){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* By folder, then by file name: the files of a folder come before those of its subfolders. */
static int by_folder_and_name(const void *a, const void *b)
{
    const char *pa = *(char *const *)a, *pb = *(char *const *)b;
    const char *na = strrchr(pa, '/'), *nb = strrchr(pb, '/');
    size_t la = (size_t)(na - pa), lb = (size_t)(nb - pb);
    int order = memcmp(pa, pb, la < lb ? la : lb);
    if (order != 0 || la != lb)
        return order != 0 ? order : (la > lb) - (la < lb);
    return strcmp(na, nb);
}

static bool is_image_name(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                             ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

/* The kind of a folder's entry, links followed; asks the file system only where it must. */
static mode_t entry_kind(DIR *dir, const struct dirent *e)
{
    if (e->d_type == DT_REG)
        return S_IFREG;
    if (e->d_type == DT_DIR)
        return S_IFDIR;
    struct stat s;
    if ((e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) ||
        fstatat(dirfd(dir), e->d_name, &s, 0) != 0)
        return 0;
    return s.st_mode & S_IFMT;
}

/* Adds what lies in root/path, named from root on: its folders and its images. */
static enum status list_folder(const char *root, const char *path, struct names *folders,
                               struct names *images)
{
    enum status st = STATUS_OK;
    char full[4096], item[4096];
    TRY(path_format(full, sizeof full, "%s/%s", root, path));
    DIR *dir = opendir(full);
    if (!dir)
        return status_fail(STATUS_IO, "cannot open folder '%s': %s", full, strerror(errno));
    struct dirent *e;
    while (errno = 0, (e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        mode_t kind = entry_kind(dir, e);
        struct names *list = kind == S_IFDIR                               ? folders
                             : kind == S_IFREG && is_image_name(e->d_name) ? images
                                                                           : NULL;
        if (!list)
            continue;
        CHECK(path_format(item, sizeof item, "%s%s%s", path, *path ? "/" : "", e->d_name));
        CHECK(names_add(list, item));
    }
    if (errno != 0)
        st = status_fail(STATUS_IO, "cannot read folder '%s': %s", full, strerror(errno));
done:
    closedir(dir);
    return st;
}

/* Collects the images of a class and of the folders within it. */
static enum status list_images(const char *root, const char *path, int depth, struct names *images)
{
    if (depth > MAX_DEPTH)
        return status_fail(STATUS_DATA,
                           "folder '%s/%s' is more than %d deep: is there a circle of links?", root,
                           path, MAX_DEPTH);
    enum status st = STATUS_OK;
    struct names folders = {0};
    CHECK(list_folder(root, path, &folders, images));
    for (size_t i = 0; i < folders.n; i++)
        CHECK(list_images(root, folders.item[i], depth + 1, images));
done:
    names_free(&folders);
    return st;
}

/* Moves the sorted paths of one class to the end of the data set. */
static enum status append_class(struct dataset *d, int32_t label, const struct names *images,
                                size_t *paths_size)
{
    size_t size = *paths_size;
    for (size_t i = 0; i < images->n; i++)
        size += strlen(images->item[i]) + 1;
    size_t n = (size_t)d->n + images->n;
    if (n > INT32_MAX)
        return status_fail(STATUS_UNSUPPORTED, "'%s' holds more than %d images", d->root,
                           INT32_MAX);
    char *paths = realloc(d->paths, size);
    if (paths)
        d->paths = paths;
    struct sample *sample = realloc(d->sample, n * sizeof *sample);
    if (sample)
        d->sample = sample;
    if (!paths || !sample)
        return status_fail(STATUS_OOM, "no memory for a list of %zu images", n);
    for (size_t i = 0; i < images->n; i++) {
        size_t length = strlen(images->item[i]) + 1;
        memcpy(paths + *paths_size, images->item[i], length);
        sample[d->n++] = (struct sample){*paths_size, label};
        *paths_size += length;
    }
    return STATUS_OK;
}

static enum status list_classes(struct dataset *d)
{
    enum status st = STATUS_OK;
    struct names classes = {0}, images = {0};
    size_t paths_size = 0;
    const char *empty = NULL;
    int n_empty = 0;
    CHECK(list_folder(d->root, "", &classes, &images));
    names_free(&images); /* files beside the class folders belong to none */
    if (classes.n == 0) {
        st = status_fail(STATUS_DATA,
                         "'%s' holds no class folders: images belong in %s/<class>/*.JPEG", d->root,
                         d->root);
        goto done;
    }
    qsort(classes.item, classes.n, sizeof *classes.item, by_name);
    for (size_t c = 0; c < classes.n; c++) {
        CHECK(list_images(d->root, classes.item[c], 0, &images));
        if (images.n == 0 && n_empty++ == 0)
            empty = classes.item[c];
        if (images.n > 0) {
            qsort(images.item, images.n, sizeof *images.item, by_folder_and_name);
            CHECK(append_class(d, (int32_t)c, &images, &paths_size));
        }
        names_free(&images);
    }
    if (n_empty == 1)
        st =
            status_fail(STATUS_DATA, "class '%s/%s' holds no images; add some or remove the folder",
                        d->root, empty);
    else if (n_empty > 1)
        st = status_fail(STATUS_DATA,
                         "class '%s/%s' and %d more hold no images; add some or remove the folders",
                         d->root, empty, n_empty - 1);
done:
    d->class_name = classes.item;
    d->classes = (int)classes.n;
    names_free(&images);
    return st;
}

enum status dataset_open(const char *dir, const char *split, struct dataset **out)
{
    *out = NULL;
    struct dataset *d = calloc(1, sizeof *d);
    if (!d)
        return status_fail(STATUS_OOM, "no memory for a data set");
    enum status st = STATUS_OK;
    CHECK(path_format(d->root, sizeof d->root, "%s/%s", dir, split));
    if (!path_is_dir(d->root)) {
        st = status_fail(STATUS_DATA,
                         "no folder '%s': a data set holds train/<class>/*.JPEG and "
                         "val/<class>/*.JPEG; 'ampscale data synth --out %s' makes one",
                         d->root, dir);
        goto done;
    }
    CHECK(list_classes(d));
    *out = d;
    d = NULL;
done:
    dataset_free(d);
    return st;
}

enum status dataset_dummy(int64_t n, int classes, struct dataset **out)
{
    *out = NULL;
    if (n < 1 || n > INT32_MAX || classes < 1)
        return status_fail(STATUS_INVALID, "a dummy data set of %lld images in %d classes",
                           (long long)n, classes);
    struct dataset *d = calloc(1, sizeof *d);
    if (!d)
        return status_fail(STATUS_OOM, "no memory for a data set");
    enum status st = STATUS_OK;
    struct names names = {0};
    for (int c = 0; c < classes; c++) {
        char name[32];
        snprintf(name, sizeof name, "dummy-%06d", c);
        CHECK(names_add(&names, name));
    }
    d->n = n;
done:
    d->class_name = names.item;
    d->classes = (int)names.n;
    if (st == STATUS_OK)
        *out = d;
    else
        dataset_free(d);
    return st;
}

/* Classes of `a` that `b` lacks; both lists are sorted. */
static int count_missing(const struct dataset *a, const struct dataset *b, const char **first)
{
    int missing = 0;
    for (int i = 0, j = 0; i < a->classes; i++) {
        while (j < b->classes && strcmp(b->class_name[j], a->class_name[i]) < 0)
            j++;
        if (j < b->classes && strcmp(b->class_name[j], a->class_name[i]) == 0)
            continue;
        if (missing++ == 0)
            *first = a->class_name[i];
    }
    return missing;
}

static enum status check_missing(const struct dataset *have, const struct dataset *lack)
{
    const char *first = NULL;
    int missing = count_missing(have, lack, &first);
    if (missing == 0)
        return STATUS_OK;
    char more[32] = "";
    if (missing > 1)
        snprintf(more, sizeof more, " (and %d more)", missing - 1);
    return status_fail(STATUS_DATA,
                       "class '%s'%s is in '%s' but not in '%s': both need the same classes", first,
                       more, have->root, lack->root);
}

enum status dataset_check_pair(const struct dataset *train, const struct dataset *val)
{
    TRY(check_missing(train, val));
    return check_missing(val, train);
}

int32_t dataset_label(const struct dataset *d, int64_t i)
{
    if (d->sample)
        return d->sample[i].label;
    return (int32_t)(hash_splitmix64((uint64_t)i) % (uint64_t)d->classes);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return hash_splitmix64(hash ^ value);
}

enum status dataset_fingerprint(const struct dataset *d, uint64_t *out)
{
    enum status st = STATUS_OK;
    uint64_t hash = mix((uint64_t)d->n, (uint64_t)d->classes);
    for (int c = 0; c < d->classes; c++)
        hash = mix(hash, hash_fnv1a64(d->class_name[c]));
    *out = hash;
    if (!d->sample)
        return STATUS_OK;
    int root = open(d->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t step = (d->n + FINGERPRINT_SIZES - 1) / FINGERPRINT_SIZES;
    for (int64_t i = 0; i < d->n && st == STATUS_OK; i++) {
        struct stat s;
        hash = mix(hash, hash_fnv1a64(dataset_path(d, i)));
        if (i % step != 0)
            continue;
        if (root < 0 || fstatat(root, dataset_path(d, i), &s, 0) != 0)
            st = status_fail(STATUS_IO, "cannot read '%s/%s': %s", d->root, dataset_path(d, i),
                             strerror(errno));
        else
            hash = mix(hash, (uint64_t)s.st_size);
    }
    if (root >= 0)
        close(root);
    *out = hash;
    return st;
}

void dataset_free(struct dataset *d)
{
    if (!d)
        return;
    for (int c = 0; c < d->classes; c++)
        free(d->class_name[c]);
    free(d->class_name);
    free(d->sample);
    free(d->paths);
    free(d);
}
