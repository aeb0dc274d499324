/* Tests files that have one line per node: valid files are read, invalid files are refused. */
#include "results/nodes.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int set_up(void **state)
{
    char *dir = malloc(SCRATCH_MAX);
    scratch_make(dir);
    *state = dir;
    return 0;
}

static int tear_down(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}

static enum status load(const char *dir, const char *text, size_t size, struct nodes *nodes)
{
    char path[SCRATCH_MAX + 16];
    scratch_write(dir, "nodes.jsonl", text, size);
    snprintf(path, sizeof path, "%s/nodes.jsonl", dir);
    return nodes_read(path, nodes);
}

static void test_reading(void **state)
{
    static const char text[] =
        "{\"node\": \"b-1.x\", \"mem_bw/copy:0\": 12, \"a/b\": 1.5, \"gone\": null}\n"
        "{\"node\": \"b2\", \"hardware\": \"two\\nlines\"}\n";
    struct nodes nodes = {0};
    assert_int_equal(load(*state, text, sizeof text - 1, &nodes), STATUS_OK);
    assert_int_equal(nodes.n, 2);
    const struct node_row *first = &nodes.node[0];
    assert_string_equal(first->name, "b-1.x");
    assert_string_equal(first->hardware, "");
    assert_int_equal(first->n, 3);
    assert_true(node_find(first, "a/b")->value == 1.5);
    assert_true(node_find(first, "mem_bw/copy:0")->value == 12);
    assert_true(isnan(node_find(first, "gone")->value));
    assert_null(node_find(first, "a"));
    assert_string_equal(nodes.node[1].hardware, "two?lines");
    assert_null(node_find(&nodes.node[1], "a/b"));
    nodes_free(&nodes);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "has no node"},
        {"{\"node\": \"a\"}", "ends within a line"},
        {"\n", "line 1"},
        {"[]\n", "line 1"},
        {"7\n", "line 1"},
        {"{\"node\": \"a\", \"x\": 1, \"x\": 2}\n", "duplicate"},
        {"{\"node\": \"a\"} {\"node\": \"b\"}\n", "line 1"},
        {"{\"x\": 1}\n", "cannot be the name of a node"},
        {"{\"node\": 7}\n", "cannot be the name of a node"},
        {"{\"node\": \"\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"../a\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"-rf\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"a\\nb\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"a b\"}\n", "cannot be the name of a node"},
        {"{\"node\": \"a\"}\n{\"node\": \"a\"}\n", "line 2: node 'a' occurs twice"},
        {"{\"node\": \"a\", \"x\": \"1\"}\n", "'x' is not a number"},
        {"{\"node\": \"a\", \"x\": true}\n", "'x' is not a number"},
        {"{\"node\": \"a\", \"x\": {\"y\": 1}}\n", "'x' is not a number"},
        {"{\"node\": \"a\", \"hardware\": 3, \"x\": []}\n", "'x' is not a number"},
        {"{\"node\": \"a\", \"x\": 1e999}\n", "line 1"},
        {"{\"node\": \"a\", \"x\": NaN}\n", "line 1"},
        {"{\"node\": \"a\", \"x\\u0007\": 1}\n", "cannot be the name of a metric"},
        {"{\"node\": \"a\", \"\": 1}\n", "cannot be the name of a metric"},
        {"{\"node\": \"a\", \"x\\u0000y\": 1}\n", "line 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct nodes nodes = {0};
        enum status st = load(*state, bad[i].text, strlen(bad[i].text), &nodes);
        if (st != STATUS_DATA || !strstr(status_message(), bad[i].says))
            fail_msg("'%s': %s, '%s'", bad[i].text, status_str(st), status_message());
        nodes_free(&nodes);
    }
}

/* Files with too deep nesting, too many lines or metrics, or too long names must be refused. */
static void test_excess(void **state)
{
    enum { SIZE = 1 << 20 };
    char *text = malloc(2 * SIZE);
    struct nodes nodes = {0};
    memset(text, '[', SIZE - 2);
    text[SIZE - 2] = '\n';
    assert_int_equal(load(*state, text, SIZE - 1, &nodes), STATUS_DATA);
    memset(text, 'x', 2 * SIZE);
    assert_int_equal(load(*state, text, 2 * SIZE, &nodes), STATUS_DATA);
    memcpy(text, "{\"node\": \"", 10);
    memset(text + 10, 'a', 300);
    memcpy(text + 310, "\"}\n", 3);
    assert_int_equal(load(*state, text, 313, &nodes), STATUS_DATA);
    size_t n = (size_t)sprintf(text, "{\"node\": \"a\"");
    for (int i = 0; i <= NODE_METRICS_MAX; i++)
        n += (size_t)sprintf(text + n, ", \"%d\": 1", i);
    n += (size_t)sprintf(text + n, "}\n");
    assert_int_equal(load(*state, text, n, &nodes), STATUS_DATA);
    assert_non_null(strstr(status_message(), "metrics"));
    assert_int_equal(nodes.n, 0);
    nodes_free(&nodes);
    free(text);
}

static void test_writing(void **state)
{
    char path[SCRATCH_MAX + 16];
    struct nodes nodes = {0};
    json_t *all = json_pack("{s:{s:s, s:f, s:n}, s:{s:s, s:s}}", "b", "node", "b", "x/y", 0.1, "z",
                            "a", "node", "a", "hardware", "h");
    snprintf(path, sizeof path, "%s/out.jsonl", (char *)*state);
    assert_non_null(all);
    assert_int_equal(nodes_write(all, path), STATUS_OK);
    assert_int_equal(nodes_read(path, &nodes), STATUS_OK);
    assert_int_equal(nodes.n, 2);
    assert_string_equal(nodes.node[0].name, "b");
    assert_true(node_find(&nodes.node[0], "x/y")->value == 0.1);
    assert_true(isnan(node_find(&nodes.node[0], "z")->value));
    assert_string_equal(nodes.node[1].hardware, "h");
    nodes_free(&nodes);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_excess, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
