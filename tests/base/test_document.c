/* Documents as Markdown and as HTML: text is unchanged, whatever characters it has. */
#include "base/document.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text of a small document. The caller frees it. */
static char *document(const char *dir, const struct format *format)
{
    char path[SCRATCH_MAX + 8];
    size_t size;
    struct writer w;
    struct table t = table_begin("name|~>images/s|verdict"), list = {0}, bare = table_begin("|");
    snprintf(path, sizeof path, "%s/text", dir);
    assert_int_equal(writer_begin(&w, format, path, "A & B"), STATUS_OK);
    writer_heading(&w, 2, "x_%d", 1);
    writer_paragraph(&w, "<b> | %s", "*");
    writer_code(&w, "a <b>");
    table_add(&t, "%s", "|<i>");
    table_add_amount(&t, 1234.56);
    table_add(&t, "PASS");
    table_add(&t, "%s", "none");
    table_add_amount(&t, NAN);
    table_add(&t, "no verdict");
    writer_table(&w, &t);
    writer_heading(&w, 3, "X 1");
    writer_heading(&w, 3, "<\u2013>");
    table_add(&bare, "key");
    table_add(&bare, "a text that is longer than what fits into a narrow column of a table");
    writer_table(&w, &bare);
    table_add(&list, "%s", "first");
    writer_list(&w, &list);
    assert_int_equal(writer_end(&w), STATUS_OK);
    return scratch_read(dir, "text", &size);
}

static void test_markdown(void **state)
{
    char *text = document(*state, &format_markdown);
    assert_string_equal(text, "# A & B\n"
                              "\n- [x\\_1](#x_1)\n  - [X 1](#x-1)\n  - [\\<–\\>](#section)\n"
                              "\n## x\\_1\n"
                              "\n\\<b\\> \\| \\*\n"
                              "\n```sh\na <b>\n```\n"
                              "\n| name | images/s | verdict |\n|---|---:|---|\n"
                              "| \\|\\<i\\> | 1230 | PASS |\n| none | – | no verdict |\n"
                              "\n### X 1\n\n### \\<–\\>\n"
                              "\n|  |  |\n|---|---|\n| key | a text that is longer than what fits "
                              "into a narrow column of a table |\n"
                              "\n- first\n");
    free(text);
}

/* Texts are escaped, and every heading has its own link. */
static void test_html(void **state)
{
    char *text = document(*state, &format_html);
    static const char *const want[] = {
        "<title>A &amp; B</title>",
        "<h2 id=\"x_1\">x_1</h2>",
        "<h3 id=\"x-1\">X 1</h3>",
        "<h3 id=\"section\">&lt;–&gt;</h3>",
        "<p>&lt;b&gt; | *</p>",
        "<pre>a &lt;b&gt;</pre>",
        "<td>|&lt;i&gt;</td><td class=\"number extra\">1230</td><td class=\"verdict "
        "good\">PASS</td>",
        "<li>first</li>",
    };
    for (int i = 0; i < COUNT(want); i++)
        if (!strstr(text, want[i]))
            fail_msg("'%s' is not in\n%s", want[i], text);
    free(text);
}

/* A document of two records on one machine, with hostile texts. */
static char *records(const char *dir, const struct format *format)
{
    char path[SCRATCH_MAX + 8];
    size_t size;
    struct writer w;
    struct table t = table_begin("cell|~>devices|verdict");
    snprintf(path, sizeof path, "%s/text", dir);
    assert_int_equal(writer_begin(&w, format, path, "Results"), STATUS_OK);
    writer_heading(&w, 2, "node 7");
    writer_summary(&w, "2 <cores>");
    writer_heading(&w, 3, "Study: <b>_数据");
    writer_headline(&w, "2 devices: **1.9x** </p>");
    writer_marked(&w, "Quality", "poor", "%d of %d <runs>", 3, 4);
    table_add(&t, "ddp-fp32-resnet8-2x32");
    table_add(&t, "2");
    table_add(&t, "slow rank 1");
    writer_table(&w, &t);
    writer_fold(&w, "More </summary> | *");
    writer_paragraph(&w, "inside");
    writer_fold_end(&w);
    writer_heading(&w, 3, "Runs");
    assert_int_equal(writer_end(&w), STATUS_OK);
    return scratch_read(dir, "text", &size);
}

