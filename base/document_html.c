/* Writes one HTML page with embedded pictures, for light and dark displays. The page loads nothing
 * from the network. */
#include "base/document.h"

#include "base/file.h"
#include "base/xml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURE_MAX_BYTES = 32 << 20 };

static const char style[] =
    ":root { color-scheme: light dark }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 "
    "1em;"
    " color: #1a1a1a; background: #fff }\n"
    "table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1em 0 }\n"
    "th, td { padding: .25em .7em; border-bottom: 1px solid #bbb; text-align: left }\n"
    "td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }\n"
    "td:first-child { white-space: nowrap }\n"
    "td.fail { color: #a40000; font-weight: bold }\n"
    "td.warn { color: #7a4a00; font-weight: bold }\n"
    "pre { padding: .8em; overflow-x: auto; background: #f2f2f2 }\n"
    "figure { margin: 1.5em 0 }\n"
    "img { max-width: 100%; background: #fff; padding: .5em; border-radius: .3em }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  body { color: #e6e6e6; background: #161616 }\n"
    "  pre { background: #262626 }\n"
    "  th, td { border-color: #555 }\n"
    "  td.fail { color: #ff8a80 }\n"
    "  td.warn { color: #ffcc80 }\n"
    "}\n";

static void element(FILE *out, const char *name, const char *text)
{
    fprintf(out, "<%s>", name);
    xml_text(out, text);
    fprintf(out, "</%s>\n", name);
}

static void begin(FILE *out, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
          out);
    element(out, "title", title);
    fprintf(out, "<style>\n%s</style>\n</head>\n<body>\n", style);
    element(out, "h1", title);
}

static void heading(FILE *out, int level, const char *text)
{
    fprintf(out, "<h%d>", level);
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

/* The CSS class of a cell, which highlights a bad verdict. */
static const char *class_of(const char *text, bool number)
{
    if (strcmp(text, "FAIL") == 0 || strcmp(text, "MISSING") == 0)
        return " class=\"fail\"";
    if (strcmp(text, "WARN") == 0)
        return " class=\"warn\"";
    return number ? " class=\"number\"" : "";
}

static void table(FILE *out, const struct table *t)
{
    fputs("<table>\n", out);
    for (int i = 0; i < t->n; i++) {
        int column = i % t->columns;
        const char *name = i < t->columns ? "th" : "td", *text = t->text[i];
        bool number = *t->text[column] == '>';
        if (column == 0)
            fputs("<tr>", out);
        fprintf(out, "<%s%s>", name, class_of(text, number));
        xml_text(out, i < t->columns && number ? text + 1 : text);
        fprintf(out, "</%s>", name);
        if (column == t->columns - 1)
            fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
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
    fputs("<figure><img alt=\"", out);
    xml_text(out, caption);
    fprintf(out, "\" src=\"data:image/%s;base64,", svg ? "svg+xml" : "png");
    base64(out, (const unsigned char *)bytes, size);
    fputs("\"></figure>\n", out); /* the picture contains its title */
    free(bytes);
    return STATUS_OK;
}

static void end(FILE *out)
{
    fputs("</body>\n</html>\n", out);
}

const struct format format_html = {begin, heading, paragraph, code, list, table, figure, end};
