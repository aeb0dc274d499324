/* Lists the images in tar archives. */
#include "input/shards.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "input/image_files.h"
#include "input/shard.h"
#include "input/tar.h"
#include "input/workers.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The number of archives read at a time: storage answers slowly, but can serve many requests at
 * once. */
enum { THREADS = 16 };

/* ---- the archives of a split ---- */

/* Returns whether the name of a file in the data set's folder says that the file belongs to the
 * split. */
static bool names_split(const char *name, const char *split)
{
    size_t n = strlen(split);
    if (strncmp(name, split, n) == 0)
        return true;
    for (const char *p = name; (p = strpbrk(p, "-_")) != NULL; p++)
        if (strncmp(p + 1, split, n) == 0)
            return true;
    return false;
}

/* Appends the archives of a folder: those of `split`, or all if `split` is NULL. */
static enum status list_tars(const char *dir, const char *split, struct words *paths)
{
    struct words names = {0};
    enum status st = dir_list(dir, ".tar", &names);
    for (int i = 0; st == STATUS_OK && i < names.n; i++)
        if (split && names_split(names.v[i], "train") && names_split(names.v[i], "val"))
            st = status_fail(STATUS_DATA,
                             "archive '%s/%s' is named for both 'train' and 'val'; rename it, or "
                             "put the archives in folders 'train' and 'val'",
                             dir, names.v[i]);
        else if (!split || names_split(names.v[i], split))
            st = words_add(paths, "%s/%s", dir, names.v[i]);
    words_free(&names);
    return st;
}

enum status shards_find(const char *dir, const char *split, struct dataset *d, struct words *paths)
{
    bool exists;
    char folder[4096];
    TRY(path_look(dir, &exists));
    if (!exists)
        return STATUS_OK;
    if (!path_is_dir(dir)) {
        TRY(path_format(d->root, sizeof d->root, "%s", dir));
        TRY(path_format(d->name, sizeof d->name, "%s", dir));
        return words_add(paths, "%s", dir);
    }
    TRY(path_format(folder, sizeof folder, "%s/%s", dir, split));
    if (path_is_dir(folder)) {
        TRY(path_format(d->root, sizeof d->root, "%s", folder));
        TRY(path_format(d->name, sizeof d->name, "%s", folder));
        return list_tars(folder, NULL, paths);
    }
    TRY(path_format(d->root, sizeof d->root, "%s", dir));
    TRY(path_format(d->name, sizeof d->name, "%s/%s*.tar", dir, split));
    return list_tars(dir, split, paths);
}

/* ---- the images of the archives ---- */

static enum status read_one(void *context, void *own, int64_t i)
{
    (void)own;
    return shard_read((struct shard *)context + i);
}

static enum status read_shards(struct shard *shard, const struct words *paths)
{
    for (int i = 0; i < paths->n; i++)
        shard[i].path = paths->v[i];
    const struct worker_job job = {.total = paths->n,
                                   .workers = paths->n < THREADS ? paths->n : THREADS,
                                   .context = shard,
                                   .run = read_one};
    return workers_run(&job);
}

/* ---- the split ---- */

struct item {
    const char *path;  /* the entry's name without the split's folder and without folders that all
                        * images share */
    const char *group; /* name of its class, `length` bytes; NULL if the class has a number */
    size_t length;
    const struct entry *entry;
    int32_t shard;
};

struct listing {
    struct item *item;
    int64_t n;
    const struct shard *shard;
    int shards;
};

static enum status flatten(struct listing *l)
{
    int64_t n = 0;
    for (int k = 0; k < l->shards; k++)
        n += l->shard[k].n;
    TRY(array_new(&l->item, n));
    for (int k = 0; k < l->shards; k++)
        for (int64_t i = 0; i < l->shard[k].n; i++) {
            const struct entry *e = &l->shard[k].entry[i];
            l->item[l->n++] = (struct item){.path = e->name, .entry = e, .shard = k};
        }
    return STATUS_OK;
}

