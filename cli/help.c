/* Prints the help of a command: as text for --help, and as mdoc for the manual page. glibc's
 * argp_help is not used, because it indents some lines wrongly (argp parses the command line). */
#include "cli/cli.h"

#include "base/array.h"
#include "base/text_new.h"

#include <argp.h>
#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Columns of the text. */
enum { WIDTH = 79, USAGE_COLUMN = 12, NAME_COLUMN = 6, DOC_COLUMN = 29, DOC_GAP = 3 };
enum { EXAMPLE_COLUMN = 4, EXAMPLE_HANG = 4 };

/* An option; its aliases follow it in the table. */
struct item {
    const struct argp_option *option;
    int group; /* argp's group of the option; if that is 0, the group of the previous option. The
                * group of a negative number is the last one */
};

struct items {
    struct item *item; /* (n) */
    int n;
};

static bool is_heading(const struct argp_option *o)
{
    return !o->name && !o->key;
}

/* Whether the option's key is a letter; isgraph() is not defined for the larger keys. */
static bool has_letter(const struct argp_option *o)
{
    return o->key > 0 && o->key <= UCHAR_MAX && isgraph(o->key);
}

/* Lists the options that are not hidden. */
static enum status collect(const struct argp_option *options, struct items *all)
{
    int group = 0;
    for (const struct argp_option *o = options; o->name || o->key || o->doc; o++) {
        group = o->group ? o->group : group;
        if (o->flags & (OPTION_HIDDEN | OPTION_ALIAS))
            continue;
        TRY(array_reserve(&all->item, all->n));
        all->item[all->n++] = (struct item){o, group};
    }
    return STATUS_OK;
}

/* Orders items by group. Within a group, the heading comes first, then the options by name. */
static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->group != y->group)
        return (unsigned)x->group < (unsigned)y->group ? -1 : 1;
    if (is_heading(x->option) || is_heading(y->option))
        return is_heading(y->option) - is_heading(x->option);
    return strcmp(x->option->name, y->option->name);
}

static enum status sorted(const struct argp_option *options, struct items *all)
{
    TRY(collect(options, all));
    qsort(all->item, (size_t)all->n, sizeof *all->item, compare_items);
    return STATUS_OK;
}

/* Prints `text` from column `column` on, with words that do not fit in a line on further lines that
 * begin in column `hang`. Ends the last line. */
static void print_wrapped(const char *text, size_t length, int column, int hang, FILE *out)
{
    while (column + (int)length > WIDTH) {
        size_t end = (size_t)(WIDTH - column);
        while (end > 0 && text[end] != ' ')
            end--;
        if (end == 0)
            end = strcspn(text, " ");
        if (end >= length)
            break;
        fprintf(out, "%.*s\n%*s", (int)end, text, hang, "");
        text += end + 1;
        length -= end + 1;
        column = hang;
    }
    fprintf(out, "%.*s\n", (int)length, text);
}

/* Prints "  -b, --batch-size=N" and the option's description. */
static enum status print_option(const struct argp_option *o, FILE *out)
{
    struct text_stream names;
    TRY(text_stream_open(&names));
    fprintf(names.out, has_letter(o) ? "  -%c, " : "      ", o->key);
    for (const struct argp_option *a = o; a == o || (a->flags & OPTION_ALIAS); a++)
        if (!(a->flags & OPTION_HIDDEN))
            fprintf(names.out, "%s--%s%s%s", a == o ? "" : ", ", a->name, o->arg ? "=" : "",
                    o->arg ? o->arg : "");
    TRY(text_stream_close(&names));
    int column = (int)names.size;
    if (column > DOC_COLUMN + DOC_GAP) {
        print_wrapped(names.text, names.size, 0, NAME_COLUMN, out);
        column = 0;
    } else {
        fputs(names.text, out);
    }
    int gap = column < DOC_COLUMN ? DOC_COLUMN - column : DOC_GAP;
    fprintf(out, "%*s", gap, "");
    print_wrapped(o->doc, strlen(o->doc), column + gap, DOC_COLUMN, out);
    free(names.text);
    return STATUS_OK;
}

/* Prints a line for each form of the command's arguments. */
static enum status print_usage(const char *name, const char *arguments, FILE *out)
{
    const char *form = arguments ? arguments : "";
    for (const char *start = "Usage:";; start = "  or: ") {
        char *line;
        int length = (int)strcspn(form, "\n");
        TRY(text_new(&line, "%s %s [OPTION...]%s%.*s", start, name, length > 0 ? " " : "", length,
                     form));
        print_wrapped(line, strlen(line), 0, USAGE_COLUMN, out);
        free(line);
        if (form[length] == '\0')
            return STATUS_OK;
        form += length + 1;
    }
}

/* Prints a line of a shell. A line that is too long is broken, with a backslash at each break. */
static void print_shell_line(const char *line, FILE *out)
{
    int column = EXAMPLE_COLUMN;
    fprintf(out, "%*s", column, "");
    while (column + (int)strlen(line) > WIDTH) {
        int end = WIDTH - column - 2; /* room for " \\" */
        while (end > 0 && line[end] != ' ')
            end--;
        if (end == 0)
            break;
        column = EXAMPLE_COLUMN + EXAMPLE_HANG;
        fprintf(out, "%.*s \\\n%*s", end, line, column, "");
        line += end + 1;
    }
    fprintf(out, "%s\n", line);
}

