/* Text inside XML and HTML. */
#ifndef BASE_XML_H
#define BASE_XML_H

#include <stdio.h>

/* Writes `text`, UTF-8, so that it reads as itself in an element and in an attribute's value
 * between double quotes. What is no character to XML 1.0 (section 2.2: control characters but tab
 * and line ends, U+FFFE, U+FFFF) becomes '?'. Errors stay in the stream. */
void xml_text(FILE *out, const char *text);
#endif
