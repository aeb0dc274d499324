/* Escaping for XML and HTML. */
#include "base/xml.h"

#include <stdbool.h>
#include <string.h>

static bool noncharacter(const char *text)
{
    return strncmp(text, "\xEF\xBF\xBE", 3) == 0 || strncmp(text, "\xEF\xBF\xBF", 3) == 0;
}

static bool control(char c)
{
    return (unsigned char)c < ' ' && c != '\t' && c != '\n' && c != '\r';
}

void xml_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            if (noncharacter(text)) {
                fputc('?', out);
                text += 2;
            } else {
                fputc(control(*text) ? '?' : *text, out);
            }
        }
    }
}
