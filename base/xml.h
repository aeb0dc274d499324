/* Escapes text for XML and HTML. */
#pragma once

#include <stdio.h>

/* Writes `form`, in which each '%' stands for the next text, written by `escape`. */
void markup(FILE *out, void (*escape)(FILE *out, const char *text), const char *form, ...);

/* Writes `text`, UTF-8, escaped for an element and for an attribute's value between double quotes.
 * A character that XML 1.0 does not allow (section 2.2: control characters other than tab and line
 * ends, U+FFFE, U+FFFF) becomes '?'. The caller checks the stream for errors. */
void xml_text(FILE *out, const char *text);
