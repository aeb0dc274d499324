/* Lists the images in tar archives. */
#include "input/shards.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "input/image_files.h"
#include "input/tar.h"
#include "input/workers.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- one archive --- */

enum { SHARD_CLASSES = 1000000 }; /* class numbers must be below this limit */

/* A list of texts, one after the other, each ended by NUL. */
struct names {
    char *text;
    size_t size, capacity;
};

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

enum { NUMBER_MAX = 16, JSON_MAX = 1 << 16 }; /* most bytes of a number, and of a JSON label */

/* Appends a text. STATUS_OOM leaves the texts as they were. */
static enum status names_add(struct names *l, const char *text)
{
    size_t n = strlen(text) + 1;
    if (l->size + n > l->capacity) {
        size_t capacity = 2 * l->capacity + n;
        char *bigger = realloc(l->text, capacity);
        if (!bigger)
            return status_fail(STATUS_OOM, "no memory for a list of images");
        l->text = bigger;
        l->capacity = capacity;
    }
    memcpy(l->text + l->size, text, n);
    l->size += n;
    return STATUS_OK;
}

/* Returns a member's name without leading "./" and "/". Returns NULL if a folder or file in the
 * name begins with a dot; the caller then ignores the member. */
static const char *plain_name(const char *name)
{
    while (*name == '/' || (name[0] == '.' && name[1] == '/'))
        name++;
    return *name == '.' || strstr(name, "/.") ? NULL : name;
}

/* Returns 'c', 'j' or 't' for the names of labels, *.cls, *.json and *.txt, else 0. */
static int label_type(const char *name)
{
    const char *dot = strrchr(name, '.');
    bool is = dot && (strcasecmp(dot, ".cls") == 0 || strcasecmp(dot, ".json") == 0 ||
                      strcasecmp(dot, ".txt") == 0);
    return is ? tolower((unsigned char)dot[1]) : 0;
}

/* Returns the class number that is the whole text but for white space, or -1. */
static int32_t parse_number(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    bool good = end != text && !errno && value >= 0 && value < SHARD_CLASSES;
    while (isspace((unsigned char)*end))
        end++;
    return good && !*end ? (int32_t)value : -1;
}

/* Returns the class number in the text of a JSON file, or -1. */
static int32_t parse_json(const char *text, size_t size)
{
    json_t *root;
    json_int_t number = -1;
    if (json_parse(text, size, "", &root) != STATUS_OK)
        return -1;
    if (json_unpack(root, "{s:I}", "label", &number) != 0)
        json_unpack(root, "{s:I}", "cls", &number);
    json_decref(root);
    return number >= 0 && number < SHARD_CLASSES ? (int32_t)number : -1;
}

static enum status read_label(int fd, const struct entry *e, struct label *out)
{
    int type = label_type(e->name);
    int64_t most = type == 'j' ? JSON_MAX : NUMBER_MAX, n = e->bytes <= most ? e->bytes : 0;
    char *text;
    size_t got;
    TRY(array_new(&text, n + 1));
    enum status st = tar_read(fd, e->offset, text, (size_t)n, &got);
    out->number = type == 'j'           ? parse_json(text, got)
                  : strlen(text) == got ? parse_number(text)
                                        : -1;
    out->kind = type == 'c' || (type == 'j' && out->number >= 0) ? LABEL_SURE : LABEL_UNSURE;
    out->file = e->name;
    free(text);
    return st;
}

/* Returns the rank of byte `i` of a stem: the end is before '.', and '.' is before all others. So
 * KEY.*.* follows KEY.* directly. */
static int rank_at(const struct entry *e, size_t i)
{
    return i == e->stem ? 0 : e->name[i] == '.' ? 1 : 2 + (unsigned char)e->name[i];
}

static int by_stem(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    size_t i = 0;
    while (i < a->stem && i < b->stem && a->name[i] == b->name[i])
        i++;
    int order = rank_at(a, i) - rank_at(b, i);
    return order ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

/* Keeps in *best the better one of two labels of an image. */
static enum status choose_label(struct label *best, const struct label *l)
{
    if (best->number >= 0 && l->number >= 0 && best->number != l->number)
        return status_fail(STATUS_DATA,
                           "'%s' says class %d, but '%s' says class %d; pack without the wrong one",
                           best->file, best->number, l->file, l->number);
    if ((l->number >= 0) * LABELS + (int)l->kind > (best->number >= 0) * LABELS + (int)best->kind)
        *best = *l;
    return STATUS_OK;
}

/* Gives the images among `n` entries of the same stem their label, and moves them to the end of the
 * images before them. *sample is the last labelled image that is not KEY.*.* for another one. */
static enum status pair(struct shard *s, int fd, const struct entry *e, int64_t n,
                        struct entry *sample)
{
    const struct entry key = *e;
    struct label best = {.number = -1}, label;
    int64_t images = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++)
            if (strcmp(e[i].name, e[k].name) == 0)
                return status_fail(STATUS_DATA, "it has '%s' twice; pack it without the old one",
                                   e[i].name);
        images += !label_type(e[i].name);
        if (!label_type(e[i].name))
            continue;
        TRY(read_label(fd, &e[i], &label));
        TRY(choose_label(&best, &label));
    }
    bool below = sample->name && key.stem > sample->stem && key.name[sample->stem] == '.' &&
                 memcmp(key.name, sample->name, sample->stem) == 0;
    bool part = below && !strchr(key.name + sample->stem, '/');
    bool labelled = best.number >= 0 && images > 0;
    if (labelled && !below)
        *sample = key;
    if (part && !labelled)
        return STATUS_OK;
    if (images == 0 && !s->orphan[best.kind] && (best.number >= 0 || best.kind == LABEL_SURE))
        s->orphan[best.kind] = best.file;
    for (int64_t i = 0; i < n; i++)
        if (!label_type(e[i].name)) {
            s->entry[s->n] = e[i];
            s->entry[s->n++].label = best;
        }
    return STATUS_OK;
}

