/* Passes the files of a folder, and damaged copies of each, to a fuzz target, in builds without
 * libFuzzer: fuzz_NAME DIR. Fails if it cannot read a file, or if there is no file. A finding of
 * the target crashes the program. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAMAGED = 200 };

/* Copies the input to memory of exactly its size: a sanitizer then detects a read past its end.
 * A copy with a number is damaged: three bytes are replaced, and every fourth one is cut. */
static enum status pass(const char *bytes, size_t size, int number)
{
    struct rng r = rng_at(1, RNG_TEST, (uint64_t)number, size);
    if (number % 4 == 1 && size > 0)
        size = rng_below(&r, (uint32_t)size);
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return status_fail(STATUS_OOM, "no memory for an input");
    memcpy(exact, bytes, size);
    for (int i = 0; number > 0 && size > 0 && i < 3; i++)
        exact[rng_below(&r, (uint32_t)size)] = (uint8_t)rng_u32(&r);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return STATUS_OK;
}

static enum status replay(const char *dir, const char *name)
{
    char path[4096], *bytes;
    size_t size;
    TRY(path_format(path, sizeof path, "%s/%s", dir, name));
    TRY(file_read(path, 1 << 24, &bytes, &size));
    fprintf(stderr, "%s\n", path);
    enum status st = STATUS_OK;
    for (int i = 0; st == STATUS_OK && i <= DAMAGED; i++)
        st = pass(bytes, size, i);
    free(bytes);
    return st;
}

int main(int argc, char **argv)
{
    struct words names = {0};
    enum status st = dir_list(argc > 1 ? argv[1] : "", "", &names);
    for (int i = 0; st == STATUS_OK && i < names.n; i++)
        st = replay(argv[1], names.v[i]);
    if (st != STATUS_OK)
        fprintf(stderr, "%s: %s\n", argv[0], status_message());
    printf("%d inputs\n", (int)names.n);
    bool good = st == STATUS_OK && names.n > 0;
    words_free(&names);
    return good ? 0 : 1;
}
