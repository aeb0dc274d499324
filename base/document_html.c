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

/* A row of the contents: its level, its id and its text. */
#define CONTENTS_LINK "<li class=\"level-%\"><a href=\"#%\">%</a>"

static void write_contents(FILE *out, const struct table *contents)
{
    fputs("<nav id=\"contents\" aria-label=\"Contents\">\n<strong>Contents</strong>\n<ul>\n", out);
    for (int i = 0; i < contents->n; i += contents->columns) {
        char *const *row = &contents->text[i];
        markup(out, xml_text, CONTENTS_LINK "</li>\n", row[CONTENTS_LEVEL], row[CONTENTS_ID],
               row[CONTENTS_TEXT]);
    }
    fputs("</ul>\n</nav>\n<a class=\"to-contents\" href=\"#contents\">Contents</a>\n", out);
}

static void begin(FILE *out, const char *title, const struct table *contents)
{
    markup(out, xml_text,
           "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<title>%</title>\n",
           title);
    fprintf(out, "<style>\n%s</style>\n</head>\n<body>\n", (const char *)document_css);
    markup(out, xml_text, "<h1>%</h1>\n", title);
    write_contents(out, contents);
    fputs("<main>\n", out);
}

static void overview(FILE *out, const struct table *contents)
{
    fputs("<ul class=\"overview\">\n", out);
    for (int i = 0; i < contents->n; i += contents->columns) {
        char *const *row = &contents->text[i];
        if (strcmp(row[CONTENTS_LEVEL], "2") != 0 && strcmp(row[CONTENTS_LEVEL], "3") != 0)
            continue;
        markup(out, xml_text, CONTENTS_LINK "%%</li>\n", row[CONTENTS_LEVEL], row[CONTENTS_ID],
               row[CONTENTS_TEXT], *row[CONTENTS_SUMMARY] ? ": " : "", row[CONTENTS_SUMMARY]);
    }
    fputs("</ul>\n", out);
}

static void heading(FILE *out, int level, const char *text, const char *id)
{
    fprintf(out, "<h%d", level);
    markup(out, xml_text, " id=\"%\">%", id, text);
    fprintf(out, "</h%d>\n", level);
}

static void fold_begin(FILE *out, const char *text, const char *id)
{
    markup(out, xml_text, "<details id=\"%\"><summary>%</summary>\n", id, text);
}

static void code(FILE *out, const char *text)
{
    markup(out, xml_text, "<pre>%</pre>\n", text);
}

static void list(FILE *out, const struct table *items)
{
    fputs("<ul>\n", out);
    for (int i = 0; i < items->n; i++)
        markup(out, xml_text, "<li>%</li>\n", items->text[i]);
    fputs("</ul>\n", out);
}

/* The CSS class for a cell whose text is the verdict of a command or the state of a run. */
static const char *tone_of(const char *text)
{
    static const struct {
        const char *begin, *tone;
    } tones[] = {
        {"PASS", " good"},
        {"FAIL", " bad"},
        {"MISSING", " bad"},
        {"WARN", " warn"},
        {"REGRESSION", " bad"},
        {"compute-bound", " good"},
        {"loader-bound", " warn"},
        {"missing", " bad"},
        {"communication-bound", " warn"},
        {"complete", " good"},
        {"done", " good"},
        {"desired accuracy", " good"},
        {"incomplete", " warn"},
        {"killed", " bad"},
        {"signal", " bad"},
        {"diverged", " bad"},
        {"lost rank", " bad"},
        {"error", " bad"},
        {"slow rank", " warn"},
        {"oversubscribed", " warn"},
        {"shared hardware", " warn"},
        {"slower computation", " warn"},
        {"small batch", " warn"},
        {"uneven ranks", " warn"},
        {"too noisy to say", " warn"},
        {"good", " good"},
        {"fair", " warn"},
        {"poor", " bad"},
    };
    if (strstr(text, "disturbed") || strstr(text, "% lost"))
        return " warn";
    for (size_t i = 0; i < sizeof tones / sizeof *tones; i++)
        if (strncmp(text, tones[i].begin, strlen(tones[i].begin)) == 0)
            return tones[i].tone;
    return "";
}

