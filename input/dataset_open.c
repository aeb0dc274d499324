/* Lists the images of a split, which are in class folders or in archives. */
#include "base/array.h"
#include "base/file.h"
#include "base/text.h"
#include "base/words.h"
#include "input/image_files.h"
#include "input/shards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_DEPTH = 32, /* maximum number of folder levels in a class; a limit is needed, because links
                     * may form a cycle */
};

static int by_folder_and_name(const void *a, const void *b)
{
    return image_name_compare(*(char *const *)a, *(char *const *)b);
}

/* Sets *kind to the file type (S_IFMT) of an entry of `folder`. For a link, this is the type of its
 * target, or S_IFLNK if the link leads nowhere. Calls stat only if readdir did not report the type,
 * or reported a link. If stat fails, the function fails: if it skipped an image instead, all later
 * images would have other sample numbers. */
static enum status entry_kind(const char *folder, DIR *dir, const struct dirent *e, mode_t *kind)
{
    struct stat s;
    *kind = e->d_type == DT_REG ? S_IFREG : e->d_type == DT_DIR ? S_IFDIR : 0;
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
        return STATUS_OK;
    if (fstatat(dirfd(dir), e->d_name, &s, 0) == 0)
        *kind = s.st_mode & S_IFMT;
    else if (errno != ENOENT && errno != ENOTDIR)
        return status_fail(STATUS_IO, "cannot examine '%s/%s': %s", folder, e->d_name,
                           strerror(errno));
    else if (fstatat(dirfd(dir), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0)
        *kind = s.st_mode & S_IFMT;
    return STATUS_OK;
}

/* Adds the folders and images that root/path contains to the lists, as paths below root; to `dead`
 * the links that lead nowhere, and that may be meant for a folder or an image. */
static enum status list_folder(const char *root, const char *path, struct words *folders,
                               struct words *images, struct words *dead)
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
        mode_t kind;
        CHECK(entry_kind(full, dir, e, &kind));
        bool image = image_name_is(e->d_name);
        if (image && kind != S_IFREG && kind != S_IFDIR && kind != S_IFLNK)
            CHECK(status_fail(STATUS_DATA,
                              "'%s/%s' has the name of an image, but is no regular file; remove it",
                              full, e->d_name));
        bool missed = image || !*path || !strchr(e->d_name, '.');
        struct words *list = kind == S_IFDIR             ? folders
                             : kind == S_IFREG && image  ? images
                             : kind == S_IFLNK && missed ? dead
                                                         : NULL;
        if (!list)
            continue;
        CHECK(path_format(item, sizeof item, "%s%s%s", path, *path ? "/" : "", e->d_name));
        CHECK(words_add(list, "%s", item));
    }
    if (errno != 0)
        st = status_fail(STATUS_IO, "cannot read folder '%s': %s", full, strerror(errno));
done:
    closedir(dir);
    return st;
}

/* Collects the images of a class and of the folders within it. */
static enum status list_images(const char *root, const char *path, int depth, struct words *images,
                               struct words *dead)
{
    if (depth > MAX_DEPTH)
        return status_fail(STATUS_DATA,
                           "folder '%s/%s' is more than %d levels deep: do links form a cycle?",
                           root, path, MAX_DEPTH);
    enum status st = STATUS_OK;
    struct words folders = {0};
    CHECK(list_folder(root, path, &folders, images, dead));
    for (int i = 0; i < folders.n; i++)
        CHECK(list_images(root, folders.v[i], depth + 1, images, dead));
done:
    words_free(&folders);
    return st;
}

/* Appends the sorted paths of one class to the data set. */
static enum status append_class(struct dataset *d, int32_t label, const struct words *images,
                                size_t *paths_size)
{
    size_t size = *paths_size;
    for (int i = 0; i < images->n; i++)
        size += strlen(images->v[i]) + 1;
    size_t n = (size_t)d->n + (size_t)images->n;
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
    for (int i = 0; i < images->n; i++) {
        size_t length = strlen(images->v[i]) + 1;
        memcpy(paths + *paths_size, images->v[i], length);
        sample[d->n++] = (struct sample){.path = *paths_size, .label = label};
        *paths_size += length;
    }
    return STATUS_OK;
}

