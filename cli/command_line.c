/* Reads a command line with argp. Tables of settings define what each argument sets. Redirects
 * stdout to the file of --output. */
#include "cli/cli.h"

#include "base/array.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/output.h"
#include "base/text_new.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keys of flags without a letter: KEY_ROW plus the index of the row. */
enum { KEY_MDOC = 256, KEY_ROW };

/* A row of a table, and the structure that it fills in. */
struct row {
    const struct setting *setting;
    void *config;
};

/* The state of parsing: the rows of all tables, and their flags in the form that argp needs. */
struct command_line {
    const struct cli_command *command;
    struct row *row; /* (n) */
    int n;
    struct argp_option *option; /* (n_options), ends with {0}; `doc` is malloc'ed */
    int n_options;
    char **spelling; /* (n_spellings) names with underscores; malloc'ed */
    int n_spellings;
    unsigned parse_flags; /* argp's */
    const char *output;   /* --output; NULL: not given */
    bool silent;          /* --help prints nothing */
    bool shown;           /* --help or the manual's options were printed; the command does no
                           * work */
    int refused;          /* getopt's index in argv after getopt refused an argument */
};

static int key_of(const struct command_line *l, int i)
{
    int letter = l->row[i].setting->letter;
    return letter ? letter : KEY_ROW + i;
}

/* Adds an option; takes ownership of `option.doc`. */
static enum status add_option(struct command_line *l, struct argp_option option)
{
    enum status st = array_reserve(&l->option, l->n_options);
    if (st == STATUS_OK)
        l->option[l->n_options++] = option;
    else
        free((char *)option.doc);
    return st;
}

/* Adds another name for the flag of row i. `hidden` is OPTION_HIDDEN, or 0 if --help shows the
 * name. */
static enum status add_alias(struct command_line *l, int i, const char *name, int hidden)
{
    return add_option(l, (struct argp_option){.name = name,
                                              .key = key_of(l, i),
                                              .arg = l->row[i].setting->value,
                                              .flags = OPTION_ALIAS | hidden});
}

/* Adds `name`, spelled with underscores instead of dashes. torchrun and older scripts use this
 * spelling. */
static enum status add_underscored(struct command_line *l, int i, const char *name)
{
    if (!strchr(name, '-'))
        return STATUS_OK;
    TRY(array_reserve(&l->spelling, l->n_spellings));
    TRY(text_new(&l->spelling[l->n_spellings], "%s", name));
    char *copy = l->spelling[l->n_spellings++];
    for (char *c = copy; *c; c++)
        *c = (char)(*c == '-' ? '_' : *c);
    return add_alias(l, i, copy, OPTION_HIDDEN);
}

/* Adds a flag with its other spellings, or the heading of a group. */
static enum status add_flag(struct command_line *l, int i)
{
    char *help;
    const struct setting *s = l->row[i].setting;
    if (!s->help)
        return STATUS_OK;
    if (s->fallback)
        TRY(text_new(&help, "%s (default %s)", s->help, s->fallback));
    else
        TRY(text_new(&help, "%s", s->help));
    TRY(add_option(l, (struct argp_option){.name = s->flag,
                                           .key = s->flag ? key_of(l, i) : 0,
                                           .arg = s->flag ? s->value : NULL,
                                           .flags = s->traits & SETTING_HIDDEN ? OPTION_HIDDEN : 0,
                                           .doc = help,
                                           .group = s->group}));
    for (int a = 0; s->aliases[a]; a++)
        TRY(add_alias(l, i, s->aliases[a], 0));
    TRY(s->flag ? add_underscored(l, i, s->flag) : STATUS_OK);
    for (int a = 0; s->aliases[a]; a++)
        TRY(add_underscored(l, i, s->aliases[a]));
    return STATUS_OK;
}

static enum status add_table(struct command_line *l, const struct setting *table, void *config)
{
    TRY(settings_default(table, config));
    for (const struct setting *s = table; !setting_is_end(s); s++) {
        TRY(array_reserve(&l->row, l->n));
        l->row[l->n++] = (struct row){s, config};
        TRY(add_flag(l, l->n - 1));
        if (s->traits & SETTING_REST)
            l->parse_flags |= ARGP_IN_ORDER;
    }
    return STATUS_OK;
}

