/* Computes types, sizes and the checksum of safetensors files. */
#include "model/safetensors_format.h"

#include <string.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "this format stores tensors in the byte order of memory");

static const struct {
    const char *name;
    size_t size;
} dtypes[SAFETENSORS_DTYPE_COUNT] = {
    [SAFETENSORS_BOOL] = {"BOOL", 1},       [SAFETENSORS_U8] = {"U8", 1},
    [SAFETENSORS_I8] = {"I8", 1},           [SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1},
    [SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1}, [SAFETENSORS_U16] = {"U16", 2},
    [SAFETENSORS_I16] = {"I16", 2},         [SAFETENSORS_F16] = {"F16", 2},
    [SAFETENSORS_BF16] = {"BF16", 2},       [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_I32] = {"I32", 4},         [SAFETENSORS_F32] = {"F32", 4},
    [SAFETENSORS_U64] = {"U64", 8},         [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_F64] = {"F64", 8},
};

const char *safetensors_dtype_str(enum safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t safetensors_dtype_size(enum safetensors_dtype dtype)
{
    return dtypes[dtype].size;
}

bool safetensors_shape_bytes(const struct safetensors_entry *e, size_t *bytes)
{
    *bytes = safetensors_dtype_size(e->dtype);
    for (int i = 0; i < e->ndim; i++)
        if (e->dim[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)e->dim[i], bytes))
            return false;
    return true;
}

char *safetensors_crc_digits(char *header, size_t length)
{
    /* JSON escapes quotes within a string. This sequence can therefore only be the key and the
     * beginning of its value. */
    static const char mark[] = "\"" SAFETENSORS_CRC_KEY "\":\"";
    size_t mark_length = sizeof mark - 1;
    char *at = memmem(header, length, mark, mark_length);
    if (!at || (size_t)(header + length - at) < mark_length + SAFETENSORS_CRC_DIGITS)
        return NULL;
    return at + mark_length;
}

uint32_t safetensors_crc_data(uint32_t crc, const void *data, size_t bytes)
{
    return bytes ? (uint32_t)crc32_z(crc, data, bytes) : crc;
}

uint32_t safetensors_crc_header(const char *header, size_t length)
{
    unsigned char prefix[SAFETENSORS_PREFIX];
    safetensors_prefix_put(prefix, length);
    return safetensors_crc_data(safetensors_crc_data(0, prefix, sizeof prefix), header, length);
}

void safetensors_prefix_put(unsigned char out[SAFETENSORS_PREFIX], uint64_t length)
{
    for (int i = 0; i < SAFETENSORS_PREFIX; i++)
        out[i] = (unsigned char)(length >> 8 * i);
}

uint64_t safetensors_prefix_get(const unsigned char in[SAFETENSORS_PREFIX])
{
    uint64_t length = 0;
    for (int i = 0; i < SAFETENSORS_PREFIX; i++)
        length |= (uint64_t)in[i] << 8 * i;
    return length;
}
