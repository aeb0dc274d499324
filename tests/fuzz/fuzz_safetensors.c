/* Fuzzes the reader of safetensors files: weights from any source, and checkpoints. */
#include "model/safetensors.h"
#include "runners/checkpoint.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Corrects the checksum of a file, if it has a checksum, so that the code after the check runs. */
static void set_checksum(char *data, size_t size)
{
    static const char key[] = "\"file_crc32\":\"";
    char digits[9];
    char *at = memmem(data, size, key, sizeof key - 1);
    if (!at || (size_t)(data + size - at) < sizeof key - 1 + 8)
        return;
    at += sizeof key - 1;
    memset(at, '0', 8);
    snprintf(digits, sizeof digits, "%08lx", crc32(0, (Bytef *)data, (uInt)size));
    memcpy(at, digits, 8);
}

/* Reads all bytes that a reader may read; the sum keeps the compiler from omitting the reads. */
static unsigned walk(const struct safetensors *f)
{
    unsigned sum = safetensors_checked(f);
    for (size_t i = 0; i < safetensors_count(f); i++) {
        const struct safetensors_entry *e = safetensors_at(f, i);
        if (safetensors_find(f, e->name) != e)
            abort();
        for (size_t b = 0; b < e->bytes; b++)
            sum += ((const uint8_t *)e->data)[b];
        sum += (unsigned)strlen(safetensors_dtype_str(e->dtype)) + (unsigned)e->ndim;
    }
    return sum + (safetensors_metadata(f, "format") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile unsigned sum;
    struct safetensors *f;
    struct train_state state;
    struct train_identity kept = {0};
    char *copy = fuzz_text(data, size);
    set_checksum(copy, size);
    const char *path = fuzz_file("weights.safetensors", copy, size);
    free(copy);
    if (!fuzz_ok(safetensors_open(path, &f)))
        return 0;
    sum += walk(f);
    safetensors_close(f);
    fuzz_ok(checkpoint_state(path, &state));
    fuzz_ok(checkpoint_kept(path, &kept));
    return 0;
}
