/* The entry: the list of commands, and nothing else. */
#include "cli/cli.h"
#include "cli/spin.h"
#include "config.h"

#include <stdio.h>
#include <string.h>

const struct cli_command cli_commands[] = {
    {"accept", "check hardware against a specification", cmd_accept},
    {"amp-report", "count gradients that fp16 would lose, and recommend a loss scale",
     cmd_amp_report},
    {"bench", "time the parts that training is made of", cmd_bench},
    {"compare", "compare new runs with those of a base", cmd_compare},
    {"data", "make a synthetic data set, or look for damage in any", cmd_data},
    {"export", "write records for TensorBoard, MLPerf, Prometheus and others", cmd_export},
    {"info", "show the build, the devices, the networks", cmd_info},
    {"launch", "run a command as many processes, on many hosts", cmd_launch},
    {"pair", "retest failed nodes, paired with good ones", cmd_pair},
    {"plot", "draw runs from their records", cmd_plot},
    {"predict", "forecast training on more ranks", cmd_predict},
    {"report", "write tables, figures and findings from records", cmd_report},
    {"selftest", "check this installation against known values", cmd_selftest},
    {"study", "run a matrix of trainings, and say how they scale", cmd_study},
    {"train", "train a network, or validate it", cmd_train},
    {"trend", "show when results of a history changed for good", cmd_trend},
    {"watch", "show a run or a study in progress", cmd_watch},
    {0},
};

/* The exit code of a command that ended with `code`: results that nobody could read are none. */
static int output_check(int code)
{
    if (code != 0 || (fflush(stdout) == 0 && !ferror(stdout)))
        return code;
    fputs("ampscale: cannot write the results to standard output\n", stderr);
    return status_exit_code(STATUS_IO);
}

static int run(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        puts("ampscale " AMPSCALE_VERSION);
        return 0;
    }
    return cli_run(cli_commands,
                   "Trains ImageNet-style networks, measures, judges and draws.\n"
                   "'ampscale --version' names the build.",
                   argc, argv);
}

int main(int argc, char **argv)
{
    char name[] = "ampscale"; /* what messages call it, wherever it was started from */
    if (argc == 0)
        return status_exit_code(STATUS_USAGE);
    spin_limit(argv);
    argv[0] = name;
    return output_check(run(argc, argv));
}