#define SETTINGS_OF struct command_line
/* Without its letter for a command in which -o has another meaning. */
static struct setting output_settings[] = {
    {"output", 'o', "FILE", NULL, "Write the results to FILE instead of standard output",
     AS_TEXT(output)},
    {0},
};

static bool has_letter(const struct command_line *l, int letter)
{
    for (int i = 0; i < l->n; i++)
        if (l->row[i].setting->letter == letter)
            return true;
    return false;
}

static enum status add_usage(struct command_line *l, const struct cli_command *c)
{
    char *help;
    for (int i = 0; i < CLI_PARTS_MAX && c->part[i].table; i++)
        TRY(add_table(l, c->part[i].table, (char *)c->config + c->part[i].offset));
    output_settings[0].letter = has_letter(l, 'o') ? 0 : 'o';
    if (c->prints)
        TRY(add_table(l, output_settings, l));
    TRY(text_new(&help, "print this and exit"));
    TRY(add_option(l, (struct argp_option){.name = "help", .key = 'h', .doc = help, .group = -1}));
    TRY(add_option(l, (struct argp_option){
                          .name = "mdoc", .key = KEY_MDOC, .flags = OPTION_HIDDEN, .group = -1}));
    return add_option(l, (struct argp_option){0});
}

static void command_line_free(struct command_line *l)
{
    for (int i = 0; i < l->n_options; i++)
        free((char *)l->option[i].doc);
    for (int i = 0; i < l->n_spellings; i++)
        free(l->spelling[i]);
    free(l->spelling);
    free(l->option);
    free(l->row);
}

/* Gives a positional argument to the first row that can take another argument. */
static error_t take_argument(const struct command_line *l, char *arg, struct argp_state *state)
{
    for (int i = 0; i < l->n; i++) {
        const struct setting *s = l->row[i].setting;
        char **member = setting_member(s, l->row[i].config);
        int *count = (int *)(void *)((char *)l->row[i].config + s->count);
        if (!setting_is_argument(s) || (s->type == SETTING_TEXT && *member))
            continue;
        if (s->type != SETTING_ARGUMENTS)
            return setting_take(s, arg, l->row[i].config) == STATUS_OK ? 0 : EINVAL;
        if ((*count)++ == 0)
            *(char ***)(void *)member = &state->argv[state->next - 1];
        if (s->traits & SETTING_REST) {
            *count = state->argc - state->next + 1;
            state->next = state->argc;
        }
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct command_line *l = state->input;
    switch (key) {
    case 'h':
        l->shown = l->silent || help_print(l->command, state->name, l->option, stdout) == STATUS_OK;
        return ECANCELED;
    case KEY_MDOC:
        l->shown =
            l->silent || manual_print(l->command, state->name, l->option, stdout) == STATUS_OK;
        return ECANCELED;
    case ARGP_KEY_ARG:
        return take_argument(l, arg, state);
    case ARGP_KEY_ERROR:
        l->refused = state->next;
        return 0;
    default:
        for (int i = 0; i < l->n; i++)
            if (l->row[i].setting->flag && key_of(l, i) == key)
                return setting_take(l->row[i].setting, arg, l->row[i].config) == STATUS_OK ? 0
                                                                                           : EINVAL;
        return ARGP_ERR_UNKNOWN;
    }
}

/* Returns the option that the argument names ("--epochs", "--epochs=9", "-b"), or NULL. */
static const struct argp_option *find_option(const struct command_line *l, const char *arg)
{
    for (const struct argp_option *o = l->option; o < l->option + l->n_options; o++) {
        size_t n = strcspn(arg, "=");
        bool is_long = o->name && n == strlen(o->name) + 2 && strncmp(arg, "--", 2) == 0 &&
                       strncmp(arg + 2, o->name, n - 2) == 0;
        if (is_long || (o->name && arg[0] == '-' && arg[1] == o->key && arg[2] == '\0'))
            return o;
    }
    return NULL;
}

/* Reports a flag that the command does not have. The message names the flag of this command that
 * replaces it, or the flag with the most similar name. */
static enum status say_unknown(const struct command_line *l, const char *arg, const char *command)
{
    char meant[96];
    struct nearest near = nearest_to(arg);
    const char *here = foreign_flag(command, near.text);
    if (here)
        return status_fail(STATUS_USAGE, "unknown flag '%s': %s; '%s --help' lists the flags", arg,
                           here, command);
    for (const struct argp_option *o = l->option; o < l->option + l->n_options; o++)
        if (o->name && !(o->flags & OPTION_HIDDEN))
            nearest_offer(&near, o->name, strlen(o->name));
    nearest_say(&near, "--", meant, sizeof meant);
    return status_fail(STATUS_USAGE, "unknown flag '%s'%s%s '%s --help' lists them", arg, meant,
                       *meant ? "" : ";", command);
}

/* Reports the argument that getopt refused. It is the argument before index `refused`, or the
 * argument at that index if a short flag in a group was refused. */
static enum status say_refused(const struct command_line *l, char **argv)
{
    const char *arg = argv[l->refused - 1];
    const struct argp_option *o = find_option(l, arg);
    if (o && o->arg)
        return status_fail(STATUS_USAGE, "'%s' needs a value; see '%s --help'", arg, argv[0]);
    if (o && strchr(arg, '='))
        return status_fail(STATUS_USAGE, "'%s': --%s takes no value", arg, o->name);
    if (o || arg[0] != '-')
        arg = argv[l->refused]; /* the refused flag is in a group of short flags after one dash */
    return say_unknown(l, arg, argv[0]);
}

/* Parses the command line. argp's own --help and messages are turned off, because argp prints two
 * lines for an unknown flag and ends the process itself. */
static enum status read_line(struct command_line *l, const struct cli_command *c, int argc,
                             char **argv)
{
    const struct argp argp = {
        .options = l->option, .parser = parse, .args_doc = c->arguments, .doc = c->doc};
    int end = argc;
    enum status st = status_fail(STATUS_OK, "%s", "");
    error_t err =
        argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | l->parse_flags, &end, l);
    if (l->shown || (err == 0 && end == argc))
        return st;
    if (err == ENOMEM)
        return status_fail(STATUS_OOM, "out of memory");
    if (err == 0)
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see '%s --help'", argv[end],
                           argv[0]);
    return *status_message() ? STATUS_USAGE /* reported by setting_take */ : say_refused(l, argv);
}

