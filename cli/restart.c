/* Restarts the process after an error that destroys the CUDA context. After such an error, every
 * CUDA call of the process fails. execv() gives the command a new context under the same process
 * number, so that the launcher or the shell still sees one process. */
#include "cli/cli.h"
#include "engine/ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name of an environment variable with the value "PID LADDER". A child process that inherits
 * the variable has another PID, and therefore ignores the value. */
static const char variable[] = "AMPSCALE_LADDER";

void restart_load(struct ladder *l)
{
    const char *text = getenv(variable);
    long pid;
    int used = 0;
    *l = (struct ladder){0};
    if (text && sscanf(text, "%ld %n", &pid, &used) == 1 && used > 0 && pid == (long)getpid())
        ladder_parse(text + used, l);
    unsetenv(variable);
}

enum { COMMAND_MAX = 1 << 20, ARGUMENTS_MAX = 4096 };

/* Returns the original arguments of the process, because the parser may have reordered argv.
 * Returns NULL on failure. The caller frees the first string and the array. */
static char **read_arguments(void)
{
    FILE *f = fopen("/proc/self/cmdline", "r");
    char *text = calloc(1, COMMAND_MAX), **argv = calloc(ARGUMENTS_MAX, sizeof *argv);
    size_t size = f && text ? fread(text, 1, COMMAND_MAX - 1, f) : 0;
    int n = 0;
    if (f)
        fclose(f);
    for (size_t at = 0; argv && at < size && n < ARGUMENTS_MAX - 1; at += strlen(text + at) + 1)
        argv[n++] = text + at;
    if (n > 0 && size < COMMAND_MAX - 1 && n < ARGUMENTS_MAX - 1)
        return argv;
    free(text);
    free(argv);
    return NULL;
}

void restart_process(const struct ladder *l)
{
    char **argv = read_arguments();
    char *falls = ladder_text(l), *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out && falls)
        fprintf(out, "%ld %s", (long)getpid(), falls);
    if (out && fclose(out) == 0 && falls && argv && setenv(variable, text, 1) == 0) {
        fflush(NULL);
        execv("/proc/self/exe", argv);
    }
    free(falls);
    free(text);
    if (argv)
        free(argv[0]);
    free(argv);
}
