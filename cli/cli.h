/* The command line: one file per subcommand, each with its own argp parser.
 *
 * A command gets argv with argv[0] = "ampscale <command>", writes results to stdout and messages to
 * stderr, and returns the process exit code (see status_exit_code). */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/status.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* Prints "ampscale: <message>" on stderr and returns the exit code of `st`. An empty message is not
 * printed: another rank tells it. */
int cli_fail(enum status st);

/* Reads a whole number in [min, max], or a decimal in [min, max], from the value of `flag`;
 * STATUS_USAGE with a message that names flag, value and range otherwise. */
MUST_CHECK enum status cli_int(const char *flag, const char *text, int64_t min, int64_t max,
                               int64_t *out);
MUST_CHECK enum status cli_double(const char *flag, const char *text, double min, double max,
                                  double *out);

/* Runs a command's argp parser with `config` as its state->input, and --help besides. True: go on.
 * False: --help was printed, or one line on stderr says what is wrong; return *exit_code.
 * A parser that refuses a value calls status_fail (or cli_int ...) and returns EINVAL; one that
 * returns ARGP_ERR_UNKNOWN for a positional argument refuses that and all after it. */
MUST_CHECK bool cli_parse(const struct argp *argp, int argc, char **argv, void *config,
                          int *exit_code);

/* A command of a family ("ampscale", "ampscale data"); tables of them end with a NULL name. */
struct cli_command {
    const char *name;
    const char *summary; /* one line, without a full stop */
    int (*run)(int argc, char **argv);
};

/* All of ampscale's. */
extern const struct cli_command cli_commands[];

/* Runs the command that argv[1] names, or prints the family's help, or says in one line that there
 * is none; returns the exit code. argv[0] names the family, and `intro` says what it is for. */
int cli_run(const struct cli_command *commands, const char *intro, int argc, char **argv);

int cmd_accept(int argc, char **argv);
int cmd_amp_report(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_pair(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_study(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_trend(int argc, char **argv);
int cmd_watch(int argc, char **argv);

#endif
