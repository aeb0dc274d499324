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
    WRITE_PART = 256 * 1024,      /* bytes; a core's cache holds them */
    SYNC_PART = 16 * 1024 * 1024, /* bytes between two calls of atomic_file_begin_sync */
};

/* A file being written. `order` lists the entries in the file's order. */
struct writing {
    const struct safetensors_entry *entry;
    size_t n_entries;
    size_t *order;
    size_t *bytes; /* number of bytes of each entry */
    char *header;  /* padded; not a string */
    size_t header_length;
};

/* Orders the entries by the size of their elements, the largest first, so that each tensor lies at
 * a multiple of its element's size. */
static enum status order_entries(struct writing *w)
{
    TRY(array_new(&w->order, w->n_entries));
    TRY(array_new(&w->bytes, w->n_entries));
    size_t n = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (size_t i = 0; i < w->n_entries; i++)
            if (safetensors_dtype_size(w->entry[i].dtype) == size)
                w->order[n++] = i;
    for (size_t i = 0; i < w->n_entries; i++)
        if (!safetensors_shape_bytes(&w->entry[i], &w->bytes[i]))
            return status_fail(STATUS_INVALID, "tensor '%s' has an impossible size",
                               w->entry[i].name);
    return STATUS_OK;
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

/* The header's entry for one tensor; NULL when memory is short. */
static json_t *entry_json(const struct safetensors_entry *e, size_t begin, size_t bytes)
{
    json_t *shape = json_array();
    for (int i = 0; i < e->ndim; i++)
        json_array_append_new(shape, json_integer(e->dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_dtype_str(e->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes));
}

static enum status header_json(const struct writing *w, const struct safetensors_pair *pair,
                               size_t n_pairs, json_t *root)
{
    json_t *metadata = json_object();
    TRY(object_add(root, SAFETENSORS_METADATA, metadata));
    TRY(object_add(metadata, SAFETENSORS_CRC_KEY, json_string("00000000")));
    for (size_t i = 0; i < n_pairs; i++)
        TRY(object_add(metadata, pair[i].key, json_string(pair[i].value)));
    size_t begin = 0;
    for (size_t i = 0; i < w->n_entries; i++) {
        size_t k = w->order[i];
        TRY(object_add(root, w->entry[k].name, entry_json(&w->entry[k], begin, w->bytes[k])));
        begin += w->bytes[k];
    }
    return STATUS_OK;
}

/* The header as text, padded with spaces so that the data starts at a multiple of 8. */
static enum status header_build(struct writing *w, const struct safetensors_pair *pair,
                                size_t n_pairs)
{
    enum status st;
    char *text = NULL;
    json_t *root = json_object();
    CHECK(header_json(w, pair, n_pairs, root));
    text = json_dumps(root, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0;
    w->header_length = (length + 7) / 8 * 8;
    w->header = text ? malloc(w->header_length) : NULL;
    if (!w->header) {
        st = status_fail(STATUS_OOM, "no memory for the header of %zu tensors", w->n_entries);
        goto done;
    }
    if (w->header_length > SAFETENSORS_HEADER_MAX) {
        st = status_fail(STATUS_INVALID,
                         "the header of %zu tensors exceeds the format's limit of %d bytes",
                         w->n_entries, SAFETENSORS_HEADER_MAX);
        goto done;
    }
    memset(w->header, ' ', w->header_length);
    memcpy(w->header, text, length);
done:
    free(text);
    json_decref(root);
    return st;
}

/* Writes the tensors and returns the file's checksum. Each part is summed just before it is
 * written, so that a core's cache holds it for both. */
static uint32_t data_write(const struct writing *w, struct atomic_file *f)
{
    uint32_t crc = safetensors_crc_header(w->header, w->header_length);
    size_t since = 0; /* bytes since the last atomic_file_begin_sync */
    for (size_t i = 0; i < w->n_entries; i++) {
        const unsigned char *data = w->entry[w->order[i]].data;
        size_t left = w->bytes[w->order[i]];
        for (size_t part; left > 0; data += part, left -= part) {
            part = left < WRITE_PART ? left : WRITE_PART;
            crc = safetensors_crc_data(crc, data, part);
            fwrite(data, 1, part, f->stream); /* atomic_file_sync reports errors of the stream */
            since += part;
            if (since >= SYNC_PART) {
                atomic_file_begin_sync(f);
                since = 0;
            }
        }
    }
    return crc;
}

static enum status file_write(const struct writing *w, const char *path, struct atomic_file *f)
{
    TRY(atomic_file_open(f, path));
    unsigned char prefix[SAFETENSORS_PREFIX];
    safetensors_prefix_put(prefix, w->header_length);
    fwrite(prefix, 1, sizeof prefix, f->stream);
    fwrite(w->header, 1, w->header_length, f->stream);
    uint32_t crc = data_write(w, f);
    char digits[SAFETENSORS_CRC_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08" PRIx32, crc);
    ptrdiff_t at = safetensors_crc_digits(w->header, w->header_length) - w->header;
    if (fseeko(f->stream, SAFETENSORS_PREFIX + at, SEEK_SET) != 0) {
        enum status st = status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(errno));
        atomic_file_abandon(f);
        return st;
    }
    fwrite(digits, 1, SAFETENSORS_CRC_DIGITS, f->stream);
    return atomic_file_sync(f);
}

enum status safetensors_prepare(const char *path, const struct safetensors_entry *entry,
                                size_t n_entries, const struct safetensors_pair *pair,
                                size_t n_pairs, struct atomic_file *f)
{
    enum status st;
    struct writing w = {.entry = entry, .n_entries = n_entries};
    *f = (struct atomic_file){0};
    CHECK(order_entries(&w));
    CHECK(header_build(&w, pair, n_pairs));
    CHECK(file_write(&w, path, f));
done:
    free(w.order);
    free(w.bytes);
    free(w.header);
    return st;
}

enum status safetensors_write(const char *path, const struct safetensors_entry *entry,
                              size_t n_entries, const struct safetensors_pair *pair, size_t n_pairs)
{
    struct atomic_file f;
    TRY(safetensors_prepare(path, entry, n_entries, pair, n_pairs, &f));
    return atomic_file_commit(&f);
}
