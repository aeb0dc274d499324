/* Finding and calling compute-sanitizer. */
#include "verify/sanitizer.h"

#include "base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "compute-sanitizer";

static bool is_in(const char *folder, int length, char *path, size_t size)
{
    return length > 0 &&
           path_format(path, size, "%.*s/%s", length, folder, file_name) == STATUS_OK &&
           access(path, X_OK) == 0;
}

enum status sanitizer_find(const char *devices, char *path, size_t size)
{
    const char *folder = getenv("PATH"), *home = getenv("CUDA_HOME");
    char bin[4096];
    if (strncmp(devices, "cuda", strlen("cuda")) != 0)
        return status_fail(STATUS_DATA, "--sanitizer: '%s' is no GPU", devices);
    while (folder && *folder) {
        size_t length = strcspn(folder, ":");
        if (is_in(folder, (int)length, path, size))
            return STATUS_OK;
        folder += length + (folder[length] == ':');
    }
    if (home && path_format(bin, sizeof bin, "%s/bin", home) == STATUS_OK &&
        is_in(bin, (int)strlen(bin), path, size))
        return STATUS_OK;
    if (is_in("/usr/local/cuda/bin", (int)strlen("/usr/local/cuda/bin"), path, size))
        return STATUS_OK;
    return status_fail(
        STATUS_DATA, "--sanitizer: %s is not installed; it comes with the CUDA toolkit", file_name);
}

enum status sanitizer_command(const char *path, const char *tool, struct words *w)
{
    TRY(words_add(w, "%s", path));
    TRY(words_add(w, "--tool"));
    TRY(words_add(w, "%s", tool));
    TRY(words_add(w, "--error-exitcode"));
    TRY(words_add(w, "%d", SANITIZER_FOUND));
    if (strcmp(tool, "memcheck") != 0)
        return STATUS_OK;
    /* Libraries ask the driver for functions that it may lack, which is no error. */
    TRY(words_add(w, "--report-api-errors"));
    return words_add(w, "no");
}
