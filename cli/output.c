/* Implements --output, which writes the results of a command to a file instead of stdout. */
#include "base/file.h"
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct atomic_file output; /* the file that stdout is redirected to */
static const char *output_path;   /* NULL: stdout is not redirected */

static enum status output_fail(const char *path)
{
    return status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(errno));
}

enum status output_open(const char *path)
{
    struct stat s;
    output_path = path;
    if (!*path)
        return status_fail(STATUS_USAGE, "--output '': give the name of a file");
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode))
        return status_fail(STATUS_USAGE, "--output '%s' is a folder: give the name of a file",
                           path);
    if (lstat(path, &s) == 0 && !S_ISREG(s.st_mode)) /* devices, pipes and links are not replaced */
        return freopen(path, "w", stdout) ? STATUS_OK : output_fail(path);
    TRY(atomic_file_open(&output, path));
    if (dup2(fileno(output.stream), STDOUT_FILENO) >= 0)
        return STATUS_OK;
    enum status st = output_fail(path);
    atomic_file_abandon(&output);
    return st;
}

enum status output_close(void)
{
    struct stat s;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        atomic_file_abandon(&output);
        return output_path ? output_fail(output_path)
                           : status_fail(STATUS_IO, "cannot write the results to standard output");
    }
    if (!output.stream)
        return STATUS_OK;
    if (fstat(fileno(output.stream), &s) == 0 && s.st_size > 0)
        return atomic_file_commit(&output);
    atomic_file_abandon(&output);
    return STATUS_OK;
}
