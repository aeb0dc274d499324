/* Assertions that several tests of figures share. */
#include "pictures.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void skip_without_gnuplot(void)
{
    if (system("command -v gnuplot >/dev/null") == 0)
        return;
    print_message("skipped: gnuplot is not installed\n");
    skip();
}

bool xml_well_formed(const char *xml)
{
    char stack[64][32];
    int depth = 0;
    for (const char *p = xml; *p; p++) {
        if (*p == '&' && strncmp(p, "&amp;", 5) != 0 && strncmp(p, "&lt;", 4) != 0 &&
            strncmp(p, "&gt;", 4) != 0 && strncmp(p, "&#", 2) != 0)
            return false;
        if (*p != '<')
            continue;
        const char *name = ++p;
        bool closing = *p == '/';
        size_t len = strcspn(name + closing, " \t\n/>");
        for (char quote = 0; *p && (quote || *p != '>'); p++) {
            if (!quote && *p == '<')
                return false;
            if (*p == '"' || *p == '\'')
                quote = !quote ? *p : quote == *p ? 0 : quote;
        }
        if (!*p)
            return false;
        if (*name == '?' || *name == '!' || (p[-1] == '/' && !closing))
            continue;
        if (closing) {
            if (depth == 0 || strlen(stack[depth - 1]) != len ||
                strncmp(stack[depth - 1], name + 1, len) != 0)
                return false;
            depth--;
        } else {
            if (depth == 64 || len >= 32)
                return false;
            snprintf(stack[depth++], 32, "%.*s", (int)len, name);
        }
    }
    return depth == 0;
}

void expect_png(const char *dir, const char *file)
{
    size_t size;
    unsigned char *png = (unsigned char *)scratch_read(dir, file, &size);
    assert_true(size > 8000);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(png[18] << 8 | png[19], 1600);
    assert_non_null(memmem(png + size - 16, 16, "IEND", 4));
    free(png);
}

void expect_text(const char *dir, const char *file, const char *text)
{
    size_t size;
    char *content = scratch_read(dir, file, &size);
    if (!strstr(content, text))
        fail_msg("'%s' says '%s' nowhere:\n%.400s", file, text, content);
    free(content);
}

void expect_no_text(const char *dir, const char *file, const char *text)
{
    size_t size;
    char *content = scratch_read(dir, file, &size);
    if (strstr(content, text))
        fail_msg("'%s' says '%s'", file, text);
    free(content);
}
