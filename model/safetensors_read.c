/* Reads safetensors files. Nothing in a file is used before it is checked. The first check is that
 * the header is consistent and fits the file's size. If the file has a checksum, the second check
 * is that the bytes match it. */
#include "base/array.h"
#include "base/file.h"
#include "model/safetensors_format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tensor and the offset of its data. */
struct placed {
    struct safetensors_entry entry;
    size_t begin;
};

struct safetensors {
    json_t *root; /* holds the names and the metadata */
    size_t n_tensors;
    struct placed *tensor;
    unsigned char *data;
    bool checked;
};

/* A file being read. */
struct reading {
    const char *path;
    FILE *in;
    size_t file_bytes;
    char *header; /* not a string */
    size_t header_length;
    size_t data_bytes; /* bytes after the header */
    struct safetensors *f;
};

/* A text from the file for use in a message: one line of printable characters, shortened if it is
 * long. */
struct shown {
    char text[72];
};

static struct shown show(const char *text)
{
    struct shown s;
    size_t room = sizeof s.text - 1, n = 0;
    for (; n < room && text[n]; n++)
        s.text[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    s.text[n] = '\0';
    if (text[n])
        memcpy(s.text + room - 3, "...", 3);
    return s;
}

static enum status damaged(const struct reading *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static enum status damaged(const struct reading *r, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return status_fail(STATUS_DATA,
                       "'%s' is damaged: %s; use another copy of it or an older checkpoint",
                       r->path, what);
}

static enum status file_open(struct reading *r)
{
    /* O_NONBLOCK: without it, open() would wait on a pipe. A pipe is refused below. */
    int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    r->in = fd < 0 ? NULL : fdopen(fd, "rb");
    if (!r->in) {
        int saved = errno;
        fd_close(&fd);
        return status_fail(saved == ENOENT ? STATUS_DATA : STATUS_IO, "cannot open '%s': %s",
                           r->path, strerror(saved));
    }
    struct stat s;
    if (fstat(fd, &s) != 0)
        return status_fail(STATUS_IO, "cannot read '%s': %s", r->path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return status_fail(STATUS_DATA, "cannot read '%s': not a regular file", r->path);
    r->file_bytes = (size_t)s.st_size;
    return STATUS_OK;
}

static enum status file_read_next(struct reading *r, void *out, size_t bytes)
{
    if (fread(out, 1, bytes, r->in) == bytes)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot read '%s': %s", r->path,
                       ferror(r->in) ? strerror(errno) : "the file became shorter");
}

/* Reads the next `bytes` of the file into new memory. */
static enum status file_take(struct reading *r, size_t bytes, void **out)
{
    *out = malloc(bytes ? bytes : 1);
    if (!*out)
        return status_fail(STATUS_OOM, "no memory to read %zu bytes of '%s'", bytes, r->path);
    return file_read_next(r, *out, bytes);
}

/* Fails with a way out if torch.save has written the file: a zip archive, or a pickle before
 * version 1.6. */
static enum status refuse_pytorch(const struct reading *r)
{
    char head[512] = "";
    rewind(r->in);
    size_t n = fread(head, 1, sizeof head, r->in);
    bool zip = memcmp(head, "PK\3\4", 4) == 0 && memmem(head, n, "/data.pkl", 9);
    bool pickle = head[0] == '\x80' && head[1] >= 2 && head[1] <= 5; /* the protocol */
    if (!zip && !pickle)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "'%s' is a PyTorch file, not safetensors; convert it: python3 -c \"import "
                       "torch, safetensors.torch as s; d = torch.load('%s', 'cpu', "
                       "weights_only=True); s.save_file(d.get('state_dict', d.get('model', d)), "
                       "'%s.safetensors')\"",
                       r->path, r->path, r->path);
}

static enum status header_read(struct reading *r)
{
    unsigned char prefix[SAFETENSORS_PREFIX];
    if (r->file_bytes < sizeof prefix)
        return damaged(r, "it has %zu bytes, too few for a safetensors file", r->file_bytes);
    TRY(file_read_next(r, prefix, sizeof prefix));
    uint64_t length = safetensors_prefix_get(prefix);
    if (length > SAFETENSORS_HEADER_MAX || length > r->file_bytes - sizeof prefix)
        TRY(refuse_pytorch(r));
    if (length > SAFETENSORS_HEADER_MAX)
        return damaged(r,
                       "its header would have %" PRIu64
                       " bytes, more than the format's limit of %d, as in a file of another format",
                       length, SAFETENSORS_HEADER_MAX);
    if (length > r->file_bytes - sizeof prefix)
        return damaged(r, "its header of %" PRIu64 " bytes ends past the end of the file", length);
    r->header_length = (size_t)length;
    r->data_bytes = r->file_bytes - sizeof prefix - r->header_length;
    void *header;
    enum status st = file_take(r, r->header_length, &header);
    r->header = header;
    TRY(st);
    json_error_t error;
    r->f->root = json_loadb(r->header, r->header_length, JSON_REJECT_DUPLICATES, &error);
    if (!r->f->root)
        return damaged(r, "its header is not JSON (%s)", show(error.text).text);
    return !json_is_object(r->f->root) ? damaged(r, "its header is not a JSON object") : STATUS_OK;
}

static enum status metadata_check(const struct reading *r)
{
    json_t *metadata = json_object_get(r->f->root, SAFETENSORS_METADATA);
    if (!metadata)
        return STATUS_OK;
    if (!json_is_object(metadata))
        return damaged(r, "its metadata are not a JSON object");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return damaged(
        r, "its metadata '%s' is not a string", show(key).text);
    return STATUS_OK;
}

static bool dtype_find(const char *name, enum safetensors_dtype *dtype)
{
    for (int i = 0; i < SAFETENSORS_DTYPE_COUNT; i++)
        if (strcmp(safetensors_dtype_str(i), name) == 0) {
            *dtype = i;
            return true;
        }
    return false;
}

static enum status dtype_parse(const struct reading *r, const json_t *json,
                               struct safetensors_entry *e)
{
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!dtype)
        return damaged(r, "tensor '%s' has no type", show(e->name).text);
    if (!dtype_find(dtype, &e->dtype))
        return status_fail(STATUS_UNSUPPORTED,
                           "cannot read '%s': tensor '%s' has the unknown type '%s'", r->path,
                           show(e->name).text, show(dtype).text);
    return STATUS_OK;
}