static enum status command_line_read(struct command_line *l, int argc, char **argv)
{
    TRY(add_usage(l, l->command));
    return read_line(l, l->command, argc, argv);
}

enum status cli_parse(const struct cli_command *c, int argc, char **argv)
{
    struct command_line line = {.command = c, .silent = true};
    enum status st = command_line_read(&line, argc, argv);
    if (st == STATUS_OK && line.shown)
        st = status_fail(STATUS_USAGE, "'--help' only prints the help");
    command_line_free(&line);
    return st;
}

/* The file that stdout is redirected to; it replaces that of --output when the command ends. */
static struct atomic_file output;

enum status output_close(int error)
{
    struct stat s;
    error = error ? error : stream_flush(stdout);
    if (error)
        return output.stream
                   ? atomic_file_fail(&output, error)
                   : status_fail(STATUS_IO, "cannot write the results to standard output: %s",
                                 strerror(error));
    if (output.stream && fstat(fileno(output.stream), &s) != 0)
        return atomic_file_fail(&output, errno);
    if (output.stream && s.st_size > 0)
        return atomic_file_commit(&output);
    atomic_file_abandon(&output);
    return STATUS_OK;
}

bool cli_read(const struct cli_command *c, int argc, char **argv, int *exit_code)
{
    struct command_line line = {.command = c};
    enum status st = command_line_read(&line, argc, argv);
    bool redirect = st == STATUS_OK && line.output && !line.shown;
    if (redirect)
        st = output_file_open(&output, line.output);
    if (redirect && st == STATUS_OK && dup2(fileno(output.stream), STDOUT_FILENO) < 0)
        st = atomic_file_fail(&output, errno);
    *exit_code = cli_end(st);
    if (st == STATUS_OK && !line.shown)
        output_begin(c->output);
    command_line_free(&line);
    return st == STATUS_OK && !line.shown;
}
