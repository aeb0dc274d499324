/* What the subcommands share. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_fail(enum status st)
{
    if (*status_message()) /* else another rank tells it */
        fprintf(stderr, "ampscale: %s\n", status_message());
    return status_exit_code(st);
}

enum status cli_int(const char *flag, const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || v < min || v > max)
        return status_fail(STATUS_USAGE,
                           "%s '%s': give a whole number from %" PRId64 " to %" PRId64, flag, text,
                           min, max);
    *out = v;
    return STATUS_OK;
}

enum status cli_double(const char *flag, const char *text, double min, double max, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !isfinite(v) || v < min || v > max)
        return status_fail(STATUS_USAGE, "%s '%s': give a number from %g to %g", flag, text, min,
                           max);
    *out = v;
    return STATUS_OK;
}

/* One parse in progress: the command's own configuration, and what the shared flags found. */
struct cli_parse {
    void *config;
    bool help;
    int refused; /* index past the argument that getopt refused */
};

static error_t parse_shared(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct cli_parse *p = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = p->config;
        return 0;
    case 'h':
        p->help = true;
        /* Without two lines on flags of two forms in every help; a user's own format stays. */
        setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
        argp_help(state->root_argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
                  state->name);
        return ECANCELED;
    case ARGP_KEY_ERROR:
        p->refused = state->next;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The option of `argp` that an argument names exactly ("--epochs", "--epochs=9", "-b"), or NULL. */
static const struct argp_option *find_option(const struct argp *argp, const char *arg)
{
    for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
        size_t n = strcspn(arg, "=");
        bool is_long = o->name && n == strlen(o->name) + 2 && strncmp(arg, "--", 2) == 0 &&
                       strncmp(arg + 2, o->name, n - 2) == 0;
        bool is_short = arg[0] == '-' && arg[1] == o->key && arg[2] == '\0';
        if (is_long || is_short)
            return o;
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++) {
        const struct argp_option *o = find_option(c->argp, arg);
        if (o)
            return o;
    }
    return NULL;
}

/* Says what getopt refused: it had taken the arguments before `refused`. */
static enum status say_refused(const struct argp *argp, char **argv, int refused)
{
    const char *arg = argv[refused - 1];
    const struct argp_option *o = find_option(argp, arg);
    if (o && o->arg)
        return status_fail(STATUS_USAGE, "'%s' needs a value; see '%s --help'", arg, argv[0]);
    if (o && strchr(arg, '='))
        return status_fail(STATUS_USAGE, "'%s': --%s takes no value", arg, o->name);
    if (o || arg[0] != '-')
        arg = argv[refused]; /* in the midst of short flags behind one dash */
    return status_fail(STATUS_USAGE, "unknown flag '%s'; '%s --help' lists them", arg, argv[0]);
}

bool cli_parse(const struct argp *argp, int argc, char **argv, void *config, int *exit_code)
{
    /* argp's own --help and messages are turned off: an unknown flag takes it two lines, and it
     * leaves the process on its own. */
    const struct argp_option options[] = {
        {.name = "help", .key = 'h', .doc = "print this and exit", .group = -1},
        {0},
    };
    const struct argp_child children[] = {{.argp = argp}, {0}};
    const struct argp root = {.options = options, .parser = parse_shared, .children = children};
    struct cli_parse p = {.config = config};
    int end = argc;
    enum status st = status_fail(STATUS_OK, "%s", "");
    error_t err = argp_parse(&root, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, &end, &p);
    if (err == 0 && end == argc)
        return true;
    if (p.help) {
        *exit_code = 0;
        return false;
    }
    if (err == ENOMEM)
        st = status_fail(STATUS_OOM, "out of memory");
    else if (err == 0)
        st = status_fail(STATUS_USAGE, "unexpected argument '%s'; see '%s --help'", argv[end],
                         argv[0]);
    else if (*status_message() != '\0')
        st = STATUS_USAGE; /* the command's parser said what is wrong */
    else
        st = say_refused(argp, argv, p.refused);
    *exit_code = cli_fail(st);
    return false;
}

static void print_family(FILE *out, const struct cli_command *commands, const char *intro,
                         const char *name)
{
    fprintf(out, "usage: %s <command> [options]\n\n%s\n\n", name, intro);
    for (const struct cli_command *c = commands; c->name; c++)
        fprintf(out, "  %-12s %s\n", c->name, c->summary);
    fprintf(out, "\n'%s <command> --help' explains a command.\n", name);
}

int cli_run(const struct cli_command *commands, const char *intro, int argc, char **argv)
{
    if (argc < 2) {
        print_family(stderr, commands, intro, argv[0]);
        return status_exit_code(STATUS_USAGE);
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_family(stdout, commands, intro, argv[0]);
        return 0;
    }
    for (const struct cli_command *c = commands; c->name; c++) {
        if (strcmp(name, c->name) != 0)
            continue;
        char title[64];
        snprintf(title, sizeof title, "%s %s", argv[0], name);
        argv[1] = title;
        return c->run(argc - 1, argv + 1);
    }
    return cli_fail(
        status_fail(STATUS_USAGE, "unknown command '%s'; '%s --help' lists them", name, argv[0]));
}