/* Fails if there are links that lead nowhere. */
static enum status refuse_dead(const char *root, struct words *dead)
{
    char path[4096], target[4096];
    if (dead->n == 0)
        return STATUS_OK;
    qsort(dead->v, (size_t)dead->n, sizeof *dead->v, text_order);
    TRY(path_format(path, sizeof path, "%s/%s", root, dead->v[0]));
    ssize_t n = readlink(path, target, sizeof target - 1);
    return status_fail(STATUS_DATA,
                       "links in '%s' that lead nowhere: %d; the first is '%s' -> '%.*s'; mount or "
                       "restore the targets, or remove the links",
                       root, dead->n, path, n < 0 ? 0 : (int)n, target);
}

/* Adds the class folders in d->root and their images to the data set. d->root may have no class
 * folders. */
static enum status list_classes(struct dataset *d)
{
    enum status st = STATUS_OK;
    struct words classes = {0}, images = {0}, dead = {0};
    size_t paths_size = 0;
    const char *empty = NULL;
    int n_empty = 0;
    CHECK(list_folder(d->root, "", &classes, &images, &dead));
    words_free(&images); /* images next to the class folders have no class */
    if (classes.n > 0)
        qsort(classes.v, (size_t)classes.n, sizeof *classes.v, text_order);
    for (int c = 0; c < classes.n; c++) {
        CHECK(list_images(d->root, classes.v[c], 0, &images, &dead));
        if (images.n == 0 && n_empty++ == 0)
            empty = classes.v[c];
        if (images.n > 0) {
            qsort(images.v, (size_t)images.n, sizeof *images.v, by_folder_and_name);
            CHECK(append_class(d, c, &images, &paths_size));
        }
        words_free(&images);
    }
    CHECK(refuse_dead(d->root, &dead));
    if (n_empty == 1)
        st = status_fail(STATUS_DATA, "class '%s/%s' has no images; add some or remove the folder",
                         d->root, empty);
    else if (n_empty > 1)
        st = status_fail(STATUS_DATA,
                         "class '%s/%s' and %d more have no images; add some or remove the folders",
                         d->root, empty, n_empty - 1);
done:
    d->class_name = classes.v;
    d->classes = classes.n;
    words_free(&images);
    words_free(&dead);
    return st;
}

/* Sets *exists to whether there is a folder <dir>/<split>. If so, adds its classes to the data
 * set. */
static enum status open_folder(struct dataset *d, const char *dir, const char *split, bool *exists)
{
    TRY(path_format(d->root, sizeof d->root, "%s/%s", dir, split));
    TRY(path_format(d->name, sizeof d->name, "%s", d->root));
    TRY(path_look(d->root, exists));
    char target;
    if (!*exists && readlink(d->root, &target, 1) > 0)
        return status_fail(
            STATUS_DATA, "'%s' is a link that leads nowhere; mount or restore its target", d->root);
    TRY(path_look_dir(d->root, exists));
    return *exists ? list_classes(d) : STATUS_OK;
}

enum status dataset_open(const char *dir, const char *split, struct dataset **out)
{
    *out = NULL;
    struct dataset *d;
    struct words shards = {0};
    TRY(array_new(&d, 1));
    enum status st = STATUS_OK;
    bool exists;
    CHECK(open_folder(d, dir, split, &exists));
    if (d->n == 0) {
        CHECK(shards_find(dir, split, d, &shards));
        if (shards.n > 0)
            CHECK(shards_index(split, &shards, d));
        else if (exists)
            st = status_fail(STATUS_DATA,
                             "'%s/%s' has no class folders and no tar archives: images belong in "
                             "%s/%s/<class>/*.JPEG",
                             dir, split, dir, split);
        else
            st =
                status_fail(STATUS_DATA,
                            "no folder '%s/%s' and no '%s*.tar' beside it: a data set has "
                            "train/<class>/*.JPEG and val/<class>/*.JPEG, or tar archives of them; "
                            "'ampscale data synth --out %s' makes one",
                            dir, split, split, dir);
        CHECK(st);
    }
    *out = d;
    d = NULL;
done:
    words_free(&shards);
    dataset_free(d);
    return st;
}

bool dataset_has_split(const char *dir, const char *split)
{
    struct words shards = {0};
    struct dataset *d;
    char folder[4096];
    bool is_dir;
    if (path_format(folder, sizeof folder, "%s/%s", dir, split) == STATUS_OK &&
        (path_look_dir(folder, &is_dir) != STATUS_OK || is_dir))
        return true; /* dataset_open will report a folder that cannot be looked at */
    if (array_new(&d, 1) != STATUS_OK)
        return true; /* dataset_open will report the lack of memory */
    bool found = shards_find(dir, split, d, &shards) != STATUS_OK || shards.n > 0;
    words_free(&shards);
    dataset_free(d);
    return found;
}
