/* Runs commands and families of commands, and prints guides: pages of docs/howto, which are
 * compiled into the program. */
#include "cli/cli.h"

#include "base/nearest.h"

#include <string.h>

int cli_end(enum status st)
{
    if (st != STATUS_OK && *status_message())
        fprintf(stderr, "ampscale: %s\n", status_message());
    return status_exit_code(st);
}

const struct guide *guide_find(const char *name)
{
    for (const struct guide *g = guides; g->name; g++)
        if (strcmp(g->name, name) == 0)
            return g;
    return NULL;
}

/* Prints the names and titles of all guides. */
static void guide_list(FILE *out)
{
    fputs("\nGuides, which 'ampscale help NAME' prints:\n", out);
    for (const struct guide *g = guides; g->name; g++) {
        const char *title = g->text + strspn(g->text, "# ");
        fprintf(out, "    %-12s %.*s\n", g->name, (int)strcspn(title, "\n"), title);
    }
}

/* Returns the end of the Markdown link that begins at `at`, or NULL if no link begins there.
 * `label` is the length of the link's text, and `target` its address, which `*length` bytes have.
 */
static const char *link_end(const char *at, size_t *label, const char **target, size_t *length)
{
    if (*at != '[')
        return NULL;
    *label = strcspn(at + 1, "[]");
    if (*label == 0 || strncmp(at + 1 + *label, "](", 2) != 0)
        return NULL;
    *target = at + *label + 3;
    *length = strcspn(*target, ")\n");
    return (*target)[*length] == ')' ? *target + *length + 1 : NULL;
}

/* Prints a guide as plain text: links become their text, and the address if it is on the web. */
static void guide_print(const struct guide *g, FILE *out)
{
    bool code = false; /* links are not searched between lines of "```" */
    for (const char *at = g->text; *at; at++) {
        size_t label, length;
        const char *target, *end;
        if (strncmp(at, "```", 3) == 0 && (at == g->text || at[-1] == '\n'))
            code = !code;
        if (code || !(end = link_end(at, &label, &target, &length))) {
            fputc(*at, out);
            continue;
        }
        fprintf(out, "%.*s", (int)label, at + 1);
        if (strncmp(target, "http", 4) == 0)
            fprintf(out, " (%.*s)", (int)length, target);
        at = end - 1;
    }
}

static void print_family(FILE *out, const struct cli_command *family, const char *name)
{
    fprintf(out, "usage: %s <command> [options]\n\n%s\n\n", name, family->doc);
    for (const struct cli_command *const *c = family->commands; *c; c++)
        fprintf(out, "  %-12s %s\n", (*c)->name, (*c)->summary);
    if (family->commands == cli_commands)
        guide_list(out);
    fputc('\n', out);
    help_print_examples(family, out);
    fprintf(out, "\n'%s <command> --help' explains a command.\n", name);
}

/* Reports an unknown name of a command, or of a command or guide if `topics` has the guides. */
static enum status fail_unknown(const struct cli_command *family, const char *title,
                                const char *name, const struct guide *topics)
{
    char meant[96];
    struct nearest near = nearest_to(name);
    for (const struct cli_command *const *c = family->commands; *c; c++)
        nearest_offer(&near, (*c)->name, strlen((*c)->name));
    for (const struct guide *g = topics; g && g->name; g++)
        nearest_offer(&near, g->name, strlen(g->name));
    nearest_say(&near, "", meant, sizeof meant);
    return status_fail(STATUS_USAGE, "unknown command%s '%s'%s%s '%s --help' lists them",
                       topics ? " or guide" : "", name, meant, *meant ? "" : ";", title);
}

static const struct cli_command *find_command(const struct cli_command *family, const char *name)
{
    for (const struct cli_command *const *c = family->commands; *c; c++)
        if (strcmp(name, (*c)->name) == 0)
            return *c;
    return NULL;
}

/* Prints a guide, and how to see the options of a command with the same name. */
static int print_guide(const struct cli_command *family, const struct guide *g, const char *title)
{
    guide_print(g, stdout);
    if (find_command(family, g->name))
        printf("\nOptions: %s %s --help\n", title, g->name);
    return 0;
}

static int run_family(const struct cli_command *family, int argc, char **argv)
{
    if (argc < 2) {
        print_family(stderr, family, argv[0]);
        return status_exit_code(STATUS_USAGE);
    }
    const char *name = argv[1];
    const struct guide *topics = NULL;
    if (argc > 2 && strcmp(name, "help") == 0) { /* "help bench gemm" is "bench gemm --help" */
        static char help[] = "--help";
        topics = family->commands == cli_commands && argc == 3 ? guides : NULL;
        if (topics && guide_find(argv[2]))
            return print_guide(family, guide_find(argv[2]), argv[0]);
        memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = help;
        name = argv[1];
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_family(stdout, family, argv[0]);
        return 0;
    }
    const struct cli_command *c = find_command(family, name);
    if (!c)
        return cli_end(fail_unknown(family, argv[0], name, topics));
    char title[64];
    snprintf(title, sizeof title, "%s %s", argv[0], name);
    argv[1] = title;
    return cli_run(c, argc - 1, argv + 1);
}

int cli_run(const struct cli_command *c, int argc, char **argv)
{
    int exit_code;
    if (c->run)
        return c->run(c, argc, argv);
    if (c->commands)
        return run_family(c, argc, argv);
    if (!cli_read(c, argc, argv, &exit_code))
        return exit_code;
    enum status st = c->bench ? c->bench(c->config) : c->work(c->config);
    return st == STATUS_OK && c->exit_code ? *(int *)((char *)c->config + c->exit_code)
                                           : cli_end(st);
}