void help_print_examples(const struct cli_command *c, FILE *out)
{
    if (!c->example[0].does)
        return;
    fputs("Examples:\n", out);
    for (const struct cli_example *e = c->example; e->does; e++) {
        fputs("  ", out);
        print_wrapped(e->does, strlen(e->does), 2, 2, out);
        print_shell_line(e->line, out);
    }
}

enum status help_print(const struct cli_command *c, const char *name,
                       const struct argp_option *options, FILE *out)
{
    struct items all = {0};
    enum status st;
    bool headings = false;
    size_t before = strcspn(c->doc, "\v"); /* the text after a '\v' follows the options */
    CHECK(sorted(options, &all));
    CHECK(print_usage(name, c->arguments, out));
    print_wrapped(c->doc, before, 0, 0, out);
    fputc('\n', out);
    for (int i = 0; i < all.n; i++) {
        const struct argp_option *o = all.item[i].option;
        headings |= is_heading(o);
        if (headings && i > 0 && all.item[i].group != all.item[i - 1].group)
            fputc('\n', out);
        if (is_heading(o))
            fprintf(out, " %s\n", o->doc);
        else
            CHECK(print_option(o, out));
    }
    fputc('\n', out);
    help_print_examples(c, out);
    if (c->doc[before]) {
        fputc('\n', out);
        print_wrapped(c->doc + before + 1, strlen(c->doc + before + 1), 0, 0, out);
    }
    if (guide_find(c->name))
        fprintf(out, "\nGuide: ampscale help %s\n", c->name);
done:
    free(all.item);
    return st;
}

static void print_item(const struct argp_option *o, FILE *out)
{
    const char *between = " ";
    fputs(".It", out);
    if (has_letter(o)) {
        fprintf(out, " Fl %c", o->key);
        between = " , ";
    }
    for (const struct argp_option *a = o; a == o || (a->flags & OPTION_ALIAS); a++) {
        if (a->flags & OPTION_HIDDEN)
            continue;
        fprintf(out, "%sFl -%s", between, a->name);
        if (o->arg)
            fprintf(out, " Ar %s", o->arg);
        between = " , ";
    }
    fprintf(out, "\n%s%s.\n", strchr(".'", *o->doc) ? "\\&" : "", o->doc);
}

/* Prints a line of mdoc, unless it is empty: backslashes and a control character at the start are
 * escaped. */
static void print_mdoc(const char *text, size_t length, FILE *out)
{
    if (length == 0)
        return;
    if (strchr(".'", *text))
        fputs("\\&", out);
    for (size_t i = 0; i < length; i++)
        fprintf(out, text[i] == '\\' ? "\\e" : "%c", text[i]);
    fputc('\n', out);
}

/* Prints sentences, each on a line of its own, as mdoc wants it. */
static void print_sentences(const char *text, size_t length, FILE *out)
{
    const char *end = text + length;
    for (const char *dot = text; dot < end; dot++)
        if (dot[0] == '.' && dot[1] == ' ') {
            print_mdoc(text, (size_t)(dot + 1 - text), out);
            text = dot + 2;
        }
    print_mdoc(text, (size_t)(end - text), out);
}

/* Prints the name and the forms of the arguments, then the description up to the '\v'. */
static void manual_head(const struct cli_command *c, const char *name, FILE *out)
{
    const char *form = c->arguments ? c->arguments : "", *words = strchr(name, ' ') + 1;
    fprintf(out, ".Ss \"%s\"\n", words);
    for (size_t length;; form += length + 1) {
        length = strcspn(form, "\n");
        fprintf(out, ".Nm\n.Cm %s\n.Op Ar option ...\n", words);
        print_mdoc(form, length, out);
        if (form[length] == '\0')
            break;
        fputs(".br\n", out);
    }
    fputs(".Pp\n", out);
    print_sentences(c->doc, strcspn(c->doc, "\v"), out);
}

static void manual_tail(const struct cli_command *c, FILE *out)
{
    const char *after = strchr(c->doc, '\v');
    for (const struct cli_example *e = c->example; e->does; e++) {
        fputs(e == c->example ? ".Pp\nExamples:\n.Pp\n" : ".Pp\n", out);
        fprintf(out, "%s:\n.Bd -literal -offset indent -compact\n", e->does);
        print_mdoc(e->line, strlen(e->line), out);
        fputs(".Ed\n", out);
    }
    if (!after)
        return;
    fputs(".Pp\n", out);
    print_sentences(after + 1, strlen(after + 1), out);
}

enum status manual_print(const struct cli_command *c, const char *name,
                         const struct argp_option *options, FILE *out)
{
    struct items all = {0};
    enum status st;
    bool open = false;
    CHECK(sorted(options, &all));
    manual_head(c, name, out);
    for (int i = 0; i < all.n && all.item[i].group >= 0; i++) {
        const struct argp_option *o = all.item[i].option;
        if (open && is_heading(o))
            fputs(".El\n", out);
        if (is_heading(o))
            fprintf(out, ".Pp\n%s%s\n", o->doc, strchr(o->doc, ':') ? "" : ":");
        if (!open || is_heading(o))
            fputs(".Bl -tag -width Ds\n", out);
        open = true;
        if (!is_heading(o))
            print_item(o, out);
    }
    if (open)
        fputs(".El\n", out);
    manual_tail(c, out);
done:
    free(all.item);
    return st;
}
