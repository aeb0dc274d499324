/* Text composed in buffers, escaped for where it is written, and suggested for a mistyped word. */
#include "base/nearest.h"
#include "base/text.h"
#include "base/text_new.h"
#include "base/words.h"
#include "base/xml.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

static void test_append(void **state)
{
    char out[16] = "ab", list[12] = "", full[4] = {'a', 'b', 'c', 'd'};
    assert_true(text_append(out, sizeof out, "-%d", 12));
    assert_true(text_append(out, sizeof out, "%s", ""));
    assert_string_equal(out, "ab-12");
    assert_true(text_append(out, sizeof out, "%s", "0123456789"));
    assert_false(text_append(out, sizeof out, "x"));
    assert_string_equal(out, "ab-120123456789");
    assert_false(text_append(full, sizeof full, "x"));
    assert_memory_equal(full, "abcd", 4);
    assert_true(text_join(list, sizeof list, ", ", "%s", "one"));
    assert_true(text_join(list, sizeof list, ", ", "%s", "two"));
    assert_false(text_join(list, sizeof list, ", ", "%s", "three"));
    assert_string_equal(list, "one, two, t");
}

/* A cut must not divide a character. The euro sign has three bytes, and U+1F30D has four bytes. */
static void test_cut_between_characters(void **state)
{
    for (size_t size = 1; size <= 8; size++) {
        char out[16] = "";
        assert_int_equal(text_append(out, size, "\xe2\x82\xac%s", "\xf0\x9f\x8c\x8d"), size == 8);
        assert_int_equal(strlen(out), size < 4 ? 0 : size < 8 ? 3 : 7);
    }
    char kept[4] = "\xe2\x82"; /* the earlier text stays */
    assert_false(text_append(kept, sizeof kept, "%s", "\xc3\xa9"));
    assert_string_equal(kept, "\xe2\x82");
}

static void print_line(FILE *out, const char *text)
{
    text_print(out, "<%s>", text);
}

static void test_escaped(void **state)
{
    static const struct {
        void (*print)(FILE *, const char *);
        const char *text, *want;
    } cases[] = {
        {print_line, "a\033[31m\nb\xe2\x80\xae", "<a?[31m?b??\x3f>\n"},
        {print_line, "\xff\xc3 \xc0\xaf \xe0\x80\xaf",
         "<?? ?? ??\x3f>\n"}, /* not UTF-8, overlong */
        {print_line, "\xed\xa0\x80 \xf4\x90\x80\x80",
         "<??? ???\x3f>\n"}, /* surrogate, above U+10FFFF */
        {print_line, "\xc2\x9b \xf0\x9f\x98\x80",
         "<?? \xf0\x9f\x98\x80>\n"}, /* a C1 control character */
        {text_print_csv, "plain", "plain"},
        {text_print_csv, "=1+1", "'=1+1"},
        {text_print_csv, "+1", "'+1"},
        {text_print_csv, "-1", "'-1"},
        {text_print_csv, "@sum(a,b)", "\"'@sum(a,b)\""},
        {text_print_csv, "a\"\r\n\033", "\"a\"\"???\""},
        {shell_word, "plain-1.0", "plain-1.0"},
        {shell_word, "a 'b'$(c)", "'a '\\''b'\\''$(c)'"},
        {shell_word, "\x1b[2J'\\\n\u202e", "$'\\x1b[2J\\x27\\x5c\\x0a\\xe2\\x80\\xae'"},
        {xml_text, "resnet50 fp16\t2 ranks\r\n", "resnet50 fp16\t2 ranks\r\n"},
        {xml_text, "\xC3\xA9 \xE2\x89\xA4 \xF0\x9F\x8C\x8D", "\u00e9 \u2264 \U0001f30d"},
        {xml_text, "<a b=\"x\">&amp;</a>", "&lt;a b=&quot;x&quot;&gt;&amp;amp;&lt;/a&gt;"},
        {xml_text, "\x01 a\x1B[31m", "? a?[31m"},
        {xml_text, "a\xEF\xBF\xBE b\xEF\xBF\xBF", "a? b?"},         /* U+FFFE and U+FFFF */
        {xml_text, "\xEF\xBF\xBD\xEF\xBF", "\xEF\xBF\xBD\xEF\xBF"}, /* U+FFFD, and a part of it */
    };
    for (int i = 0; i < COUNT(cases); i++) {
        struct text_stream s;
        assert_int_equal(text_stream_open(&s), STATUS_OK);
        cases[i].print(s.out, cases[i].text);
        assert_int_equal(text_stream_close(&s), STATUS_OK);
        assert_int_equal(s.size, strlen(s.text));
        assert_string_equal(s.text, cases[i].want);
        free(s.text);
    }
}

/* A name in a message is escaped for the terminal. */
static void test_hostile_message(void **state)
{
    static const char hostile[] = "a\033]0;x\007\nb\xe2\x80\xae z";
    assert_int_equal(status_fail(STATUS_DATA, "cannot open '%s'", hostile), STATUS_DATA);
    assert_string_equal(status_message(), "cannot open 'a?]0;x??b??? z'");
    assert_int_equal(status_context(STATUS_DATA, "'%s'", "\033[2J\xc3\xa4"), STATUS_DATA);
    assert_string_equal(status_message(), "'?[2J\xc3\xa4': cannot open 'a?]0;x??b??? z'");
    assert_int_equal(status_fail(STATUS_DATA, "again: %s", status_message()), STATUS_DATA);
    assert_string_equal(status_message(), "again: '?[2J\xc3\xa4': cannot open 'a?]0;x??b??? z'");
}

static void test_first_failure(void **state)
{
    struct first_failure first = {0};
    first_failure_keep(&first, STATUS_OK);
    assert_int_equal(first_failure_return(&first), STATUS_OK);
    first_failure_keep(&first, status_fail(STATUS_DATA, "the first"));
    first_failure_keep(&first, status_fail(STATUS_IO, "the second"));
    assert_int_equal(status_fail(STATUS_OOM, "a third"), STATUS_OOM);
    assert_int_equal(first_failure_return(&first), STATUS_DATA);
    assert_string_equal(status_message(), "the first");
}

static void test_nearest(void **state)
{
    static const char *const known[] = {"batch-size", "epochs",  "lr",   "lr-step", "node-rank",
                                        "out",        "workers", "seed", "steps",   NULL};
    static const char *const cases[][2] = {
        /* two neighbouring letters are exchanged, which counts as one edit */
        {"--wrokers", "; did you mean --workers?"},
        {"--epochs=9", "; did you mean --epochs?"},
        {"--Batch_Sise=9", "; did you mean --batch-size?"},
        {"--ltr", "; did you mean --lr?"},
        {"--node_rnak", "; did you mean --node-rank?"},
        {"--lr-stop", "; did you mean --lr-step?"},
        {"--tous", ""}, /* "tous" differs from "out" by three edits, which are too many */
        {"--", ""},
        {"--a-flag-with-a-name-far-longer-than-any-that-there-is-or-will-be", ""},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char hint[128];
        struct nearest near = nearest_to(cases[i][0]);
        for (int k = 0; known[k]; k++)
            nearest_offer(&near, known[k], strlen(known[k]));
        nearest_say(&near, "--", hint, sizeof hint);
        assert_string_equal(hint, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),        cmocka_unit_test(test_cut_between_characters),
        cmocka_unit_test(test_escaped),       cmocka_unit_test(test_hostile_message),
        cmocka_unit_test(test_first_failure), cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
