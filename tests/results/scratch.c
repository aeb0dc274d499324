/* Folders for tests. */
#include "scratch.h"

#include "base/file.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void expect_failed(enum status got, enum status want, const char *says)
{
    if (got != want || !strstr(status_message(), says) || strchr(status_message(), '\n'))
        fail_msg("%s, '%s' instead of '%s'", status_str(got), status_message(), says);
}

void scratch_make(char dir[SCRATCH_MAX])
{
    snprintf(dir, SCRATCH_MAX, "/tmp/ampscale-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    return remove(path);
}

void scratch_remove(const char *dir)
{
    assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int scratch_set_up(void **state)
{
    char *dir = malloc(SCRATCH_MAX);
    assert_non_null(dir);
    scratch_make(dir);
    *state = dir;
    return 0;
}

int scratch_tear_down(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}

const char *scratch_path(const char *dir, const char *file)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return path;
}

static void put(const char *dir, const char *file, const char *mode, const void *bytes, size_t size)
{
    FILE *out = fopen(scratch_path(dir, file), mode);
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

void scratch_write(const char *dir, const char *file, const void *bytes, size_t size)
{
    put(dir, file, "wb", bytes, size);
}

void scratch_write_text(const char *dir, const char *file, const char *text)
{
    put(dir, file, "wb", text, strlen(text));
}

void scratch_write_changed(const char *dir, const char *file, const char *text, const char *old,
                           const char *new)
{
    const char *at = strstr(text, old);
    assert_non_null(at);
    put(dir, file, "wb", text, (size_t)(at - text));
    put(dir, file, "ab", new, strlen(new));
    put(dir, file, "ab", at + strlen(old), strlen(at + strlen(old)));
}

void scratch_append(const char *dir, const char *file, const void *bytes, size_t size)
{
    put(dir, file, "ab", bytes, size);
}

void scratch_remove_file(const char *dir, const char *file)
{
    assert_int_equal(remove(scratch_path(dir, file)), 0);
}

char *scratch_read(const char *dir, const char *file, size_t *size)
{
    char *bytes;
    expect_ok(file_read(scratch_path(dir, file), (size_t)1 << 30, &bytes, size));
    return bytes;
}
