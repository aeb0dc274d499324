/* Functions for fuzz targets: files made from an input. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"
#include "tests/status_str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[4096];

static void remove_folder(void)
{
    if (dir_remove(folder) != STATUS_OK)
        fprintf(stderr, "%s\n", status_message());
}

/* A target that cannot make its files must not pass. */
static void need(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

const char *fuzz_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    if (*folder)
        return folder;
    snprintf(folder, sizeof folder, "%s/ampscale-fuzz-XXXXXX", tmp ? tmp : "/tmp");
    need(mkdtemp(folder), folder);
    atexit(remove_folder);
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char path[sizeof folder + 256];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir(), name);
    return path;
}

const char *fuzz_file(const char *name, const void *bytes, size_t size)
{
    const char *path = fuzz_path(name);
    FILE *out = fopen(path, "wb");
    need(out && fwrite(bytes, 1, size, out) == size && fclose(out) == 0, path);
    return path;
}

/* The index of the name in a line "@name"; -1 for any other line. */
static int heading(const char *line, size_t length, const char *const *names)
{
    for (int i = 0; length > 1 && line[0] == '@' && names[i]; i++)
        if (strlen(names[i]) == length - 1 && memcmp(line + 1, names[i], length - 1) == 0)
            return i;
    return -1;
}

unsigned fuzz_files(const uint8_t *data, size_t size, const char *const *names)
{
    const char *end = (const char *)data + size, *next;
    unsigned found = 0;
    FILE *out = NULL;
    for (int i = 0; names[i]; i++)
        remove(fuzz_path(names[i]));
    for (const char *at = (const char *)data; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        int name = heading(at, (size_t)((newline ? newline : end) - at), names);
        next = newline ? newline + 1 : end;
        if (name < 0 && out)
            fwrite(at, 1, (size_t)(next - at), out);
        if (name < 0)
            continue;
        need(!out || fclose(out) == 0, folder);
        need((out = fopen(fuzz_path(names[name]), "wb")), folder);
        found |= 1u << name;
    }
    need(!out || fclose(out) == 0, folder);
    return found;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    need(text, "malloc");
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

bool fuzz_ok(enum status st)
{
    if (st == STATUS_OK || *status_message())
        return st == STATUS_OK;
    fprintf(stderr, "a refusal (%s) has no message\n", status_str(st));
    abort();
}
