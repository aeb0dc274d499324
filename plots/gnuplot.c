/* Runs gnuplot as a child process. */
#include "plots/gnuplot.h"

#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Reads the last line of the file `log` that is not blank; gnuplot writes an error's message there.
 */
static void last_line(int log, char *out, size_t size)
{
    char text[2048];
    off_t end = lseek(log, 0, SEEK_END), space = sizeof text - 1;
    ssize_t n = pread(log, text, sizeof text - 1, end > space ? end - space : 0);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    text[n > 0 ? n : 0] = '\0';
    char *newline = strrchr(text, '\n');
    text_clean(out, size, newline ? newline + 1 : text);
}

enum status gnuplot_run(const char *dir, const char *script)
{
    char *argv[] = {
        "gnuplot", "--default-settings", "-e", "draft='" GNUPLOT_DRAFT "'", (char *)script, NULL};
    char line[512] = "";
    int code = 0, log = memfd_create("gnuplot", MFD_CLOEXEC); /* gnuplot's output */
    if (log < 0)
        return status_fail(STATUS_IO, "cannot make a file for gnuplot: %s", strerror(errno));
    enum status st = process_call(argv, dir, log, &code);
    last_line(log, line, sizeof line);
    close(log);
    if (st == STATUS_UNSUPPORTED)
        return status_fail(st,
                           "gnuplot was not found: install gnuplot-nox (apt-get install "
                           "gnuplot-nox) and repeat the command; scripts and tables are in '%s'",
                           dir);
    TRY(st);
    if (code == 0)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "gnuplot failed on '%s/%s': %s", dir, script,
                       line[0] ? line : "no message");
}

enum status gnuplot_check_picture(const char *draft, const char *path)
{
    static const char *const ends[] = {"</svg>", "IEND", "%%EOF"};
    char tail[17] = "";
    FILE *in = fopen(draft, "rb");
    if (!in)
        return status_fail(STATUS_IO, "gnuplot did not write '%s': %s", path, strerror(errno));
    bool whole = false;
    if (fseek(in, -16, SEEK_END) == 0 && fread(tail, 1, 16, in) == 16)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            whole = whole || memmem(tail, 16, ends[i], strlen(ends[i])) != NULL;
    fclose(in);
    if (!whole)
        return status_fail(STATUS_IO, "gnuplot wrote '%s' only in part; is the disk full?", path);
    return STATUS_OK;
}
