/* Reads the members of a tar archive, one header after the other. */
#include "input/tar.h"

#include "base/array.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK = 512,
    WINDOW = 4096, /* bytes per read: enough for a header, a small member and the next header */
    EXTENSION = 1 << 20, /* upper limit in bytes of a pax header or a long name */
};

/* Offsets (_AT) and sizes of a header's fields. The name is at offset 0. */
enum { NAME = 100, SIZE_AT = 124, SIZE = 12, SUM_AT = 148, SUM = 8, TYPE_AT = 156 };
enum { MAGIC_AT = 257, PREFIX_AT = 345, PREFIX = 155 };

struct tar {
    int fd;
    int64_t bytes, next; /* size of the archive; offset of the next header */
    uint8_t window[WINDOW];
    int64_t window_at;
    size_t window_size;
    struct tar_member member;
    bool named;     /* member.name comes from an extension before the member's header */
    int64_t stated; /* the member's size in bytes if a pax header states it; else -1 */
};

enum status tar_read(int fd, int64_t offset, void *out, size_t n, size_t *got)
{
    *got = 0;
    while (*got < n) {
        ssize_t r = pread(fd, (char *)out + *got, n - *got, (off_t)offset + (off_t)*got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return status_fail(STATUS_IO, "cannot read: %s", strerror(errno));
        if (r == 0)
            break;
        *got += (size_t)r;
    }
    return STATUS_OK;
}

enum status tar_open(int fd, int64_t bytes, struct tar **out)
{
    enum status st = array_new(out, 1);
    if (st == STATUS_OK) {
        (*out)->fd = fd;
        (*out)->bytes = bytes;
    }
    return st;
}

void tar_close(struct tar *t)
{
    free(t);
}

/* Sets *header to the header at t->next, valid until the next call, or to NULL if no whole block is
 * left there. */
static enum status look(struct tar *t, const uint8_t **header)
{
    *header = NULL;
    int64_t in = t->next - t->window_at;
    if (in < 0 || in + BLOCK > (int64_t)t->window_size) {
        TRY(tar_read(t->fd, t->next, t->window, WINDOW, &t->window_size));
        t->window_at = t->next;
        in = 0;
    }
    if (in + BLOCK <= (int64_t)t->window_size)
        *header = t->window + in;
    return STATUS_OK;
}

/* Parses a number: binary if the first bit is set, else octal digits. Returns false for anything
 * else. */
static bool parse_number(const uint8_t *p, size_t n, int64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    if (p[0] & 0x80) {
        value = p[0] & 0x7f;
        for (i = 1; i < n; i++) {
            if (value >> 55)
                return false;
            value = value << 8 | p[i];
        }
    } else {
        while (i < n && p[i] == ' ')
            i++;
        for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
            value = value << 3 | (uint64_t)(p[i] - '0');
        if (i < n && p[i] != ' ' && p[i] != '\0')
            return false;
    }
    *out = (int64_t)value;
    return true;
}

/* Checks a header's checksum, in which the bytes of the checksum itself count as spaces. Also
 * accepts a sum of signed bytes, as old programs wrote it. */
static bool sum_is_right(const uint8_t *h)
{
    int64_t plain = 0, with_sign = 0, stated;
    for (int i = 0; i < BLOCK; i++) {
        uint8_t c = i >= SUM_AT && i < SUM_AT + SUM ? ' ' : h[i];
        plain += c;
        with_sign += (int8_t)c;
    }
    return parse_number(h + SUM_AT, SUM, &stated) && (stated == plain || stated == with_sign);
}

/* Returns STATUS_DATA for a header with a wrong checksum, with a message that names the probable
 * cause. */
static enum status refuse_header(const struct tar *t, const uint8_t *h)
{
    static const struct {
        const char *magic, *program;
    } packed[] = {{"\x1f\x8b", "gzip"},
                  {"\x28\xb5\x2f\xfd", "zstd"},
                  {"\xfd"
                   "7zXZ",
                   "xz"},
                  {"BZh", "bzip2"}};
    for (size_t i = 0; t->next == 0 && i < sizeof packed / sizeof *packed; i++)
        if (memcmp(h, packed[i].magic, strlen(packed[i].magic)) == 0)
            return status_fail(STATUS_DATA,
                               "compressed by %s; decompress it, since images are read in place",
                               packed[i].program);
    if (t->next == 0)
        return status_fail(STATUS_DATA, "not a tar archive");
    return status_fail(STATUS_DATA, "damaged: no header at byte %lld", (long long)t->next);
}

/* Sets the member's name: "prefix/name" in ustar archives, else the name alone. */
static void name_member(struct tar_member *m, const uint8_t *h)
{
    char name[NAME + 1] = "", prefix[PREFIX + 1] = "";
    memcpy(name, h, NAME);
    if (memcmp(h + MAGIC_AT, "ustar", 6) == 0) /* "ustar" and a NUL; GNU's archives have a space in
                                                * place of the NUL */
        memcpy(prefix, h + PREFIX_AT, PREFIX);
    snprintf(m->name, sizeof m->name, "%s%s%s", prefix, *prefix ? "/" : "", name);
}

/* Stores the next member's name. `name` has `n` bytes and may end with a NUL. */
static enum status take_name(struct tar *t, const char *name, size_t n)
{
    size_t length = strnlen(name, n);
    if (length == 0 || length >= TAR_NAME_MAX)
        return status_fail(STATUS_DATA, "damaged: an invalid name of %zu bytes at byte %lld",
                           length, (long long)t->next);
    memcpy(t->member.name, name, length);
    t->member.name[length] = '\0';
    t->named = true;
    return STATUS_OK;
}

/* Reads one record of a pax header, "KEY=VALUE" without the newline. */
static enum status take_record(struct tar *t, const char *record, size_t n)
{
    const char *equals = memchr(record, '=', n);
    if (!equals)
        return status_fail(STATUS_DATA, "damaged: an invalid pax header at byte %lld",
                           (long long)t->next);
    size_t key = (size_t)(equals - record), length = n - key - 1;
    if (key == 4 && memcmp(record, "path", 4) == 0)
        return take_name(t, equals + 1, length);
    if (key > 11 && memcmp(record, "GNU.sparse.", 11) == 0)
        t->member.kind = TAR_SPARSE;
    if (key != 4 || memcmp(record, "size", 4) != 0)
        return STATUS_OK;
    int64_t value = 0;
    bool good = length > 0 && length < 19;
    for (size_t i = 0; good && i < length; i++) {
        good = equals[1 + i] >= '0' && equals[1 + i] <= '9';
        value = value * 10 + (equals[1 + i] - '0');
    }
    if (!good)
        return status_fail(STATUS_DATA, "damaged: an invalid size in the pax header at byte %lld",
                           (long long)t->next);
    t->stated = value;
    return STATUS_OK;
}

/* Reads the records of a pax header, "LENGTH KEY=VALUE\n" each. LENGTH is the length of the whole
 * record. */
static enum status take_pax(struct tar *t, const char *text, size_t size)
{
    for (size_t at = 0; at < size && text[at] != '\0';) {
        size_t digits = at, length = 0;
        for (; digits < size && text[digits] >= '0' && text[digits] <= '9' && length <= size;
             digits++)
            length = length * 10 + (size_t)(text[digits] - '0');
        size_t head = digits - at + 1; /* length of the digits and the space */
        if (digits == at || digits >= size || text[digits] != ' ' || length < head + 2 ||
            length > size - at || text[at + length - 1] != '\n')
            return status_fail(STATUS_DATA, "damaged: an invalid pax header at byte %lld",
                               (long long)t->next);
        TRY(take_record(t, text + at + head, length - head - 1));
        at += length;
    }
    return STATUS_OK;
}

/* Reads an extension, which describes the next member. */
static enum status take_extension(struct tar *t, uint8_t type, int64_t offset, int64_t bytes)
{
    char *text;
    size_t got;
    if (type != 'L' && type != 'x')
        return STATUS_OK;
    if (bytes > EXTENSION)
        return status_fail(STATUS_DATA, "damaged: an extension header of %lld bytes at byte %lld",
                           (long long)bytes, (long long)t->next);
    TRY(array_new(&text, bytes));
    enum status st = tar_read(t->fd, offset, text, (size_t)bytes, &got);
    if (st == STATUS_OK)
        st = type == 'L' ? take_name(t, text, got) : take_pax(t, text, got);
    free(text);
    return st;
}

static enum tar_kind kind_of(uint8_t type, const char *name)
{
    size_t length = strlen(name);
    switch (type) {
    case '\0':
    case '0':
    case '7':
        return length > 0 && name[length - 1] == '/' ? TAR_OTHER : TAR_FILE;
    case '1':
    case '2':
        return TAR_LINK;
    case 'S':
        return TAR_SPARSE;
    default:
        return TAR_OTHER;
    }
}

/* Begins the member whose header is `h`. If `h` is the header of an extension, reads the extension.
 * Moves t->next past the contents. */
static enum status take_header(struct tar *t, const uint8_t *h, bool *extension)
{
    struct tar_member *m = &t->member;
    uint8_t type = h[TYPE_AT];
    int64_t bytes;
    *extension = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (!sum_is_right(h))
        return refuse_header(t, h);
    if (!parse_number(h + SIZE_AT, SIZE, &bytes))
        return status_fail(STATUS_DATA, "damaged: an invalid size at byte %lld",
                           (long long)t->next);
    if (!*extension && t->stated >= 0)
        bytes = t->stated;
    if (type >= '1' && type <= '6') /* links, devices and folders have no contents */
        bytes = 0;
    int64_t offset = t->next + BLOCK, left = t->bytes - offset;
    if (!*extension && !t->named)
        name_member(m, h);
    if (bytes > left)
        return status_fail(
            STATUS_DATA, "truncated: '%s' has %lld bytes, of which the archive contains %lld",
            *extension ? "a header" : m->name, (long long)bytes, (long long)(left > 0 ? left : 0));
    if (*extension) {
        TRY(take_extension(t, type, offset, bytes));
    } else {
        m->kind = m->kind == TAR_SPARSE ? TAR_SPARSE : kind_of(type, m->name);
        m->offset = offset;
        m->bytes = bytes;
    }
    t->next = offset + (bytes + BLOCK - 1) / BLOCK * BLOCK;
    return STATUS_OK;
}

enum status tar_next(struct tar *t, const struct tar_member **out)
{
    static const uint8_t zeros[BLOCK];
    const uint8_t *header;
    bool ended = false;
    *out = NULL;
    t->named = false;
    t->stated = -1;
    t->member.kind = TAR_OTHER;
    for (bool extension = true; extension;) {
        TRY(look(t, &header));
        if (!header)
            return ended ? STATUS_OK
                         : status_fail(STATUS_DATA,
                                       "truncated: the end-of-archive marker is missing");
        if (memcmp(header, zeros, BLOCK) == 0) {
            ended = true;
            t->next += BLOCK;
            continue;
        }
        if (ended)
            return status_fail(STATUS_DATA,
                               "data at byte %lld follow the end-of-archive marker: were archives "
                               "joined by 'cat'? Use 'tar --concatenate', or keep them apart",
                               (long long)t->next);
        TRY(take_header(t, header, &extension));
    }
    *out = &t->member;
    return STATUS_OK;
}
