/* The entry point: lists the commands, and runs one. */
#include "base/crash.h"
#include "base/json.h"
#include "base/output.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "results/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cli_command *const cli_commands[] = {
    &cmd_accept, &cmd_amp_report, &cmd_bench, &cmd_compare, &cmd_data,   &cmd_export, &cmd_info,
    &cmd_launch, &cmd_pair,       &cmd_plot,  &cmd_predict, &cmd_record, &cmd_report, &cmd_selftest,
    &cmd_study,  &cmd_train,      &cmd_trend, &cmd_watch,   NULL};

/* Returns the exit code of a command that ended with `code`. If the output could not be written,
 * that is an error, which takes the place of a verdict. */
static int output_check(int code)
{
    int error = output_end();
    if (error == EINTR) /* a message could not be read either */
        return stop_signal() ? 128 + stop_signal() : code;
    int failed = cli_end(output_close(error));
    return failed == 0 || code == status_exit_code(STATUS_USAGE) || code > 128 ? code : failed;
}

static const struct cli_command ampscale = {
    .doc = "Trains ImageNet-style networks, measures them, judges the results and draws "
           "figures.\n'ampscale --version' prints the version.",
    .example = {{"Make a small data set, as scripts/quickstart does",
                 "ampscale data synth --out data/synth10 --size 96"},
                {"Train ResNet-18 on it: minutes on two cores",
                 "ampscale train data/synth10 -a resnet18 --image-size 64 -b 64 --epochs 12 --lr "
                 "0.02 --out runs/first"},
                {"Draw the run, in runs/first/plots", "ampscale plot runs/first"}},
    .commands = cli_commands};

static int run(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        printf("ampscale %s\n", environment_version());
        return 0;
    }
    return cli_run(&ampscale, argc, argv);
}

/* Restarts the program with a shorter spin time for the threads of GNU's OpenMP, which reads the
 * environment before main(): an idle thread spins for milliseconds and takes time from the loader's
 * workers. Returns if the restart fails, or if the user or an earlier restart has set the time. */
static void spin_limit(char **argv)
{
    static const char *const said[] = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (getenv(said[i]))
            return;
    /* 5000 spins take tens of microseconds, which is longer than the gap between two operations. */
    if (setenv("GOMP_SPINCOUNT", "5000", 1) == 0)
        execv("/proc/self/exe", argv);
}

/* Opens the standard streams that are closed, so that no file gets their numbers and then the
 * output. Writes to them fail, as to a closed stream. */
static void streams_open(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
        ;
    close(fd);
}

int main(int argc, char **argv)
{
    streams_open();
    char name[] = "ampscale"; /* messages use this name, not the path of the program */
    if (argc == 0)
        return status_exit_code(STATUS_USAGE);
    if (argc < 2 ||
        strcmp(argv[1], cmd_record.name) != 0) /* its command gets the user's environment */
        spin_limit(argv);
    crash_report();
    json_memory_ends();
    /* The signals that the parent ignores or blocks are inherited. */
    sigprocmask(SIG_SETMASK, &(sigset_t){{0}}, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit then fails, as on a full disk */
    output_begin(OUTPUT_ENDS);
    argv[0] = name;
    return output_check(run(argc, argv));
}