/* Gives all images their labels, and removes the other entries. */
static enum status pair_all(struct shard *s, int fd)
{
    struct entry sample = {0};
    int64_t total = s->n, end, name = 0;
    for (int64_t i = 0; i < total; i++) {
        s->entry[i].name = s->names.text + name;
        s->entry[i].stem = (size_t)(strrchr(s->entry[i].name, '.') - s->entry[i].name);
        name += (int64_t)strlen(s->entry[i].name) + 1;
    }
    if (total > 0)
        qsort(s->entry, (size_t)total, sizeof *s->entry, by_stem);
    s->n = 0;
    for (int64_t i = 0; i < total; i = end) {
        const struct entry *e = &s->entry[i];
        for (end = i + 1; end < total && s->entry[end].stem == e->stem &&
                          memcmp(s->entry[end].name, e->name, e->stem) == 0;)
            end++;
        TRY(pair(s, fd, e, end - i, &sample));
    }
    return STATUS_OK;
}

/* Adds a member to the shard if it is an image or a label. */
static enum status take_member(struct shard *s, const struct tar_member *m)
{
    bool leaves = strncmp(m->name, "../", 3) == 0 || strstr(m->name, "/../");
    const char *name = leaves ? m->name : plain_name(m->name);
    if (m->kind == TAR_OTHER || !name)
        return STATUS_OK;
    int type = label_type(name); /* README.txt may be a link */
    if (!image_name_is(name) && (m->kind == TAR_FILE ? !type : type != 'c'))
        return STATUS_OK;
    if (leaves)
        return status_fail(STATUS_DATA, "'%s' has '..' in its name; pack without '..'", m->name);
    if (m->kind != TAR_FILE)
        return status_fail(STATUS_DATA, "'%s' is a %s", m->name,
                           m->kind == TAR_LINK ? "link; pack the files themselves (tar "
                                                 "--dereference --hard-dereference)"
                                               : "sparse file; pack without --sparse");
    TRY(array_reserve(&s->entry, s->n));
    s->entry[s->n++] = (struct entry){.offset = m->offset, .bytes = m->bytes, .label.number = -1};
    return names_add(&s->names, name);
}

static enum status read_members(struct shard *s, int fd, int64_t bytes)
{
    struct tar *tar;
    const struct tar_member *m;
    enum status st;
    TRY(tar_open(fd, bytes, &tar));
    for (;;) {
        CHECK(tar_next(tar, &m));
        if (!m)
            break;
        CHECK(take_member(s, m));
    }
    st = pair_all(s, fd);
done:
    tar_close(tar);
    return st;
}

/* Reads the headers of the archive at s->path, and its labels; the caller has zeroed the other
 * members. An image and a label belong together if they have the same name but for the extension.
 * KEY.*.* beside a labelled image KEY.*, such as KEY.seg.png, is left out unless it has a label
 * too. STATUS_DATA (also for an image with two labels that differ, a name that occurs twice, or an
 * image or label with ".." in its name) or STATUS_IO with a message that
 * names the archive. */
static enum status shard_read(struct shard *s)
{
    struct stat info;
    enum status st;
    /* Non-blocking: a named pipe must not block the thread. */
    int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0)
        st = status_fail(STATUS_IO, "cannot open: %s", strerror(errno));
    else if (!S_ISREG(info.st_mode))
        st = status_fail(STATUS_DATA, "not a regular file");
    else
        st = read_members(s, fd, info.st_size);
    if (st == STATUS_DATA || st == STATUS_IO)
        st = status_context(st, "archive '%s'", s->path);
    fd_close(&fd);
    return st;
}

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
    bool exists, is_dir;
    char folder[4096];
    TRY(path_look(dir, &exists));
    if (!exists)
        return STATUS_OK;
    TRY(path_look_dir(dir, &is_dir));
    if (!is_dir) {
        TRY(path_format(d->root, sizeof d->root, "%s", dir));
        TRY(path_format(d->name, sizeof d->name, "%s", dir));
        return words_add(paths, "%s", dir);
    }
    TRY(path_format(folder, sizeof folder, "%s/%s", dir, split));
    TRY(path_look_dir(folder, &is_dir));
    if (is_dir) {
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
        const struct item *item = &l->item[i], *last = item - (i > 0);
        bool same = item->entry->label.number == last->entry->label.number &&
                    item->length == last->length &&
                    (!item->group || memcmp(item->group, last->group, item->length) == 0);
        if (i == 0 || !same)
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
    for (int i = 0; shard && i < own.n; i++) {
        free(shard[i].names.text);
        free(shard[i].entry);
    }
    free(shard);
    free(l.item);
    return st;
}
