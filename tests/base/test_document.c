/* Documents as Markdown and as HTML: text is unchanged, whatever characters it has. */
#include "base/document.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Writes a small document; the caller frees. */
static char *document(const struct format *format)
{
    char *text = NULL;
    size_t size;
    struct writer w = {.format = format, .out = open_memstream(&text, &size)};
    struct table t = table_begin("name|>images/s"), list = {0};
    struct table none = table_begin("name|>images/s");
    assert_non_null(w.out);
    format->begin(w.out, "A & B");
    writer_heading(&w, 2, "x_%d", 1);
    writer_paragraph(&w, "<b> | %s", "*");
    writer_code(&w, "a <b>");
    table_add(&t, "%s", "|<i>");
    table_add_amount(&t, 1234.56);
    table_add(&t, "%s", "none");
    table_add_amount(&t, NAN);
    writer_table(&w, &t);
    writer_table(&w, &none);
    table_add(&list, "%s", "first");
    writer_list(&w, &list);
    format->end(w.out);
    assert_int_equal(w.st, STATUS_OK);
    fclose(w.out);
    return text;
}

static void test_markdown(void **state)
{
    (void)state;
    char *text = document(&format_markdown);
    assert_string_equal(text, "# A & B\n"
                              "\n## x\\_1\n"
                              "\n\\<b\\> \\| \\*\n"
                              "\n```sh\na <b>\n```\n"
                              "\n| name | images/s |\n|---|---:|\n"
                              "| \\|\\<i\\> | 1235 |\n| none | – |\n"
                              "\n- first\n");
    free(text);
}

static void test_html(void **state)
{
    (void)state;
    char *text = document(&format_html);
    static const char *const want[] = {
        "<title>A &amp; B</title>",
        "<h2>x_1</h2>",
        "<p>&lt;b&gt; | *</p>",
        "<pre>a &lt;b&gt;</pre>",
        "<tr><th>name</th><th class=\"number\">images/s</th></tr>",
        "<tr><td>|&lt;i&gt;</td><td class=\"number\">1235</td></tr>",
        "<ul>\n<li>first</li>\n</ul>",
        "</html>",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!strstr(text, want[i]))
            fail_msg("'%s' is not in\n%s", want[i], text);
    free(text);
}

/* The test vectors of RFC 4648, section 10. */
static void test_picture(void **state)
{
    (void)state;
    static const char *const vector[][2] = {{"f", "Zg=="},         {"fo", "Zm8="},
                                            {"foo", "Zm9v"},       {"foob", "Zm9vYg=="},
                                            {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
        char path[] = "/tmp/ampscale-XXXXXX", want[64], *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        int fd = mkstemp(path);
        assert_true(fd >= 0 && out);
        assert_int_equal(write(fd, vector[i][0], strlen(vector[i][0])), strlen(vector[i][0]));
        close(fd);
        assert_int_equal(format_html.figure(out, path, path, "a \"b\""), STATUS_OK);
        fclose(out);
        snprintf(want, sizeof want, "src=\"data:image/png;base64,%s\"", vector[i][1]);
        assert_non_null(strstr(text, want));
        assert_non_null(strstr(text, "alt=\"a &quot;b&quot;\""));
        unlink(path);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_html),
        cmocka_unit_test(test_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
