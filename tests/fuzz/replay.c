/* Passes files to a fuzz target, in builds without libFuzzer: fuzz_NAME FILE|DIR... Fails if it
 * cannot read a file, or if there is no file. A finding of the target crashes the program. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_MAX = 1 << 24 };

static int replayed;

/* Copies the input to memory of exactly its size: a sanitizer then detects a read past its end. */
static enum status replay_file(const char *path)
{
    char *bytes;
    size_t size;
    TRY(file_read(path, INPUT_MAX, &bytes, &size));
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return status_fail(STATUS_OOM, "no memory for '%s'", path);
    memcpy(exact, bytes, size);
    free(bytes);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    replayed++;
    return STATUS_OK;
}

static enum status replay(const char *path)
{
    enum status st = STATUS_OK;
    char file[4096];
    if (!path_is_dir(path))
        return replay_file(path);
    DIR *dir = opendir(path);
    if (!dir)
        return status_fail(STATUS_IO, "cannot open '%s'", path);
    for (struct dirent *e; st == STATUS_OK && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        st = path_format(file, sizeof file, "%s/%s", path, e->d_name);
        if (st == STATUS_OK)
            st = replay_file(file);
    }
    closedir(dir);
    return st;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (replay(argv[i]) != STATUS_OK) {
            fprintf(stderr, "%s: %s\n", argv[0], status_message());
            return 1;
        }
    printf("%d inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
