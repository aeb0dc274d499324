/* Data sets of tests. */
#include "tests/input/trees.h"

#include "base/file.h"
#include "input/image_files.h"
#include "tests/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tree_put(const char *dir, const char *path, const void *bytes, size_t size)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    *strrchr(full, '/') = '\0';
    assert_int_equal(dir_make(full), STATUS_OK);
    full[strlen(full)] = '/';
    FILE *f = fopen(full, "wb");
    assert_true(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static struct dataset *opened(const char *from, const char *split)
{
    struct dataset *d;
    expect_ok(dataset_open(from, split, &d));
    return d;
}

void tree_lists(const char *from, const char *split, const char *const *want)
{
    struct dataset *d = opened(from, split);
    struct image_files files;
    int64_t i = 0;
    assert_int_equal(image_files_open(d, &files), STATUS_OK);
    for (; i < d->n && want[i]; i++) {
        char line[1024], bytes[64];
        struct image_file f = image_files_at(&files, i);
        int fd = f.path ? openat(f.fd, f.path, O_RDONLY) : f.fd;
        ssize_t n = pread(fd, bytes, f.path ? sizeof bytes : (size_t)f.bytes, f.offset);
        snprintf(line, sizeof line, "%s %s %.*s", d->class_name[dataset_label(d, i)],
                 dataset_path(d, i), (int)n, bytes);
        assert_string_equal(line, want[i]);
        if (f.path)
            close(fd);
    }
    assert_int_equal(i, d->n);
    assert_null(want[i]);
    image_files_close(&files);
    dataset_free(d);
}

void tree_refused(const char *from, const char *split, enum status st, const char *reason)
{
    struct dataset *d;
    expect_failed(dataset_open(from, split, &d), st, reason);
    assert_null(d);
}

uint64_t tree_fingerprint(const char *from)
{
    uint64_t hash;
    struct dataset *d = opened(from, "train");
    assert_int_equal(dataset_fingerprint(d, &hash), STATUS_OK);
    dataset_free(d);
    return hash;
}