static enum status shape_parse(const struct reading *r, const json_t *json,
                               struct safetensors_entry *e)
{
    const json_t *shape = json_object_get(json, "shape");
    if (!json_is_array(shape))
        return damaged(r, "tensor '%s' has no shape", show(e->name).text);
    if (json_array_size(shape) > SAFETENSORS_MAX_DIMS)
        return status_fail(
            STATUS_UNSUPPORTED, "cannot read '%s': tensor '%s' has %zu dimensions, more than %d",
            r->path, show(e->name).text, json_array_size(shape), SAFETENSORS_MAX_DIMS);
    e->ndim = (int)json_array_size(shape);
    for (int i = 0; i < e->ndim; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        e->dim[i] = json_is_integer(dim) ? json_integer_value(dim) : -1;
    }
    if (!safetensors_shape_bytes(e, &e->bytes))
        return damaged(r, "tensor '%s' has an impossible shape", show(e->name).text);
    return STATUS_OK;
}

static enum status place_parse(const struct reading *r, const json_t *json, struct placed *p)
{
    struct shown name = show(p->entry.name);
    const json_t *offsets = json_object_get(json, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return damaged(r, "tensor '%s' has no data offsets", name.text);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin)
        return damaged(r, "tensor '%s' has impossible data offsets", name.text);
    if ((uint64_t)end > r->data_bytes)
        return damaged(r, "tensor '%s' ends past the end of the file", name.text);
    if ((size_t)(end - begin) != p->entry.bytes)
        return damaged(r, "tensor '%s' has %" JSON_INTEGER_FORMAT " bytes, but its shape needs %zu",
                       name.text, end - begin, p->entry.bytes);
    p->begin = (size_t)begin;
    return STATUS_OK;
}

