/* Fuzzes data sets in a tar archive: reads the headers of the members, and finds the images. */
#include "input/image_files.h"
#include "tests/fuzz/fuzz.h"

static void open_split(const char *path, const char *split)
{
    struct dataset *d;
    struct image_files files;
    uint64_t hash;
    if (!fuzz_ok(dataset_open(path, split, &d)))
        return;
    fuzz_ok(dataset_fingerprint(d, &hash));
    bool open = fuzz_ok(image_files_open(d, &files));
    for (int64_t i = 0; open && i < d->n; i++) {
        struct image_file f = image_files_at(&files, i);
        if (f.offset < 0 || f.bytes < 0 || dataset_label(d, i) >= d->classes)
            __builtin_trap();
    }
    image_files_close(&files);
    dataset_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("train.tar", data, size);
    open_split(path, "train");
    open_split(path, "val");
    open_split(fuzz_dir(), "train");
    return 0;
}
