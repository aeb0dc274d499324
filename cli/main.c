/* The entry: picks the subcommand and nothing else. */
#include "cli/cli.h"
#include "config.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"info", "show the build, the devices, the networks", cmd_info},
    {"selftest", "check this installation against known values", cmd_selftest},
    {"train", "train a network, or validate it", cmd_train},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *out)
{
    fputs("usage: ampscale <command> [options]\n\n"
          "Trains ImageNet-style networks, measures, judges and draws.\n\n",
          out);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs(
        "\n'ampscale <command> --help' explains a command; 'ampscale --version' names the build.\n",
        out);
}

/* The exit code of a command that ended with `code`: results that nobody could read are none. */
static int output_check(int code)
{
    if (code != 0 || (fflush(stdout) == 0 && !ferror(stdout)))
        return code;
    fputs("ampscale: cannot write the results to standard output\n", stderr);
    return status_exit_code(STATUS_IO);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("ampscale " AMPSCALE_VERSION);
        return 0;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        char title[64];
        snprintf(title, sizeof title, "ampscale %s", name);
        argv[1] = title;
        return output_check(commands[i].run(argc - 1, argv + 1));
    }
    fprintf(stderr, "ampscale: no command is called '%s'; 'ampscale --help' lists them\n", name);
    return 2;
}
