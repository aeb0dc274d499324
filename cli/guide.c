/* Guides: pages of docs/howto, which are compiled into the program and printed as text. */
#include "cli/cli.h"

#include <stdbool.h>
#include <string.h>

const struct guide *guide_find(const char *name)
{
    for (const struct guide *g = guides; g->name; g++)
        if (strcmp(g->name, name) == 0)
            return g;
    return NULL;
}

void guide_list(FILE *out)
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

void guide_print(const struct guide *g, FILE *out)
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
