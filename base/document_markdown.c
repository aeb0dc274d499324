/* Writes Markdown as GitHub renders it. */
#include "base/document.h"

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
        escape(out, i < t->columns && *text == '>' ? text + 1 : text);
        fputc(' ', out);
        if (i % t->columns != t->columns - 1)
            continue;
        fputs("|\n", out);
        for (int k = 0; i == t->columns - 1 && k < t->columns; k++)
            fprintf(out, "|%s%s", *t->text[k] == '>' ? "---:" : "---",
                    k == t->columns - 1 ? "|\n" : "");
    }
}

static enum status figure(FILE *out, const char *path, const char *link, const char *caption)
{
    (void)path;
    fputs("\n![", out);
    escape(out, caption);
    fputs("](<", out);
    for (const char *c = link; *c; c++)
        fprintf(out, *c < ' ' || *c > '~' || strchr("<>%", *c) ? "%%%02X" : "%c",
                (unsigned char)*c);
    fputs(">)\n", out);
    return STATUS_OK;
}

static void end(FILE *out)
{
    (void)out;
}

const struct format format_markdown = {begin, heading, paragraph, code, list, table, figure, end};
