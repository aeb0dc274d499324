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
    fputs("# ", out);
    escape(out, title);
    fputs("\n", out);
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
        fputs(record ? "  - [" : "- [", out);
        escape(out, row[CONTENTS_TEXT]);
        fprintf(out, "](#%s)", row[CONTENTS_ID]);
        fputs(*row[CONTENTS_SUMMARY] ? ": " : "", out);
        escape(out, row[CONTENTS_SUMMARY]);
        fputc('\n', out);
    }
}

static void heading(FILE *out, int level, const char *text, const char *id)
{
    (void)id;
    fputc('\n', out);
    for (int i = 0; i < level; i++)
        fputc('#', out);
    fputc(' ', out);
    escape(out, text);
    fputc('\n', out);
}

static void paragraph(FILE *out, const char *text)
{
    fputc('\n', out);
    escape(out, text);
    fputc('\n', out);
}

static void headline(FILE *out, const char *text)
{
    fputs("\n**", out);
    escape(out, text);
    fputs("**\n", out);
}

static void marked(FILE *out, const char *what, const char *mark, const char *text)
{
    fputs("\n", out);
    escape(out, what);
    fputs(": **", out);
    escape(out, mark);
    fputs("**. ", out);
    escape(out, text);
    fputc('\n', out);
}

/* The line is HTML. The empty lines let the Markdown begin and end. */
static void fold_begin(FILE *out, const char *text, const char *id)
{
    (void)id;
    fputs("\n<details>\n<summary>", out);
    xml_text(out, text);
    fputs("</summary>\n", out);
}

static void fold_end(FILE *out)
{
    fputs("\n</details>\n", out);
}

static void code(FILE *out, const char *text)
{
    fprintf(out, "\n```sh\n%s\n```\n", text);
}

static void list(FILE *out, const struct table *items)
{
    fputc('\n', out);
    for (int i = 0; i < items->n; i++) {
        fputs("- ", out);
        escape(out, items->text[i]);
        fputc('\n', out);
    }
}

static void table(FILE *out, const struct table *t)
{
    fputc('\n', out);
    for (int i = 0; i < t->n; i++) {
        const char *text = t->text[i];
        fputs("| ", out);
        escape(out, i < t->columns ? column_of(text).text : text);
        fputc(' ', out);
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
    fputs("\n![", out);
    escape(out, caption);
    fputs("](<", out);
    for (const char *c = link; *c; c++)
        fprintf(out, *c < ' ' || *c > '~' || strchr("<>%", *c) ? "%%%02X" : "%c",
                (unsigned char)*c);
    fputs(">)\n\n*", out);
    escape(out, caption);
    fputs("*\n", out);
    return STATUS_OK;
}

static void end(FILE *out)
{
    (void)out;
}

const struct format format_markdown = {.begin = begin,
                                       .overview = overview,
                                       .heading = heading,
                                       .paragraph = paragraph,
                                       .headline = headline,
                                       .marked = marked,
                                       .fold_begin = fold_begin,
                                       .fold_end = fold_end,
                                       .code = code,
                                       .list = list,
                                       .table = table,
                                       .figure = figure,
                                       .end = end};