static void marked(FILE *out, const char *what, const char *mark, const char *text)
{
    markup(out, xml_text, "<p class=\"marked\">%: <strong class=\"verdict%\">%</strong>. %</p>\n",
           what, tone_of(mark), mark, text);
}

/* Writes a name that may be broken after each dash. */
static void write_name(FILE *out, const char *text)
{
    char part[256];
    while (*text) {
        size_t n = strcspn(text, "-_");
        n += text[n] != '\0';
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        if (n >= sizeof part) { /* no name */
            xml_text(out, text);
            return;
        }
        xml_text(out, part);
        text += n;
        if (*text)
            fputs("<wbr>", out);
    }
}

/* A column has a minimum width if it contains a text longer than LONG_TEXT. In the first column, a
 * name longer than LONG_NAME is enough. */
enum { LONG_TEXT = 60, LONG_NAME = 16 };

static void cell(FILE *out, const struct table *t, int i)
{
    const struct column c = column_of(t->text[i % t->columns]);
    const char *text = t->text[i];
    bool judged = !strcmp(c.text, "verdict") || !strcmp(c.text, "state");
    bool name = i % t->columns == 0 && strlen(text) > LONG_NAME && strlen(text) <= LONG_TEXT;
    if (judged)
        fprintf(out, "<td class=\"verdict%s\">", tone_of(text));
    else if (c.number)
        fprintf(out, "<td class=\"number%s\">", c.extra ? " extra" : "");
    else if (name || strlen(text) > LONG_TEXT)
        fprintf(out, "<td class=\"%s\">", name ? "name" : "long");
    else
        fputs(c.extra ? "<td class=\"extra\">" : "<td>", out);
    (name ? write_name : xml_text)(out, text);
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
        struct column c = column_of(t->text[i]);
        fprintf(out, "<th scope=\"col\"%s>",
                c.number && c.extra ? " class=\"number extra\""
                : c.number          ? " class=\"number\""
                : c.extra           ? " class=\"extra\""
                                    : "");
        markup(out, xml_text, "%</th>", c.text);
    }
    fputs("</tr></thead>\n", out);
}

/* Whether a narrow screen shows the texts of a row one below the other: a long text leaves no room
 * for columns, and only numbers need their headings. */
static bool is_stacked(const struct table *t)
{
    bool some = false;
    for (int i = 0; i < t->columns; i++)
        if (column_of(t->text[i]).number)
            return false;
    for (int i = t->columns; i < t->n; i++)
        some = some || strlen(t->text[i]) > LONG_TEXT;
    return some;
}

/* Writes a table in a box that can also be scrolled with the keyboard. */
static void table(FILE *out, const struct table *t)
{
    fprintf(out, "<div class=\"table%s\" tabindex=\"0\">\n<table>\n",
            is_stacked(t) ? " stacked" : "");
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

static enum status figure(FILE *out, const char *path, const char *link, const char *caption,
                          const char *id)
{
    (void)link;
    char *bytes;
    size_t size, n = strlen(path);
    bool svg = n > 4 && strcmp(path + n - 4, ".svg") == 0;
    TRY(file_read(path, PICTURE_MAX_BYTES, &bytes, &size));
    markup(out, xml_text,
           "<figure id=\"%\"><label class=\"zoom\" title=\"Enlarge or reduce\"><input "
           "type=\"checkbox\" aria-label=\"Enlarge: %\"><span><img alt=\"%\" "
           "src=\"data:image/%;base64,",
           id, caption, caption, svg ? "svg+xml" : "png");
    base64(out, (const unsigned char *)bytes, size);
    markup(out, xml_text, "\"></span></label><figcaption>%</figcaption></figure>\n", caption);
    free(bytes);
    return STATUS_OK;
}

const struct format format_html = {.begin = begin,
                                   .overview = overview,
                                   .heading = heading,
                                   .escape = xml_text,
                                   .paragraph = "<p>%</p>\n",
                                   .headline = "<p class=\"headline\">%</p>\n",
                                   .marked = marked,
                                   .fold_begin = fold_begin,
                                   .fold_end = "</details>\n",
                                   .code = code,
                                   .list = list,
                                   .table = table,
                                   .figure = figure,
                                   .end = "</main>\n</body>\n</html>\n"};
