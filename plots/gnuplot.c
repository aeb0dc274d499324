/* gnuplot as a child process. */
#include "plots/gnuplot.h"

#include "results/text.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* What gnuplot said on stderr: the last bytes of it. */
struct complaint {
    char text[2048];
    size_t size;
};

/* Reads to the end, keeping the tail, so that the child never waits for us. */
static void complaint_read(struct complaint *c, int fd)
{
    char chunk[512];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) != 0) {
        if (got < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        size_t add = (size_t)got, room = sizeof c->text - 1;
        size_t keep = c->size + add > room ? room - add : c->size;
        memmove(c->text, c->text + c->size - keep, keep);
        memcpy(c->text + keep, chunk, add);
        c->size = keep + add;
    }
    c->text[c->size] = '\0';
}

/* The last line that is not blank: where gnuplot names the problem. */
static void complaint_last_line(struct complaint *c, char *out, size_t size)
{
    char *end = c->text + c->size;
    while (end > c->text && (end[-1] == '\n' || end[-1] == ' '))
        *--end = '\0';
    char *newline = strrchr(c->text, '\n');
    text_clean(out, size, newline ? newline + 1 : c->text);
}

static enum status spawn(const char *dir, const char *script, int error_fd, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return status_fail(STATUS_OOM, "no memory to start gnuplot");
    char *argv[] = {
        "gnuplot", "--default-settings", "-e", "draft='" GNUPLOT_DRAFT "'", (char *)script, NULL};
    int err = posix_spawn_file_actions_addchdir_np(&actions, dir);
    err = err ? err : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    err = err ? err : posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    err = err ? err : posix_spawn_file_actions_adddup2(&actions, error_fd, 2);
    err = err ? err : posix_spawnp(pid, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err == ENOENT)
        return status_fail(STATUS_UNSUPPORTED,
                           "gnuplot was not found: install gnuplot-nox (apt-get install "
                           "gnuplot-nox) and draw again; scripts and tables are in '%s'",
                           dir);
    if (err)
        return status_fail(STATUS_LIBRARY, "cannot start gnuplot: %s", strerror(err));
    return STATUS_OK;
}

enum status gnuplot_run(const char *dir, const char *script)
{
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return status_fail(STATUS_IO, "cannot make a pipe for gnuplot: %s", strerror(errno));
    pid_t pid;
    enum status st = spawn(dir, script, pipe_fd[1], &pid);
    close(pipe_fd[1]);
    struct complaint complaint = {.size = 0};
    if (st == STATUS_OK)
        complaint_read(&complaint, pipe_fd[0]);
    close(pipe_fd[0]);
    TRY(st);

    int code;
    pid_t ended;
    do
        ended = waitpid(pid, &code, 0);
    while (ended < 0 && errno == EINTR);
    if (ended == pid && WIFEXITED(code) && WEXITSTATUS(code) == 0)
        return STATUS_OK;
    char line[512];
    complaint_last_line(&complaint, line, sizeof line);
    return status_fail(STATUS_LIBRARY, "gnuplot failed on '%s/%s': %s", dir, script,
                       line[0] ? line : "it said nothing");
}

enum status gnuplot_check_picture(const char *draft, const char *path)
{
    static const char *const ends[] = {"</svg>", "IEND"};
    char tail[17] = "";
    FILE *in = fopen(draft, "rb");
    if (!in)
        return status_fail(STATUS_IO, "gnuplot left no '%s': %s", path, strerror(errno));
    bool whole = false;
    if (fseek(in, -16, SEEK_END) == 0 && fread(tail, 1, 16, in) == 16)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            whole = whole || memmem(tail, 16, ends[i], strlen(ends[i])) != NULL;
    fclose(in);
    if (!whole)
        return status_fail(STATUS_IO, "gnuplot left '%s' incomplete; is the disk full?", path);
    return STATUS_OK;
}
