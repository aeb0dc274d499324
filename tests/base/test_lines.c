/* Files read line by line, and lines of CSV. */
#include "base/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
    int n;
    char text[64];
};

static enum status take(void *context, char *line, size_t size)
{
    struct seen *seen = context;
    if (strcmp(line, "stop") == 0)
        return status_fail(STATUS_MISMATCH, "asked to");
    assert_int_equal(strlen(line), size);
    seen->n++;
    strcat(strcat(seen->text, line), ";");
    return STATUS_OK;
}

static enum status each(const char *text, bool whole, struct seen *seen)
{
    char path[] = "lines-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    *seen = (struct seen){0};
    enum status st = lines_each(path, whole, take, seen);
    unlink(path);
    return st;
}

static void test_each(void **state)
{
    (void)state;
    struct seen seen;
    assert_int_equal(each("a\n\nbc\n", true, &seen), STATUS_OK);
    assert_string_equal(seen.text, "a;;bc;");
    assert_int_equal(each("", true, &seen), STATUS_OK);
    assert_int_equal(seen.n, 0);
    assert_int_equal(lines_each("no-such-file", true, take, &seen), STATUS_DATA);
}

static void test_each_names_the_line(void **state)
{
    (void)state;
    struct seen seen;
    assert_int_equal(each("a\nstop\nb\n", true, &seen), STATUS_MISMATCH);
    assert_non_null(strstr(status_message(), " line 2: asked to"));
    assert_string_equal(seen.text, "a;");
}

static void test_torn_line(void **state)
{
    (void)state;
    struct seen seen;
    assert_int_equal(each("a\nb", true, &seen), STATUS_DATA);
    assert_int_equal(each("a\nb", false, &seen), STATUS_OK);
    assert_string_equal(seen.text, "a;");
}

static void test_csv(void **state)
{
    (void)state;
    static const struct {
        const char *line, *cells;
        int n;
    } cases[] = {
        {"", "|", 1},           {"a,bc,", "a|bc||", 3}, {"\"a, \"\"b\"\"\",2", "a, \"b\"|2|", 2},
        {"\"\",\"\"", "||", 2}, {"\"a\"b", "", -1},     {"1,2,3,4,5", "", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[32], *cell[4], got[32] = "";
        strcpy(line, cases[i].line);
        assert_int_equal(csv_split(line, cell, 4), cases[i].n);
        for (int c = 0; c < cases[i].n; c++)
            strcat(strcat(got, cell[c]), "|");
        assert_string_equal(got, cases[i].cells);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_each_names_the_line),
        cmocka_unit_test(test_torn_line),
        cmocka_unit_test(test_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
