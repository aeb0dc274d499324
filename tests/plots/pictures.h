/* Assertions that several tests of figures share. A failure fails the test. */
#pragma once

#include <stdbool.h>

/* Skips the test with a message if gnuplot is not installed. */
void skip_without_gnuplot(void);

/* Whether tags are nested and closed, attributes are quoted, and text has no unescaped '<' or '&'.
 */
bool xml_well_formed(const char *xml);

/* Checks that "<dir>/<file>" is a PNG, 1600 pixels wide and not blank. */
void expect_png(const char *dir, const char *file);

/* "<dir>/<file>" says the text. */
void expect_text(const char *dir, const char *file, const char *text);

/* Fails if the file says the text. */
void expect_no_text(const char *dir, const char *file, const char *text);
