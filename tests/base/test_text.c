/* Text composed in buffers and in allocated memory. */
#include "base/text.h"
#include "base/text_new.h"
#include "base/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_append(void **state)
{
    (void)state;
    char out[16] = "ab";
    assert_true(text_append(out, sizeof out, "-%d", 12));
    assert_true(text_append(out, sizeof out, "%s", ""));
    assert_string_equal(out, "ab-12");
    assert_true(text_append(out, sizeof out, "%s", "0123456789"));
    assert_string_equal(out, "ab-120123456789");
    assert_false(text_append(out, sizeof out, "x"));
    assert_string_equal(out, "ab-120123456789");
}

static void test_join(void **state)
{
    (void)state;
    char out[12] = "";
    assert_true(text_join(out, sizeof out, ", ", "%s", "one"));
    assert_true(text_join(out, sizeof out, ", ", "%s", "two"));
    assert_string_equal(out, "one, two");
    assert_false(text_join(out, sizeof out, ", ", "%s", "three"));
    assert_string_equal(out, "one, two, t");
}

/* A cut must not divide a character. The euro sign has three bytes, and U+1F30D has four bytes. */
static void test_cut_between_characters(void **state)
{
    (void)state;
    static const char *const want[] = {[1] = "",
                                       [2] = "",
                                       [3] = "",
                                       [4] = "\xe2\x82\xac",
                                       [5] = "\xe2\x82\xac",
                                       [6] = "\xe2\x82\xac",
                                       [7] = "\xe2\x82\xac",
                                       [8] = "\xe2\x82\xac\xf0\x9f\x8c\x8d"};
    for (size_t size = 1; size <= 8; size++) {
        char out[16] = "";
        assert_int_equal(text_append(out, size, "\xe2\x82\xac%s", "\xf0\x9f\x8c\x8d"), size == 8);
        assert_string_equal(out, want[size]);
    }
    char kept[4] = "\xe2\x82"; /* the earlier text stays */
    assert_false(text_append(kept, sizeof kept, "%s", "\xc3\xa9"));
    assert_string_equal(kept, "\xe2\x82");
}

static char *printed(void print(FILE *out, const char *text), const char *text)
{
    struct text_stream s;
    assert_int_equal(text_stream_open(&s), STATUS_OK);
    print(s.out, text);
    assert_int_equal(text_stream_close(&s), STATUS_OK);
    return s.text;
}

static void print_line(FILE *out, const char *text)
{
    text_print(out, "<%s>", text);
}

static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        void (*print)(FILE *, const char *);
        const char *text, *want;
    } cases[] = {
        {print_line, "a\033[31m\nb\xe2\x80\xae", "<a?[31m?b??\x3f>\n"},
        {text_print_csv, "plain", "plain"},
        {text_print_csv, "=1+1", "'=1+1"},
        {text_print_csv, "+1", "'+1"},
        {text_print_csv, "-1", "'-1"},
        {text_print_csv, "@sum(a,b)", "\"'@sum(a,b)\""},
        {text_print_csv, "a\"\r\n\033", "\"a\"\"???\""},
        {shell_word, "plain-1.0", "plain-1.0"},
        {shell_word, "a 'b'$(c)", "'a '\\''b'\\''$(c)'"},
        {shell_word, "\xc3\xa4;b", "'\xc3\xa4;b'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = printed(cases[i].print, cases[i].text);
        assert_string_equal(out, cases[i].want);
        free(out);
    }
}

static void test_full_buffer(void **state)
{
    (void)state;
    char out[4] = {'a', 'b', 'c', 'd'};
    assert_false(text_append(out, sizeof out, "x"));
    assert_memory_equal(out, "abcd", 4);
}

static void test_new(void **state)
{
    (void)state;
    char *text;
    assert_int_equal(text_new(&text, "%s %d", "rank", 3), STATUS_OK);
    assert_string_equal(text, "rank 3");
    free(text);
}

static void test_stream(void **state)
{
    (void)state;
    struct text_stream s;
    assert_int_equal(text_stream_open(&s), STATUS_OK);
    for (int i = 0; i < 10000; i++)
        fputs("0123456789", s.out);
    assert_int_equal(text_stream_close(&s), STATUS_OK);
    assert_int_equal(s.size, 100000);
    assert_int_equal(strlen(s.text), 100000);
    free(s.text);
}

static void test_shell_words(void **state)
{
    (void)state;
    struct words w = {0};
    char *line;
    assert_int_equal(words_add(&w, "plain-1.5"), STATUS_OK);
    assert_int_equal(words_add(&w, "it's"), STATUS_OK);
    assert_int_equal(words_add(&w, "Gr\u00fc\u00dfe und mehr"), STATUS_OK);
    assert_int_equal(words_add(&w, "\x1b[2J'\\\n\u202e"), STATUS_OK);
    assert_int_equal(words_shell(&w, &line), STATUS_OK);
    assert_string_equal(line, "plain-1.5 'it'\\''s' 'Gr\u00fc\u00dfe und mehr' "
                              "$'\\x1b[2J\\x27\\x5c\\x0a\\xe2\\x80\\xae'");
    free(line);
    words_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_cut_between_characters),
        cmocka_unit_test(test_full_buffer),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_shell_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
