/* Reads the members of one archive. */
#include "input/shard.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "input/image_files.h"
#include "input/tar.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBER_MAX = 16, JSON_MAX = 1 << 16 }; /* most bytes of a number, and of a JSON label */

enum status names_add(struct names *l, const char *text)
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

enum status shard_read(struct shard *s)
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

void shard_free(struct shard *s)
{
    free(s->names.text);
    free(s->entry);
}
