/* The safetensors file format: named tensors and a few strings, as PyTorch and others read them.
 *
 * A file is a little-endian 64-bit length, a JSON header of that length, and the tensors' bytes:
 *
 *     {"__metadata__": {"key": "value"},
 *      "fc.weight": {"dtype": "F32", "shape": [10, 64], "data_offsets": [0, 2560]}}
 *
 * Offsets count from the end of the header. The tensors cover the rest of the file without holes or
 * overlaps, row-major, little-endian. (https://github.com/huggingface/safetensors)
 *
 * Files written here also have a checksum: the metadata "file_crc32" is the CRC-32 (as in zlib) of
 * the whole file, as eight hexadecimal digits. It is computed with zeros in place of these digits.
 * safetensors_open checks the checksum if the file has one. A tool that rewrites such a file must
 * remove the key. */
#pragma once

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum safetensors_dtype {
    SAFETENSORS_BOOL,
    SAFETENSORS_U8,
    SAFETENSORS_I8,
    SAFETENSORS_F8_E4M3,
    SAFETENSORS_F8_E5M2,
    SAFETENSORS_U16,
    SAFETENSORS_I16,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_U32,
    SAFETENSORS_I32,
    SAFETENSORS_F32,
    SAFETENSORS_U64,
    SAFETENSORS_I64,
    SAFETENSORS_F64,
    SAFETENSORS_DTYPE_COUNT
};

enum { SAFETENSORS_MAX_DIMS = 8 };

struct safetensors_entry {
    const char *name;
    enum safetensors_dtype dtype;
    int ndim; /* 0: a single element */
    int64_t dim[SAFETENSORS_MAX_DIMS];
    const void *data;
    size_t bytes; /* bytes of the data; ignored by the writer, which uses the shape */
};

struct safetensors_pair {
    const char *key, *value;
};

struct safetensors;

/* The name of a type as in the header ("F32", "BF16" ...), and the bytes of one element. */
const char *safetensors_dtype_str(enum safetensors_dtype dtype);
size_t safetensors_dtype_size(enum safetensors_dtype dtype);

/* Reads a whole file. STATUS_DATA if it is missing or damaged, STATUS_UNSUPPORTED for an unknown
 * type or too many dimensions. After a failure *f is NULL, and the message names the file and, if a
 * tensor is faulty, that tensor. */
MUST_CHECK enum status safetensors_open(const char *path, struct safetensors **f);
void safetensors_close(struct safetensors *f); /* NULL is fine */

/* The tensors in the order of their bytes. safetensors_find returns NULL for an unknown name.
 * Entries are valid until safetensors_close. If a file orders its tensors by element size, as the
 * files written here do, the data is aligned to its element size. In other files it may be
 * unaligned, so use memcpy. */
size_t safetensors_count(const struct safetensors *f);
const struct safetensors_entry *safetensors_at(const struct safetensors *f, size_t i);
const struct safetensors_entry *safetensors_find(const struct safetensors *f, const char *name);

/* The value of a metadata key; NULL: no such key. Valid until safetensors_close. */
const char *safetensors_metadata(const struct safetensors *f, const char *key);

/* Whether the file has a checksum, which safetensors_open has checked. */
bool safetensors_checked(const struct safetensors *f);

/* What is written to a file: tensors, and pairs of metadata. */
struct safetensors_contents {
    const struct safetensors_entry *entry;
    size_t n_entries;
    const struct safetensors_pair *pair;
    size_t n_pairs;
    /* Copies the data of `entry[i]` to `out`. It is called for each entry that has bytes but whose
     * `data` is NULL; may be NULL if there is no such entry. All calls use one buffer: a checkpoint
     * is written without a second copy of all its data in memory. */
    enum status (*get)(void *context, size_t i, void *out);
    void *context;
};

/* Writes a file atomically. The same contents give the same bytes: tensors are ordered by element
 * size, the largest first; tensors with the same element size are in the order of c->entry.
 * STATUS_INVALID for a name or key that is given twice, reserved or not UTF-8. A failure of `get`
 * is returned. */
MUST_CHECK enum status safetensors_write(const char *path, const struct safetensors_contents *c);

/* Like safetensors_write, but without the rename: all bytes are on disk in a temporary file in the
 * directory of `path`, and atomic_file_commit renames it to `path`. */
MUST_CHECK enum status safetensors_prepare(const char *path, const struct safetensors_contents *c,
                                           struct atomic_file *f);
