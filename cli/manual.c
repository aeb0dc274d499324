/* Prints the options of a command as mdoc; docs/man/make-page inserts them into the command's
 * manual page. */
#include "cli/cli.h"

#include "base/array.h"

#include <argp.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An option; its aliases follow it in the table. */
struct item {
    const struct argp_option *option;
    int group; /* argp's group of the option; if that is 0, the group of the previous option */
};

struct items {
    struct item *item; /* (n) */
    int n;
};

static bool is_end(const struct argp_option *o)
{
    return !o->name && !o->key && !o->doc;
}

static bool is_heading(const struct argp_option *o)
{
    return !o->name && !o->key;
}

/* Lists the options that --help shows. */
static enum status collect(const struct argp_option *options, struct items *all)
{
    int group = 0;
    for (const struct argp_option *o = options; !is_end(o); o++) {
        group = o->group ? o->group : group;
        if ((o->flags & (OPTION_HIDDEN | OPTION_ALIAS)) || o->group < 0)
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
        return x->group - y->group;
    if (is_heading(x->option) || is_heading(y->option))
        return is_heading(y->option) - is_heading(x->option);
    return strcmp(x->option->name, y->option->name);
}

static void print_item(const struct argp_option *o, FILE *out)
{
    const char *between = " ";
    fputs(".It", out);
    if (isgraph(o->key)) {
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

enum status manual_print(const struct argp_option *options, FILE *out)
{
    struct items all = {0};
    enum status st;
    bool open = false;
    CHECK(collect(options, &all));
    qsort(all.item, (size_t)all.n, sizeof *all.item, compare_items);
    for (int i = 0; i < all.n; i++) {
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
    fputs(".El\n", out);
done:
    free(all.item);
    return st;
}
