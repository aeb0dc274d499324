/* Writes Markdown as GitHub renders it. */
#include "base/document.h"

#include "base/xml.h"

#include <string.h>

static void escape(FILE *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (strchr("\\`*_[]<>|#", *c))
            fputc('\\', out);
        fputc(*c, out);
    }
}

static void begin(FILE *out, const char *title, const struct table *contents)
{
    (void)contents;
    markup(out, escape, "# %\n", title);
}

/* GitHub's links to headings. */
static void overview(FILE *out, const struct table *contents)
{
    fputc('\n', out);
    for (int i = 0; i < contents->n; i += contents->columns) {
        char *const *row = &contents->text[i];
        bool record = strcmp(row[CONTENTS_LEVEL], "3") == 0;
        if (!record && strcmp(row[CONTENTS_LEVEL], "2") != 0)
            continue;
        markup(out, escape, record ? "  - [%]" : "- [%]", row[CONTENTS_TEXT]);
        fprintf(out, "(#%s)", row[CONTENTS_ID]);
        markup(out, escape, *row[CONTENTS_SUMMARY] ? ": %\n" : "%\n", row[CONTENTS_SUMMARY]);
    }
}

static void heading(FILE *out, int level, const char *text, const char *id)
{
    (void)id;
    fputc('\n', out);
    for (int i = 0; i < level; i++)
        fputc('#', out);
    markup(out, escape, " %\n", text);
}

static void marked(FILE *out, const char *what, const char *mark, const char *text)
{
    markup(out, escape, "\n%: **%**. %\n", what, mark, text);
}

/* The line is HTML. The empty lines let the Markdown begin and end. */
static void fold_begin(FILE *out, const char *text, const char *id)
{
    (void)id;
    markup(out, xml_text, "\n<details>\n<summary>%</summary>\n", text);
}

static void code(FILE *out, const char *text)
{
    fprintf(out, "\n```sh\n%s\n```\n", text);
}

static void list(FILE *out, const struct table *items)
{
    fputc('\n', out);
    for (int i = 0; i < items->n; i++)
        markup(out, escape, "- %\n", items->text[i]);
}

static void table(FILE *out, const struct table *t)
{
    fputc('\n', out);
    for (int i = 0; i < t->n; i++) {
        const char *text = t->text[i];
        markup(out, escape, "| % ", i < t->columns ? column_of(text).text : text);
        if (i % t->columns != t->columns - 1)
            continue;
        fputs("|\n", out);
        for (int k = 0; i == t->columns - 1 && k < t->columns; k++)
            fprintf(out, "|%s%s", column_of(t->text[k]).number ? "---:" : "---",
                    k == t->columns - 1 ? "|\n" : "");
    }
}

static enum status figure(FILE *out, const char *path, const char *link, const char *caption,
                          const char *id)
{
    (void)path;
    (void)id;
    markup(out, escape, "\n![%](<", caption);
    for (const char *c = link; *c; c++)
        fprintf(out, *c < ' ' || *c > '~' || strchr("<>%", *c) ? "%%%02X" : "%c",
                (unsigned char)*c);
    markup(out, escape, ">)\n\n*%*\n", caption);
    return STATUS_OK;
}

const struct format format_markdown = {.begin = begin,
                                       .overview = overview,
                                       .heading = heading,
                                       .escape = escape,
                                       .paragraph = "\n%\n",
                                       .headline = "\n**%**\n",
                                       .marked = marked,
                                       .fold_begin = fold_begin,
                                       .fold_end = "\n</details>\n",
                                       .code = code,
                                       .list = list,
                                       .table = table,
                                       .figure = figure,
                                       .end = ""};