/* The document begins with a list of its records, whose links are GitHub's. */
static void test_records_markdown(void **state)
{
    char *text = records(*state, &format_markdown);
    assert_string_equal(
        text, "# Results\n"
              "\n- [node 7](#node-7): 2 \\<cores\\>\n"
              "  - [Study: \\<b\\>\\_数据](#study-b_数据): 2 devices: \\*\\*1.9x\\*\\* \\</p\\>\n"
              "  - [Runs](#runs)\n"
              "\n## node 7\n\n### Study: \\<b\\>\\_数据\n"
              "\n**2 devices: \\*\\*1.9x\\*\\* \\</p\\>**\n"
              "\nQuality: **poor**. 3 of 4 \\<runs\\>\n"
              "\n| cell | devices | verdict |\n|---|---:|---|\n"
              "| ddp-fp32-resnet8-2x32 | 2 | slow rank 1 |\n"
              "\n<details>\n<summary>More &lt;/summary&gt; | *</summary>\n"
              "\ninside\n\n</details>\n\n### Runs\n");
    free(text);
}

static void test_records_html(void **state)
{
    char *text = records(*state, &format_html);
    static const char *const want[] = {
        "<ul class=\"overview\">\n<li class=\"level-2\"><a href=\"#node-7\">node 7</a>: 2 "
        "&lt;cores&gt;</li>",
        "<a href=\"#study-b_数据\">Study: &lt;b&gt;_数据</a>: 2 devices: **1.9x** &lt;/p&gt;</li>",
        "<h3 id=\"study-b_数据\">",
        "<p class=\"headline\">2 devices: **1.9x** &lt;/p&gt;</p>",
        "Quality: <strong class=\"verdict bad\">poor</strong>. 3 of 4 &lt;runs&gt;",
        "<td class=\"name\">ddp-<wbr>fp32-<wbr>resnet8-<wbr>2x32</td><td class=\"number "
        "extra\">2</td>"
        "<td class=\"verdict warn\">slow rank 1</td>",
        "<details id=\"more-summary--\"><summary>More &lt;/summary&gt; | *</summary>",
        "<li class=\"level-4\"><a href=\"#more-summary--\">More &lt;/summary&gt; | *</a></li>",
    };
    for (int i = 0; i < COUNT(want); i++)
        if (!strstr(text, want[i]))
            fail_msg("'%s' is not in\n%s", want[i], text);
    free(text);
}

/* The test vectors of RFC 4648, section 10. */
static void test_picture(void **state)
{
    static const char *const vector[][2] = {
        {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    for (int i = 0; i < COUNT(vector); i++) {
        char path[SCRATCH_MAX + 8], want[64], *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        snprintf(path, sizeof path, "%s/png", (char *)*state);
        scratch_write(*state, "png", vector[i][0], strlen(vector[i][0]));
        assert_int_equal(format_html.figure(out, path, path, "a \"b\"", "a-b"), STATUS_OK);
        fclose(out);
        snprintf(want, sizeof want, "src=\"data:image/png;base64,%s\"", vector[i][1]);
        assert_non_null(strstr(text, want));
        assert_non_null(strstr(text, "alt=\"a &quot;b&quot;\""));
        assert_non_null(strstr(text, "<figure id=\"a-b\">"));
        assert_non_null(strstr(text, "<figcaption>a &quot;b&quot;</figcaption>"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_markdown),     IN_FOLDER(test_html),    IN_FOLDER(test_records_markdown),
        IN_FOLDER(test_records_html), IN_FOLDER(test_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
