/* A launcher whose ranks run a program that the test chooses.
 *
 *     job MPIRUN LOG_DIR PROGRAM    two ranks, which run PROGRAM
 *     job launch --as-rank ...      a rank supervisor; mpirun starts it */
#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *command[] = {"info", NULL};

static int supervise(int argc, char **argv)
{
    struct launch_config c = {.program = getenv("JOB_PROGRAM"), .argc = 1, .argv = command};
    for (int i = 3; i + 1 < argc; i++)
        if (strcmp(argv[i], "--log-dir") == 0)
            c.log_dir = argv[i + 1];
    return c.program && c.log_dir ? launch_supervise(&c) : 2;
}

int main(int argc, char **argv)
{
    char self[4096];
    int exit_code = 0;
    if (argc > 3 && strcmp(argv[1], "launch") == 0)
        return supervise(argc, argv);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (argc != 4 || n < 0 || setenv("JOB_PROGRAM", argv[3], 1) != 0)
        return 2;
    self[n] = '\0';
    struct launch_config c = {.program = self,
                              .nproc = 2,
                              .log_dir = argv[2],
                              .mpirun = argv[1],
                              .grace = 1,
                              .argc = 1,
                              .argv = command};
    enum status st = launch_run(&c, &exit_code);
    if (st == STATUS_OK)
        return exit_code;
    fprintf(stderr, "ampscale: %s\n", status_message());
    return status_exit_code(st);
}
