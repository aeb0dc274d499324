/* Reads the members of one archive. */
#include "input/shard.h"

#include "base/array.h"
#include "input/image_name.h"
#include "input/tar.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLS_MAX = 16 }; /* most bytes that a file KEY.cls may have */

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

/* A group: consecutive members of the archive with the same key. A member's key is its name up to
 * the first dot. */
struct group {
    char key[TAR_NAME_MAX];
    int64_t first; /* index of the group's first entry */
    int32_t number;
};

/* Returns a member's name without leading "./" and "/". Returns NULL if a folder or file in the
 * name begins with a dot; the caller then ignores the member. */
static const char *plain_name(const char *name)
{
    while (*name == '/' || (name[0] == '.' && name[1] == '/'))
        name++;
    return *name == '.' || strstr(name, "/.") ? NULL : name;
}

/* Returns the extension: the text after the first dot in the last part of the path, or "" if there
 * is no dot. */
static const char *extension(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *dot = strchr(slash ? slash : name, '.');
    return dot ? dot + 1 : name + strlen(name);
}

/* Ends a group. If the group has a class number, gives this number to its images, and removes
 * images whose extension contains a dot, such as KEY.seg.png. */
static void end_group(struct shard *s, const struct group *g)
{
    int64_t n = g->first;
    for (int64_t i = g->first; g->number >= 0 && i < s->n; i++) {
        if (strchr(extension(s->names.text + s->entry[i].name), '.'))
            continue;
        s->entry[n] = s->entry[i];
        s->entry[n++].number = g->number;
    }
    if (g->number >= 0)
        s->n = n;
}

/* Reads the class number in KEY.cls. */
static enum status read_number(int fd, const struct tar_member *m, int32_t *out)
{
    char text[CLS_MAX + 1] = "", *end;
    size_t got = 0;
    if (m->bytes <= CLS_MAX)
        TRY(tar_read(fd, m->offset, text, (size_t)m->bytes, &got));
    text[got] = '\0';
    errno = 0;
    long value = strtol(text, &end, 10);
    while (isspace((unsigned char)*end))
        end++;
    if (got == 0 || end == text || *end || strlen(text) != got || errno || value < 0 ||
        value >= SHARD_CLASSES)
        return status_fail(STATUS_DATA, "'%s' does not contain a class number from 0 to %d",
                           m->name, SHARD_CLASSES - 1);
    *out = (int32_t)value;
    return STATUS_OK;
}

static enum status add_entry(struct shard *s, const struct tar_member *m, const char *name)
{
    if (m->kind == TAR_LINK)
        return status_fail(STATUS_DATA,
                           "'%s' is a link; pack the files themselves (tar --dereference "
                           "--hard-dereference)",
                           m->name);
    if (m->kind == TAR_SPARSE)
        return status_fail(STATUS_DATA, "'%s' is a sparse file; pack without --sparse", m->name);
    TRY(array_reserve(&s->entry, s->n));
    s->entry[s->n++] = (struct entry){s->names.size, m->offset, m->bytes, -1};
    return names_add(&s->names, name);
}

/* Adds a member to the shard, and to the group of its key. */
static enum status take_member(struct shard *s, int fd, const struct tar_member *m, struct group *g)
{
    const char *name = plain_name(m->name);
    if (m->kind == TAR_OTHER || !name)
        return STATUS_OK;
    const char *ext = extension(name);
    size_t key = (size_t)(ext - name);
    if (strncmp(g->key, name, key) != 0 || g->key[key]) {
        end_group(s, g);
        memcpy(g->key, name, key);
        g->key[key] = '\0';
        g->first = s->n;
        g->number = -1;
    }
    if (strcmp(ext, "cls") == 0 && m->kind == TAR_FILE)
        return read_number(fd, m, &g->number);
    return image_name_is(name) ? add_entry(s, m, name) : STATUS_OK;
}

static enum status read_members(struct shard *s, int fd, int64_t bytes)
{
    struct tar *tar = NULL;
    struct group *g = NULL;
    const struct tar_member *m;
    enum status st;
    CHECK(array_new(&g, 1));
    g->number = -1;
    CHECK(tar_open(fd, bytes, &tar));
    for (;;) {
        CHECK(tar_next(tar, &m));
        if (!m)
            break;
        CHECK(take_member(s, fd, m, g));
    }
    end_group(s, g);
done:
    tar_close(tar);
    free(g);
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
    if (fd >= 0)
        close(fd);
    return st;
}

void shard_free(struct shard *s)
{
    free(s->names.text);
    free(s->entry);
}
