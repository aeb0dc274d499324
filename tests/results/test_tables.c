/* Tests files with a line per node, and tables of published results (predict_published reads those
 * of this project). Valid files are read, invalid files are refused. */
#include "results/nodes.h"
#include "results/published.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a file, and returns its path. */
static const char *file_of(const char *dir, const char *text, size_t size)
{
    scratch_write(dir, "table", text, size);
    return scratch_path(dir, "table");
}

static enum status load_nodes(const char *dir, const char *text, size_t size, struct nodes *nodes)
{
    return nodes_read(file_of(dir, text, size), nodes);
}

static void test_nodes(void **state)
{
    static const char text[] =
        "{\"node\": \"b-1.x\", \"mem_bw/copy:0\": 12, \"a/b\": 1.5, \"gone\": null}\n"
        "{\"node\": \"b2\", \"hardware\": \"two\\nlines\"}\n";
    struct nodes nodes = {0};
    expect_ok(load_nodes(*state, text, sizeof text - 1, &nodes));
    assert_int_equal(nodes.n, 2);
    const struct node_row *first = &nodes.node[0];
    assert_string_equal(first->name, "b-1.x");
    assert_string_equal(first->hardware, "");
    assert_int_equal(first->n, 3);
    assert_true(node_find(first, "a/b")->value == 1.5);
    assert_true(isnan(node_find(first, "gone")->value));
    assert_null(node_find(first, "a"));
    assert_string_equal(nodes.node[1].hardware, "two?lines");
    nodes_free(&nodes);
}

static void test_bad_nodes(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "has no node"},
        {"{\"node\": \"a\"}", "ends within a line"},
        {"{\"node\": \"a\", \"x\": 1, \"x\": 2}\n", "duplicate"},
        {"{\"x\": 1}\n", "cannot be the name of a node"},
        {"{\"node\": \"../a\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"-rf\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"a\"}\n{\"node\": \"a\"}\n", "line 2: node 'a' occurs twice"},
        {"{\"node\": \"a\", \"x\": \"1\"}\n", "'x' is not a number"},
        {"{\"node\": \"a\", \"x\\u0007\": 1}\n", "cannot be the name of a metric"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct nodes nodes = {0};
        expect_failed(load_nodes(*state, bad[i].text, strlen(bad[i].text), &nodes), STATUS_DATA,
                      bad[i].says);
        nodes_free(&nodes);
    }
}

/* Too deep nesting, too long a name, and too many metrics must be refused. */
static void test_excess(void **state)
{
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    struct nodes nodes = {0};
    memset(text, '[', SIZE - 1);
    text[SIZE - 1] = '\n';
    assert_int_equal(load_nodes(*state, text, SIZE, &nodes), STATUS_DATA);
    size_t n = (size_t)sprintf(text, "{\"node\": \"%0300d\"}\n", 0);
    assert_int_equal(load_nodes(*state, text, n, &nodes), STATUS_DATA);
    n = (size_t)sprintf(text, "{\"node\": \"a\"");
    for (int i = 0; i <= NODE_METRICS_MAX; i++)
        n += (size_t)sprintf(text + n, ", \"%d\": 1", i);
    n += (size_t)sprintf(text + n, "}\n");
    assert_int_equal(load_nodes(*state, text, n, &nodes), STATUS_DATA);
    assert_non_null(strstr(status_message(), "metrics"));
    free(text);
}

static enum status load_table(const char *dir, const char *text, size_t size, struct published *p)
{
    return published_load(file_of(dir, text, size), p);
}

static void test_published(void **state)
{
    static const char text[] = "# a comment\n"
                               "gpus,series,images_per_s,efficiency,overlap\r\n"
                               "# source: here and there\n"
                               "2,one,100,,yes\r\n"
                               "8,two,,90,\n"
                               "\n"
                               "4,one,150,,yes\n";
    struct published p;
    const struct published_series *s;
    expect_ok(load_table(*state, text, sizeof text - 1, &p));
    assert_int_equal(p.n, 2);
    expect_ok(published_find(&p, "one", &s));
    assert_int_equal(s->n, 2);
    assert_string_equal(s->source, "here and there");
    assert_string_equal(s->overlap, "yes");
    assert_true(published_efficiency(s, 1) == 75);
    assert_true(isnan(s->point[1].train_time_s) && s->point[1].batch_per_gpu == 0);
    assert_true(published_efficiency(&p.series[1], 0) == 90);
    assert_int_equal(published_find(&p, "three", &s), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "one, two"));
    published_free(&p);
}

static void test_bad_published(void **state)
{
    static const char *const bad[] = {
        "",
        "gpus,images_per_s\n1,2\n",
        "gpus,series,colour\n1,a,red\n",
        "gpus,series,gpus\n1,a,1\n",
        "gpus,series,images_per_s\n1,a,2,3\n",
        "gpus,series,images_per_s\n1,a,2",
        "gpus,series,images_per_s\n1,a,\n",
        "gpus,series,images_per_s\n0,a,2\n",
        "gpus,series,images_per_s\n1.5,a,2\n",
        "gpus,series,images_per_s\n1,a,nan\n",
        "gpus,series,images_per_s\n2,a,2\n2,a,3\n",
        "gpus,series,images_per_s\n1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,2\n",
        "gpus,series,images_per_s,overlap\n1,a,2,maybe\n",
        "gpus,series,images_per_s,arch\n1,a,2,x\n2,a,2,y\n",
        ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n",
    };
    struct published p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (load_table(*state, bad[i], strlen(bad[i]), &p) != STATUS_DATA)
            fail_msg("taken: %s", bad[i]);
    static const char nul[] = "gpus,series,images_per_s\n1,a\0b,2\n";
    assert_int_equal(load_table(*state, nul, sizeof nul - 1, &p), STATUS_DATA);
    assert_int_equal(published_load("/nowhere/table.csv", &p), STATUS_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_nodes),     IN_FOLDER(test_bad_nodes),     IN_FOLDER(test_excess),
        IN_FOLDER(test_published), IN_FOLDER(test_bad_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
