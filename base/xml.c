/* Escapes text for XML and HTML. */
#include "base/xml.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

void markup(FILE *out, void (*escape)(FILE *out, const char *text), const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    for (; *form; form++)
        if (*form == '%')
            escape(out, va_arg(ap, const char *));
        else
            fputc(*form, out);
    va_end(ap);
}

static bool noncharacter(const char *text)
{
    return strncmp(text, "\xEF\xBF\xBE", 3) == 0 || strncmp(text, "\xEF\xBF\xBF", 3) == 0;
}

void xml_text(FILE *out, const char *text)
{
    static const char special[] = "&<>\"";
    static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (; *text; text++) {
        const char *at = strchr(special, *text);
        bool control =
            (unsigned char)*text < ' ' && *text != '\t' && *text != '\n' && *text != '\r';
        if (at)
            fputs(entity[at - special], out);
        else
            fputc(control || noncharacter(text) ? '?' : *text, out);
        if (noncharacter(text))
            text += 2;
    }
}
