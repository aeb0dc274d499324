/* What tests of pictures share. A failure fails the test. */
#pragma once

#include <stdbool.h>

/* Ends the test as skipped, and says so, where gnuplot is not installed. */
void skip_without_gnuplot(void);

/* Whether tags nest and close, attributes are quoted and text holds no stray '<' or '&'. */
bool xml_well_formed(const char *xml);

/* "<dir>/<file>" is a picture, 1600 pixels wide and not blank. */
void expect_png(const char *dir, const char *file);

/* "<dir>/<file>" says the text. */
void expect_text(const char *dir, const char *file, const char *text);

/* Fails if it does. */
void expect_no_text(const char *dir, const char *file, const char *text);
