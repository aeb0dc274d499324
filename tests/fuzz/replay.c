/* Passes the files of a folder to a fuzz target, in builds without libFuzzer: fuzz_NAME DIR. Fails
 * if it cannot read a file, or if there is no file. A finding of the target crashes the program. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"
#include "base/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies the input to memory of exactly its size: a sanitizer then detects a read past its end. */
static enum status replay(const char *dir, const char *name)
{
    char path[4096], *bytes;
    size_t size;
    TRY(path_format(path, sizeof path, "%s/%s", dir, name));
    TRY(file_read(path, 1 << 24, &bytes, &size));
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return status_fail(STATUS_OOM, "no memory for '%s'", path);
    memcpy(exact, bytes, size);
    free(bytes);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return STATUS_OK;
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