static enum status tensors_parse(const struct reading *r)
{
    struct safetensors *f = r->f;
    TRY(array_new(&f->tensor, json_object_size(f->root)));
    const char *name;
    json_t *json;
    json_object_foreach(f->root, name, json)
    {
        if (strcmp(name, SAFETENSORS_METADATA) == 0)
            continue;
        struct placed *p = &f->tensor[f->n_tensors++];
        p->entry.name = name;
        TRY(dtype_parse(r, json, &p->entry));
        TRY(shape_parse(r, json, &p->entry));
        TRY(place_parse(r, json, p));
    }
    return STATUS_OK;
}

static int placed_compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    /* A tensor without elements comes before another tensor with the same offset. */
    return (x->entry.bytes > y->entry.bytes) - (x->entry.bytes < y->entry.bytes);
}

/* Sorts the tensors by offset. The tensors must cover the data, so each tensor must begin where the
 * previous tensor ends. */
static enum status tensors_order(const struct reading *r)
{
    struct safetensors *f = r->f;
    qsort(f->tensor, f->n_tensors, sizeof *f->tensor, placed_compare);
    size_t end = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct placed *p = &f->tensor[i];
        if (p->begin != end)
            return damaged(r, "tensor '%s' %s", show(p->entry.name).text,
                           p->begin < end ? "overlaps another tensor"
                                          : "leaves a gap before its data");
        end += p->entry.bytes;
    }
    if (end != r->data_bytes)
        return damaged(r, "%zu bytes follow its last tensor", r->data_bytes - end);
    return STATUS_OK;
}

static enum status data_read(struct reading *r)
{
    struct safetensors *f = r->f;
    void *data;
    enum status st = file_take(r, r->data_bytes, &data);
    f->data = data;
    TRY(st);
    for (size_t i = 0; i < f->n_tensors; i++)
        f->tensor[i].entry.data = f->data + f->tensor[i].begin;
    return STATUS_OK;
}

static enum status checksum_check(struct reading *r)
{
    const char *want = safetensors_metadata(r->f, SAFETENSORS_CRC_KEY);
    if (!want)
        return STATUS_OK;
    char have[SAFETENSORS_CRC_DIGITS + 1] = "";
    char *digits = safetensors_crc_digits(r->header, r->header_length);
    if (digits) {
        memset(digits, '0', SAFETENSORS_CRC_DIGITS);
        uint32_t crc = safetensors_crc_header(r->header, r->header_length);
        crc = safetensors_crc_data(crc, r->f->data, r->data_bytes);
        snprintf(have, sizeof have, "%08" PRIx32, crc);
    }
    if (strcmp(have, want) != 0)
        return damaged(r, "its bytes do not match its checksum");
    r->f->checked = true;
    return STATUS_OK;
}

enum status safetensors_open(const char *path, struct safetensors **f)
{
    enum status st;
    struct reading r = {.path = path};
    *f = NULL;
    TRY(array_new(&r.f, 1));
    CHECK(file_open(&r));
    CHECK(header_read(&r));
    CHECK(metadata_check(&r));
    CHECK(tensors_parse(&r));
    CHECK(tensors_order(&r));
    CHECK(data_read(&r));
    CHECK(checksum_check(&r));
    *f = r.f;
    r.f = NULL;
done:
    safetensors_close(r.f);
    free(r.header);
    if (r.in)
        fclose(r.in);
    return st;
}

void safetensors_close(struct safetensors *f)
{
    if (!f)
        return;
    json_decref(f->root);
    free(f->tensor);
    free(f->data);
    free(f);
}

size_t safetensors_count(const struct safetensors *f)
{
    return f->n_tensors;
}

const struct safetensors_entry *safetensors_at(const struct safetensors *f, size_t i)
{
    return &f->tensor[i].entry;
}

const struct safetensors_entry *safetensors_find(const struct safetensors *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensor[i].entry.name, name) == 0)
            return &f->tensor[i].entry;
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->root, SAFETENSORS_METADATA), key));
}

bool safetensors_checked(const struct safetensors *f)
{
    return f->checked;
}
