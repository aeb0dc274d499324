/* Text that is written into XML and HTML. */
#include "base/xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect(const char *text, const char *written)
{
    char *got = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&got, &n);

    assert_non_null(out);
    xml_text(out, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(got, written);
    free(got);
}

static void test_plain(void **state)
{
    (void)state;
    expect("", "");
    expect("resnet50 fp16\t2 ranks\r\n", "resnet50 fp16\t2 ranks\r\n");
    expect("\xC3\xA9 \xE2\x89\xA4 \xF0\x9F\x8C\x8D", "\xC3\xA9 \xE2\x89\xA4 \xF0\x9F\x8C\x8D");
}

static void test_markup(void **state)
{
    (void)state;
    expect("<a href=\"x\">&amp;</a>", "&lt;a href=&quot;x&quot;&gt;&amp;amp;&lt;/a&gt;");
}

static void test_no_characters(void **state)
{
    (void)state;
    expect("\x01"
           "a\x1B[31m",
           "?a?[31m");
    expect("a\xEF\xBF\xBE"
           "b\xEF\xBF\xBF",
           "a?b?");
    expect("\xEF\xBF\xBD\xEF\xBF", "\xEF\xBF\xBD\xEF\xBF"); /* U+FFFD, and a part of it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_markup),
        cmocka_unit_test(test_no_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