/* Returns the length of the first folder of a path, with its '/'; 0 if the path has no folder. */
static size_t first_folder(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Removes the leading folders that all images share from their paths, but keeps a folder that
 * directly contains an image. */
static void strip_common(struct listing *l)
{
    for (;;) {
        size_t length = l->n > 0 ? first_folder(l->item[0].path) : 0;
        if (length == 0)
            return;
        for (int64_t i = 0; i < l->n; i++)
            if (strncmp(l->item[i].path, l->item[0].path, length) != 0 ||
                first_folder(l->item[i].path + length) == 0)
                return;
        for (int64_t i = 0; i < l->n; i++)
            l->item[i].path += length;
    }
}

static bool in_folder(const struct item *item, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(item->path, folder, n) == 0 && item->path[n] == '/';
}

/* If one archive holds the whole data set, keeps only its images in folder `split`. If the archive
 * has neither a folder "train" nor a folder "val", all its images are for training. */
static enum status choose_split(struct listing *l, const char *split, const char *path)
{
    int64_t kept = 0;
    bool split_up = false;
    for (int64_t i = 0; i < l->n; i++)
        split_up |= in_folder(&l->item[i], "train") || in_folder(&l->item[i], "val");
    if (!split_up && strcmp(split, "train") == 0)
        return STATUS_OK;
    for (int64_t i = 0; i < l->n; i++) {
        struct item item = l->item[i];
        if (!in_folder(&item, split))
            continue;
        item.path += strlen(split) + 1;
        l->item[kept++] = item;
    }
    l->n = kept;
    return kept > 0 ? STATUS_OK
                    : status_fail(STATUS_DATA,
                                  "archive '%s' has no images in a folder '%s'; give a folder with "
                                  "train*.tar and val*.tar, or train with --training-only",
                                  path, split);
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Compares two images by class. Images of one class are in the order of ImageFolder or, if classes
 * are numbered, in the order of the archives. */
static int by_class(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;
    int order = compare_numbers(a->entry->label.number, b->entry->label.number);
    if (order == 0 && a->group) {
        order = memcmp(a->group, b->group, a->length < b->length ? a->length : b->length);
        order = order ? order : compare_numbers((int64_t)a->length, (int64_t)b->length);
        if (order == 0 && strchr(a->path, '/') && strchr(b->path, '/'))
            order = image_name_compare(a->path, b->path);
        else if (order == 0)
            order = strcmp(a->path, b->path);
    }
    order = order ? order : compare_numbers(a->shard, b->shard);
    return order ? order : compare_numbers(a->entry->offset, b->entry->offset);
}

/* Sets item->group to the name of the image's class: the first folder of the image's path. If the
 * path has no folder, this is the archive's name if `by_archive` is true, else NULL. */
static void find_group(struct item *item, const char *archive, bool by_archive)
{
    item->length = first_folder(item->path);
    item->group = item->length > 0 ? item->path : NULL;
    item->length -= item->length > 0;
    if (item->group || !by_archive)
        return;
    item->group = strrchr(archive, '/') + 1;
    item->length = strlen(item->group) - strlen(".tar");
}

/* Checks that an image has a class: a number of the split's kind of label, or a folder. If there is
 * a label without a number, the folder is probably not the class. */
static enum status check_class(const struct item *item, const char *archive, enum label_kind kind)
{
    const struct label *l = &item->entry->label;
    if (l->file && l->number < 0 && (!kind || l->kind == kind))
        return status_fail(STATUS_DATA,
                           "archive '%s': '%s' does not contain a class number from 0 to %d (in a "
                           ".json: \"label\"); if folders are the classes, pack without such files "
                           "(tar --exclude='*%s')",
                           archive, l->file, SHARD_CLASSES - 1, strrchr(l->file, '.'));
    if (kind ? l->number >= 0 && l->kind == kind : item->group != NULL)
        return STATUS_OK;
    return status_fail(STATUS_DATA, "archive '%s': '%s' has no class: %s", archive,
                       item->entry->name,
                       !kind                ? "it has neither a file KEY.cls nor a class folder"
                       : kind == LABEL_SURE ? "other images have one in KEY.cls or KEY.json"
                                            : "other images have one in KEY.txt");
}

/* Gives each image its class and sorts the images. The surest kind of label with a number in any
 * image names all classes. */
static enum status find_classes(struct listing *l, bool by_archive)
{
    enum label_kind kind = LABEL_NONE;
    for (int64_t i = 0; i < l->n; i++)
        if (l->item[i].entry->label.number >= 0 && l->item[i].entry->label.kind > kind)
            kind = l->item[i].entry->label.kind;
    for (const struct shard *s = l->shard; s < l->shard + l->shards; s++)
        if (s->orphan[kind] || s->orphan[LABEL_SURE])
            return status_fail(STATUS_DATA,
                               "archive '%s': label '%s' has no image of its name in the archive; "
                               "pack images and labels together, or leave the label out",
                               s->path, s->orphan[s->orphan[kind] ? kind : LABEL_SURE]);
    for (int64_t i = 0; i < l->n; i++) {
        const char *archive = l->shard[l->item[i].shard].path;
        if (!kind)
            find_group(&l->item[i], archive, by_archive);
        TRY(check_class(&l->item[i], archive, kind));
    }
    qsort(l->item, (size_t)l->n, sizeof *l->item, by_class);
    return STATUS_OK;
}

static bool same_class(const struct item *a, const struct item *b)
{
    return a->entry->label.number == b->entry->label.number && a->length == b->length &&
           (!a->group || memcmp(a->group, b->group, a->length) == 0);
}

/* Appends a class. The name of a numbered class has leading zeros, so that names sort as their
 * numbers do. */
static enum status add_class(struct words *classes, const struct item *item, const char *name)
{
    if (item->group)
        return words_add(classes, "%.*s", (int)item->length, item->group);
    if (item->entry->label.number != classes->n)
        return status_fail(STATUS_DATA,
                           "class %d of '%s' has no images, but class %" PRId32 " has some",
                           classes->n, name, item->entry->label.number);
    return words_add(classes, "%06" PRId32, item->entry->label.number);
}

/* Appends an image's path below d->root: ARCHIVE/IMAGE or, if `whole` is set, only IMAGE, because
 * d->root is then the archive. */
static enum status add_path(struct names *paths, const struct listing *l, const struct item *item,
                            bool whole)
{
    char path[2 * TAR_NAME_MAX];
    if (whole)
        return names_add(paths, item->entry->name);
    TRY(path_format(path, sizeof path, "%s/%s", strrchr(l->shard[item->shard].path, '/') + 1,
                    item->entry->name));
    return names_add(paths, path);
}

/* Moves the sorted images into the data set. */
static enum status fill(struct dataset *d, const struct listing *l, bool whole)
{
    enum status st;
    struct words classes = {0};
    struct names paths = {0};
    if (l->n == 0 || l->n > INT32_MAX)
        return status_fail(l->n ? STATUS_UNSUPPORTED : STATUS_DATA,
                           "'%s' holds %" PRId64 " images; at least one and at most %d are needed",
                           d->name, l->n, INT32_MAX);
    CHECK(array_new(&d->sample, l->n));
    for (int64_t i = 0; i < l->n; i++) {
        const struct item *item = &l->item[i];
        if (i == 0 || !same_class(item, item - 1))
            CHECK(add_class(&classes, item, d->name));
        d->sample[d->n++] = (struct sample){.path = paths.size,
                                            .label = classes.n - 1,
                                            .shard = item->shard,
                                            .offset = item->entry->offset,
                                            .bytes = item->entry->bytes};
        CHECK(add_path(&paths, l, item, whole));
    }
done:
    d->paths = paths.text;
    d->class_name = classes.v;
    d->classes = classes.n;
    return st;
}

enum status shards_index(const char *split, struct words *paths, struct dataset *d)
{
    enum status st;
    struct shard *shard = NULL;
    d->shard = paths->v;
    d->shards = paths->n;
    *paths = (struct words){0};
    const struct words own = {d->shard, d->shards};
    struct listing l = {.shards = own.n};
    bool whole = own.n == 1 && strcmp(own.v[0], d->root) == 0;
    bool by_archive = !whole && strcmp(d->root, d->name) == 0; /* archives of a folder */
    CHECK(array_new(&shard, own.n));
    l.shard = shard;
    CHECK(read_shards(shard, &own));
    CHECK(flatten(&l));
    strip_common(&l);
    if (whole)
        CHECK(choose_split(&l, split, d->root));
    CHECK(find_classes(&l, by_archive));
    CHECK(fill(d, &l, whole));
done:
    for (int i = 0; shard && i < own.n; i++)
        shard_free(&shard[i]);
    free(shard);
    free(l.item);
    return st;
}
