/* Writes safetensors files. */
#include "base/array.h"
#include "base/file.h"
#include "model/safetensors_format.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRITE_PART = 256 * 1024,      /* bytes; fits into a core's cache */
    SYNC_PART = 16 * 1024 * 1024, /* bytes between two calls of atomic_file_begin_sync */
};

/* A file being written. `order` lists the entries in the file's order. */
struct writing {
    const struct safetensors_contents *contents;
    size_t *order;
    size_t *bytes; /* number of bytes of each entry */
    void *buffer;  /* holds the data of one entry; NULL if no entry needs `get` */
    char *header;  /* padded; not a string */
    size_t header_length;
};

/* Orders the entries by the size of their elements, the largest first. The offset of each tensor is
 * then a multiple of its element size. */
static enum status order_entries(struct writing *w)
{
    const struct safetensors_entry *entry = w->contents->entry;
    size_t n_entries = w->contents->n_entries, n = 0, largest = 0;
    TRY(array_new(&w->order, n_entries));
    TRY(array_new(&w->bytes, n_entries));
    for (size_t size = 8; size > 0; size /= 2)
        for (size_t i = 0; i < n_entries; i++)
            if (safetensors_dtype_size(entry[i].dtype) == size)
                w->order[n++] = i;
    for (size_t i = 0; i < n_entries; i++) {
        if (!safetensors_shape_bytes(&entry[i], &w->bytes[i]))
            return status_fail(STATUS_INVALID, "tensor '%s' has an impossible size", entry[i].name);
        if (!entry[i].data && w->bytes[i] > largest)
            largest = w->bytes[i];
    }
    return largest > 0 ? array_new_sized(&w->buffer, (int64_t)largest, 1, __func__) : STATUS_OK;
}

/* Adds `value` under a new key of `object`, which then owns the value. `value` may be NULL. */
static enum status object_add(json_t *object, const char *key, json_t *value)
{
    bool twice = json_object_get(object, key) != NULL;
    if (!twice && json_object_set_new(object, key, value) == 0)
        return STATUS_OK;
    if (twice) {
        json_decref(value);
        return status_fail(STATUS_INVALID, "the name '%s' is given twice or reserved", key);
    }
    return status_fail(STATUS_INVALID,
                       "the name '%s' or its value is not UTF-8, or there is not enough memory",
                       key);
}

/* The header's entry for one tensor; NULL: out of memory. */
static json_t *entry_json(const struct safetensors_entry *e, size_t begin, size_t bytes)
{
    json_t *shape = json_array();
    for (int i = 0; i < e->ndim; i++)
        json_array_append_new(shape, json_integer(e->dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_dtype_str(e->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes));
}

static enum status header_json(const struct writing *w, json_t *root)
{
    const struct safetensors_contents *c = w->contents;
    json_t *metadata = json_object();
    TRY(object_add(root, SAFETENSORS_METADATA, metadata));
    TRY(object_add(metadata, SAFETENSORS_CRC_KEY, json_string("00000000")));
    for (size_t i = 0; i < c->n_pairs; i++)
        TRY(object_add(metadata, c->pair[i].key, json_string(c->pair[i].value)));
    size_t begin = 0;
    for (size_t i = 0; i < c->n_entries; i++) {
        size_t k = w->order[i];
        TRY(object_add(root, c->entry[k].name, entry_json(&c->entry[k], begin, w->bytes[k])));
        begin += w->bytes[k];
    }
    return STATUS_OK;
}

/* The header as text, padded with spaces so that the data starts at a multiple of 8. */
static enum status header_build(struct writing *w)
{
    enum status st;
    char *text = NULL;
    json_t *root = json_object();
    CHECK(header_json(w, root));
    text = json_dumps(root, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0;
    w->header_length = (length + 7) / 8 * 8;
    w->header = text ? malloc(w->header_length) : NULL;
    if (!w->header)
        CHECK(status_fail(STATUS_OOM, "no memory for the header of %zu tensors",
                          w->contents->n_entries));
    if (w->header_length > SAFETENSORS_HEADER_MAX)
        CHECK(status_fail(STATUS_INVALID,
                          "the header of %zu tensors exceeds the format's limit of %d bytes",
                          w->contents->n_entries, SAFETENSORS_HEADER_MAX));
    memset(w->header, ' ', w->header_length);
    memcpy(w->header, text, length);
done:
    free(text);
    json_decref(root);
    return st;
}

/* Writes the tensors, and sets *crc to the file's checksum. Adds each part to the checksum just
 * before writing it: the second read then finds the part in the core's cache. */
static enum status data_write(const struct writing *w, struct atomic_file *f, uint32_t *crc)
{
    const struct safetensors_contents *c = w->contents;
    size_t since = 0; /* bytes since the last atomic_file_begin_sync */
    *crc = safetensors_crc_header(w->header, w->header_length);
    for (size_t i = 0; i < c->n_entries; i++) {
        size_t k = w->order[i], left = w->bytes[k];
        const unsigned char *data = c->entry[k].data;
        if (!data && left > 0) {
            TRY(c->get(c->context, k, w->buffer));
            data = w->buffer;
        }
        for (size_t part; left > 0; data += part, left -= part) {
            part = left < WRITE_PART ? left : WRITE_PART;
            *crc = safetensors_crc_data(*crc, data, part);
            fwrite(data, 1, part, f->stream); /* atomic_file_sync reports errors of the stream */
            since += part;
            if (since >= SYNC_PART) {
                atomic_file_begin_sync(f);
                since = 0;
            }
        }
    }
    return STATUS_OK;
}

/* Writes the checksum over the zeros in the header. */
static enum status crc_write(const struct writing *w, struct atomic_file *f, uint32_t crc)
{
    char digits[SAFETENSORS_CRC_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08" PRIx32, crc);
    ptrdiff_t at = safetensors_crc_digits(w->header, w->header_length) - w->header;
    if (fseeko(f->stream, SAFETENSORS_PREFIX + at, SEEK_SET) != 0)
        return status_fail(STATUS_IO, "cannot write '%s': %s", f->path, strerror(errno));
    fwrite(digits, 1, SAFETENSORS_CRC_DIGITS, f->stream);
    return STATUS_OK;
}

static enum status file_write(const struct writing *w, struct atomic_file *f)
{
    unsigned char prefix[SAFETENSORS_PREFIX];
    uint32_t crc;
    safetensors_prefix_put(prefix, w->header_length);
    fwrite(prefix, 1, sizeof prefix, f->stream);
    fwrite(w->header, 1, w->header_length, f->stream);
    TRY(data_write(w, f, &crc));
    TRY(crc_write(w, f, crc));
    return atomic_file_sync(f);
}

enum status safetensors_prepare(const char *path, const struct safetensors_contents *c,
                                struct atomic_file *f)
{
    enum status st;
    struct writing w = {.contents = c};
    *f = (struct atomic_file){0};
    CHECK(order_entries(&w));
    CHECK(header_build(&w));
    CHECK(atomic_file_open(f, path));
    CHECK(file_write(&w, f));
done:
    if (st != STATUS_OK)
        atomic_file_abandon(f);
    free(w.order);
    free(w.bytes);
    free(w.buffer);
    free(w.header);
    return st;
}

enum status safetensors_write(const char *path, const struct safetensors_contents *c)
{
    struct atomic_file f;
    TRY(safetensors_prepare(path, c, &f));
    return atomic_file_commit(&f);
}
