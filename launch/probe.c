/* Asking mpirun who made it. */
#include "launch/command.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Reads until the end or the time limit; what does not fit is read and dropped. False: too late. */
static bool read_all(int fd, char *text, size_t size)
{
    const uint64_t end = clock_ns() + UINT64_C(10000000000);
    size_t n = 0;
    text[0] = '\0';
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char bytes[512];
        uint64_t now = clock_ns();
        if (now >= end)
            return false;
        int ready = poll(&p, 1, (int)((end - now) / 1000000) + 1);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready <= 0)
            continue;
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got <= 0)
            return true;
        size_t room = size - 1 - n, take = (size_t)got < room ? (size_t)got : room;
        memcpy(text + n, bytes, take);
        n += take;
        text[n] = '\0';
    }
}

/* Starts `mpirun --version` with its output in `fd`. */
static int start(const char *mpirun, int fd, pid_t *pid)
{
    char *argv[] = {(char *)mpirun, "--version", NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, fd, 1);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, fd, 2);
    if (!error)
        error = posix_spawnp(pid, mpirun, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

enum status launch_mpi_probe(const char *mpirun, enum mpi_kind *kind)
{
    char text[4096];
    int fd[2];
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return status_fail(STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    int error = start(mpirun, fd[1], &pid);
    close(fd[1]);
    if (error) {
        close(fd[0]);
        return status_fail(STATUS_IO,
                           "cannot run '%s': %s; install Open MPI or MPICH, or name one by "
                           "--mpirun",
                           mpirun, strerror(error));
    }
    bool in_time = read_all(fd[0], text, sizeof text);
    close(fd[0]);
    if (!in_time)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (!in_time)
        return status_fail(STATUS_IO, "'%s --version' does not end", mpirun);
    return launch_mpi_kind(mpirun, text, kind);
}
