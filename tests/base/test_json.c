/* Tests that JSON is built, written and read, and that failures of these calls are reported. */
#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_put_fails_on_null(void **state)
{
    (void)state;
    json_t *object;
    assert_int_equal(json_new(&object, "{s:i}", "a", 1), STATUS_OK);
    assert_int_equal(json_put(object, "b", json_finite(NAN)), STATUS_OK);
    assert_int_equal(json_put(object, "c", json_finite(2.5)), STATUS_OK);
    assert_int_equal(json_put(object, "d", NULL), STATUS_OOM);
    assert_int_equal(json_put(NULL, "d", json_true()), STATUS_OOM);
    assert_int_equal(json_add(NULL, json_true()), STATUS_OOM);
    assert_true(json_is_null(json_object_get(object, "b")));
    assert_int_equal(json_object_size(object), 3);
    json_decref(object);
    assert_int_equal(json_new(&object, "{s:o}", "a", NULL), STATUS_OOM);
    assert_null(object);
}

static void test_members(void **state)
{
    (void)state;
    json_t *object;
    assert_int_equal(json_new(&object, "{s:s, s:i, s:f}", "text", "x", "n", 3, "real", 0.5),
                     STATUS_OK);
    assert_string_equal(json_text_at(object, "text"), "x");
    assert_string_equal(json_text_at(object, "n"), "");
    assert_string_equal(json_text_at(NULL, "n"), "");
    assert_true(json_number_at(object, "n") == 3);
    assert_true(json_number_at(object, "real") == 0.5);
    assert_true(isnan(json_number_at(object, "text")));
    assert_true(isnan(json_number_at(object, "none")));
    json_decref(object);
}

static void test_write_and_read(void **state)
{
    (void)state;
    char path[] = "json-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    json_t *object, *read;
    assert_int_equal(json_new(&object, "{s:[i, i]}", "list", 1, 2), STATUS_OK);
    assert_int_equal(json_write(json_incref(object), path, JSON_RECORD), STATUS_OK);
    assert_int_equal(json_read(path, 1000, &read), STATUS_OK);
    assert_true(json_equal(object, read));
    json_decref(read);
    json_decref(object);
    assert_int_equal(json_read(path, 3, &read), STATUS_DATA);
    assert_null(read);
    assert_int_equal(json_write(NULL, path, JSON_RECORD), STATUS_OOM);
    unlink(path);
    assert_int_not_equal(json_read(path, 1000, &read), STATUS_OK);
    assert_null(read);
}

static void test_parse_names_the_line(void **state)
{
    (void)state;
    static const char broken[] = "{\n\"a\": }", twice[] = "{\"a\": 1,\n\"a\": 2}";
    json_t *value = json_true();
    assert_int_equal(json_parse(broken, strlen(broken), "x.json", &value), STATUS_DATA);
    assert_null(value);
    assert_non_null(strstr(status_message(), "'x.json' line 2: not valid JSON"));
    assert_int_equal(json_parse(twice, strlen(twice), "x.json", &value), STATUS_DATA);
}

static void test_print(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(json_print(json_pack("[i]", 7), out, JSON_COMPACT), STATUS_OK);
    assert_int_equal(json_print(NULL, out, JSON_COMPACT), STATUS_OOM);
    fclose(out);
    assert_string_equal(text, "[7]\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_fails_on_null),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_parse_names_the_line),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
