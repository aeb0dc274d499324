/* Files read line by line, and lines of CSV. */
#include "base/lines.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

static enum status take(void *context, char *line, size_t size)
{
    char *text = context;
    if (strcmp(line, "stop") == 0)
        return status_fail(STATUS_MISMATCH, "asked to");
    assert_int_equal(strlen(line), size);
    strcat(strcat(text, line), ";");
    return STATUS_OK;
}

static void test_each(void **state)
{
    static const struct {
        const char *text;
        bool whole;
        enum status status;
        const char *taken;
    } cases[] = {
        {"a\n\nbc\n", true, STATUS_OK, "a;;bc;"},
        {"", true, STATUS_OK, ""},
        {"a\nb", true, STATUS_DATA, NULL},                  /* a torn line */
        {"a\n{\"b\":1}", false, STATUS_OK, "a;{\"b\":1};"}, /* lacks only the newline */
        {"a\n{\"b\":{}", false, STATUS_OK, "a;"},
        {"a\nb", false, STATUS_OK, "a;"},
        {"a\nstop\nb\n", true, STATUS_MISMATCH, "a;"},
    };
    char path[SCRATCH_MAX + 8];
    snprintf(path, sizeof path, "%s/lines", (char *)*state);
    for (int i = 0; i < COUNT(cases); i++) {
        char taken[64] = "";
        scratch_write(*state, "lines", cases[i].text, strlen(cases[i].text));
        assert_int_equal(lines_each(path, cases[i].whole, take, taken), cases[i].status);
        if (cases[i].taken)
            assert_string_equal(taken, cases[i].taken);
    }
    assert_non_null(strstr(status_message(), " line 2: asked to"));
    assert_int_equal(lines_each("no-such-file", true, take, path), STATUS_DATA);
}

static void test_csv(void **state)
{
    static const struct {
        const char *line, *cells;
        int n;
    } cases[] = {
        {"", "|", 1},           {"a,bc,", "a|bc||", 3}, {"\"a, \"\"b\"\"\",2", "a, \"b\"|2|", 2},
        {"\"\",\"\"", "||", 2}, {"\"a\"b", "", -1},     {"1,2,3,4,5", "", -1},
    };
    for (int i = 0; i < COUNT(cases); i++) {
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
        IN_FOLDER(test_each),
        cmocka_unit_test(test_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
