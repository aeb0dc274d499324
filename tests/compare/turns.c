#include "tests/compare/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* Waits until the program has ended or, with WUNTRACED in `options`, stopped. */
static enum status wait_for(struct turn *t, int options)
{
    int how;
    while (waitpid(t->pid, &how, options) < 0)
        if (errno != EINTR)
            return status_fail(STATUS_IO, "cannot wait for process %d: %s", (int)t->pid,
                               strerror(errno));
    t->ended = !WIFSTOPPED(how);
    if (t->ended && how != 0)
        return status_fail(STATUS_DATA, "a run ended with wait status %d", how);
    return STATUS_OK;
}

enum status turn_begin(char *const *argv, struct turn *t)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(&t->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return status_fail(STATUS_IO, "cannot run '%s': %s", argv[0], strerror(error));
    t->ended = false;
    kill(t->pid, SIGSTOP);
    return wait_for(t, WUNTRACED);
}

static enum status take_one(struct turn *t, int64_t slice)
{
    struct timespec left = {.tv_sec = slice / 1000, .tv_nsec = slice % 1000 * 1000000};
    kill(t->pid, SIGCONT);
    if (slice == 0)
        return wait_for(t, 0);
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
    /* a process that has ended stays a zombie, so its number is not reused */
    kill(t->pid, SIGSTOP);
    return wait_for(t, WUNTRACED);
}

enum status turns_take(struct turn *t, int n, int64_t slice)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < n; i++) {
            if (t[i].ended)
                continue;
            TRY(take_one(&t[i], slice));
            more = more || !t[i].ended;
        }
    }
    return STATUS_OK;
}

void turns_end(struct turn *t, int n)
{
    for (int i = 0; i < n; i++) {
        if (t[i].ended)
            continue;
        kill(t[i].pid, SIGKILL);
        while (waitpid(t[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
        t[i].ended = true;
    }
}
