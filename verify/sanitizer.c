/* Finds compute-sanitizer, and makes its command line. */
#include "verify/sanitizer.h"

#include "base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "compute-sanitizer";

static bool is_in(const char *folder, char *path, size_t size)
{
    return path_format(path, size, "%s/bin/%s", folder, file_name) == STATUS_OK &&
           access(path, X_OK) == 0;
}

enum status sanitizer_find(const char *devices, char *path, size_t size)
{
    const char *home = getenv("CUDA_HOME");
    if (strncmp(devices, "cuda", strlen("cuda")) != 0)
        return status_fail(STATUS_DATA, "--sanitizer: '%s' is not a GPU", devices);
    if (path_of_program(file_name, path, size) || (home && is_in(home, path, size)) ||
        is_in("/usr/local/cuda", path, size))
        return STATUS_OK;
    return status_fail(
        STATUS_DATA, "--sanitizer: %s is not installed; it comes with the CUDA toolkit", file_name);
}

enum status sanitizer_command(const char *path, const char *tool, struct words *w)
{
    TRY(words_add_all(w, path, "--tool", tool, NULL));
    TRY(words_add_flag(w, "--error-exitcode", "%d", SANITIZER_FOUND));
    if (strcmp(tool, "memcheck") != 0)
        return STATUS_OK;
    /* Libraries look up functions that the driver may not have. memcheck would report each failed
     * look-up as an error. */
    return words_add_all(w, "--report-api-errors", "no", NULL);
}
