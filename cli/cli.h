/* The command line. Each subcommand has a file of its own, with its tables of settings. A command
 * writes results to stdout and messages to stderr. */
#pragma once

#include "base/output.h"
#include "base/setting.h"

#include <stdbool.h>
#include <stdio.h>

struct bench_options;

/* An example of a command or a family, for --help and the manual page. */
struct cli_example {
    const char *does; /* what the line is for, without a full stop; NULL: no more examples */
    const char *line; /* a line of a shell. It runs as it stands after the examples of `ampscale
                       * --help` and of commands before it, or `does` says what it needs.
                       * tests/cli/test_examples.sh runs it */
};

/* A guide: the text of a page of docs/howto. cli/CMakeLists.txt makes the table of all guides. */
struct guide {
    const char *name; /* the name of the page's file, without ".md"; NULL: no more guides */
    const char *text; /* Markdown; the first line is "# TITLE" */
};
extern const struct guide guides[];

/* A command or a family of commands. Tables describe the flags and the arguments of a command. */
enum { CLI_PARTS_MAX = 5, CLI_EXAMPLES_MAX = 3 };
struct cli_command {
    const char *name;
    const char *summary;   /* one line, without a full stop */
    const char *arguments; /* the positional arguments, as help shows them: "RUN...", a line for
                            * each form; NULL: none */
    const char *doc; /* purpose of the command, then \v and its exit status, which --help shows
                      * below the flags */
    struct cli_example example[CLI_EXAMPLES_MAX + 1];
    struct {
        const struct setting *table;
        size_t offset; /* offset in `config` of the structure that the table fills in */
    } part[CLI_PARTS_MAX];
    void *config; /* configuration; a member whose row has no default must be initialised before the
                   * command line is read */
    enum output_rule output; /* for a reader that is slow or has gone */
    bool prints; /* whether the command prints results on stdout; --output FILE then writes them to
                  * a file instead */
    size_t exit_code; /* offset in `config` of an int, the exit code of success; 0: it is 0 */
    /* A command has exactly one of the following members: */
    const struct cli_command *const *commands; /* the commands of a family; ends with NULL */
    enum status (*work)(void *config);
    enum status (*bench)(const struct bench_options *config);
    /* A function that reads the command line itself and returns the exit code. argv[0] is
     * "ampscale <command>". */
    int (*run)(const struct cli_command *c, int argc, char **argv);
};

/* All commands of ampscale. */
extern const struct cli_command *const cli_commands[];

/* Sets the configuration to the defaults of the tables, then to the values of the command line; a
 * member whose row has no default keeps its value. Returns true if the caller should start the
 * command's work. Returns false if --help was printed, or if an error was reported in one line on
 * stderr; the caller then returns *exit_code. */
MUST_CHECK bool cli_read(const struct cli_command *c, int argc, char **argv, int *exit_code);

/* Reads a command line as cli_read does, without reporting an error and without --output.
 * STATUS_USAGE if --help was printed. */
MUST_CHECK enum status cli_parse(const struct cli_command *c, int argc, char **argv);

/* Runs a command. For a family, runs the command that argv[1] names, prints the help of the family,
 * or reports an unknown command in one line. Returns the exit code. argv[0] is the full name of the
 * command. */
int cli_run(const struct cli_command *c, int argc, char **argv);

/* Rows of flags that have the same meaning in every command. */
#define JSON_ROW(member)                                                                           \
    {                                                                                              \
        "json", 0, NULL, NULL, "Print one JSON object", AS_SWITCH(member)                          \
    }
#define QUIET_ROW(member)                                                                          \
    {                                                                                              \
        "quiet", 'q', NULL, NULL, "Print no progress on stderr", AS_SWITCH(member)                 \
    }

/* Completes the output of the command. Flushes stdout. If something was printed, the output
 * replaces the file of --output, even if the command failed. STATUS_IO if the
 * output cannot be written; `error`: the errno of an earlier attempt, or 0. */
MUST_CHECK enum status output_close(int error);

/* Prints "ampscale: <message>" on stderr for a failure and returns the exit code of `st`. Prints
 * nothing if the message is empty, because then another rank, or a report on stdout, has already
 * reported the failure. */
int cli_end(enum status st);

/* `name` is a flag of another program, such as PyTorch, Horovod or Lightning, without dashes.
 * Returns a text that says which flag of `command` ("ampscale train") replaces this flag, or NULL
 * if this flag is not known. */
const char *foreign_flag(const char *command, const char *name);

struct argp_option;

/* Prints the help of command `c`, whose full name is `name`: usage, description, options, examples
 * and exit status. */
MUST_CHECK enum status help_print(const struct cli_command *c, const char *name,
                                  const struct argp_option *options, FILE *out);

/* Prints the examples of a command or a family. */
void help_print_examples(const struct cli_command *c, FILE *out);

/* Prints what help_print prints, as a subsection of a manual page in mdoc. The options are a list,
 * ordered by group, with the spellings and the help of each. docs/man/make-page inserts the
 * subsection into the manual page. */
MUST_CHECK enum status manual_print(const struct cli_command *c, const char *name,
                                    const struct argp_option *options, FILE *out);

/* Returns the guide with that name, or NULL if there is none. */
const struct guide *guide_find(const char *name);

extern const struct cli_command cmd_accept, cmd_amp_report, cmd_bench, cmd_compare, cmd_data,
    cmd_export, cmd_info, cmd_launch, cmd_pair, cmd_plot, cmd_predict, cmd_record, cmd_report,
    cmd_selftest, cmd_study, cmd_train, cmd_trend, cmd_watch;
