/* Writes one HTML page with embedded pictures. The page suits light and dark displays, and wide and
 * narrow ones; it loads nothing from the network and has no scripts. */
#include "base/document.h"

#include "base/file.h"
#include "base/xml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURE_MAX_BYTES = 32 << 20 };

/* document.css, compiled in. */
extern const unsigned char document_css[];

static void element(FILE *out, const char *name, const char *text)
{
    fprintf(out, "<%s>", name);
    xml_text(out, text);
    fprintf(out, "</%s>\n", name);
}

static void write_contents(FILE *out, const struct table *contents)
{
    fputs("<nav id=\"contents\" aria-label=\"Contents\">\n<strong>Contents</strong>\n<ul>\n", out);
    for (int i = 0; i + 2 < contents->n; i += contents->columns) {
        fprintf(out, "<li class=\"level-%s\"><a href=\"#%s\">", contents->text[i],
                contents->text[i + 2]);
        xml_text(out, contents->text[i + 1]);
        fputs("</a></li>\n", out);
    }
    fputs("</ul>\n</nav>\n<a class=\"to-contents\" href=\"#contents\">Contents</a>\n", out);
}

static void begin(FILE *out, const char *title, const struct table *contents)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
          out);
    element(out, "title", title);
    fprintf(out, "<style>\n%s</style>\n</head>\n<body>\n", (const char *)document_css);
    element(out, "h1", title);
    write_contents(out, contents);
    fputs("<main>\n", out);
}

static void heading(FILE *out, int level, const char *text, const char *id)
{
    fprintf(out, "<h%d id=\"%s\">", level, id);
    xml_text(out, text);
    fprintf(out, "</h%d>\n", level);
}

static void paragraph(FILE *out, const char *text)
{
    element(out, "p", text);
}

static void code(FILE *out, const char *text)
{
    element(out, "pre", text);
}

static void list(FILE *out, const struct table *items)
{
    fputs("<ul>\n", out);
    for (int i = 0; i < items->n; i++)
        element(out, "li", items->text[i]);
    fputs("</ul>\n", out);
}

/* The CSS class for a cell whose text is the verdict of a command or the state of a run. */
static const char *tone_of(const char *text)
{
    static const struct {
        const char *begin, *tone;
    } tones[] = {
        {"PASS", " good"},         {"FAIL", " bad"},       {"MISSING", " bad"},
        {"WARN", " warn"},         {"REGRESSION", " bad"}, {"compute-bound", " good"},
        {"loader-bound", " warn"}, {"missing", " bad"},    {"communication-bound", " warn"},
        {"complete", " good"},     {"done", " good"},      {"desired accuracy", " good"},
        {"incomplete", " warn"},   {"killed", " bad"},     {"signal", " bad"},
        {"diverged", " bad"},      {"lost rank", " bad"},  {"error", " bad"},
    };
    for (size_t i = 0; i < sizeof tones / sizeof *tones; i++)
        if (strncmp(text, tones[i].begin, strlen(tones[i].begin)) == 0)
            return tones[i].tone;
    return "";
}

/* A column has a minimum width if it contains a text longer than LONG_TEXT. In the first column, a
 * name longer than LONG_NAME is enough. */
enum { LONG_TEXT = 60, LONG_NAME = 16 };

static void cell(FILE *out, const struct table *t, int i)
{
    const char *heading = t->text[i % t->columns], *text = t->text[i];
    bool number = *heading == '>',
         judged = !strcmp(heading, "verdict") || !strcmp(heading, "state");
    if (judged)
        fprintf(out, "<td class=\"verdict%s\">", tone_of(text));
    else if (number || strlen(text) > LONG_TEXT)
        fprintf(out, "<td class=\"%s\">", number ? "number" : "long");
    else if (i % t->columns == 0 && strlen(text) > LONG_NAME)
        fputs("<td class=\"name\">", out);
    else
        fputs("<td>", out);
    xml_text(out, text);
    fputs("</td>", out);
}

/* Writes the row of headings, unless all headings are empty. */
static void write_headings(FILE *out, const struct table *t)
{
    bool some = false;
    for (int i = 0; i < t->columns; i++)
        some = some || *t->text[i];
    if (!some)
        return;
    fputs("<thead><tr>", out);
    for (int i = 0; i < t->columns; i++) {
        bool number = *t->text[i] == '>';
        fprintf(out, "<th scope=\"col\"%s>", number ? " class=\"number\"" : "");
        xml_text(out, t->text[i] + number);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n", out);
}

/* Writes a table in a box that can also be scrolled with the keyboard. */
static void table(FILE *out, const struct table *t)
{
    fputs("<div class=\"table\" tabindex=\"0\">\n<table>\n", out);
    write_headings(out, t);
    fputs("<tbody>\n", out);
    for (int i = t->columns; i < t->n; i++) {
        if (i % t->columns == 0)
            fputs("<tr>", out);
        cell(out, t, i);
        if (i % t->columns == t->columns - 1)
            fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
}

/* RFC 4648. */
static void base64(FILE *out, const unsigned char *bytes, size_t size)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? bytes[i + 2] : 0);
        fputc(digit[v >> 18], out);
        fputc(digit[v >> 12 & 63], out);
        fputc(left > 1 ? digit[v >> 6 & 63] : '=', out);
        fputc(left > 2 ? digit[v & 63] : '=', out);
    }
}

static enum status figure(FILE *out, const char *path, const char *link, const char *caption)
{
    (void)link;
    char *bytes;
    size_t size, n = strlen(path);
    bool svg = n > 4 && strcmp(path + n - 4, ".svg") == 0;
    TRY(file_read(path, PICTURE_MAX_BYTES, &bytes, &size));
    fputs("<figure><label class=\"zoom\" title=\"Enlarge or reduce\"><input type=\"checkbox\" "
          "aria-label=\"Enlarge: ",
          out);
    xml_text(out, caption);
    fputs("\"><span><img alt=\"", out);
    xml_text(out, caption);
    fprintf(out, "\" src=\"data:image/%s;base64,", svg ? "svg+xml" : "png");
    base64(out, (const unsigned char *)bytes, size);
    fputs("\"></span></label></figure>\n", out); /* the picture contains its title */
    free(bytes);
    return STATUS_OK;
}

static void end(FILE *out)
{
    fputs("</main>\n</body>\n</html>\n", out);
}

const struct format format_html = {begin, heading, paragraph, code, list, table, figure, end};
