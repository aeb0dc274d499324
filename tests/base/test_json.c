/* Tests that JSON is built, written and read, and that failures of these calls are reported. */
#include "base/json.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The reader of the record finds null for what is not a number. A failure to allocate a member is
 * not lost. */
static void test_build(void **state)
{
    json_t *object;
    assert_int_equal(json_new(&object, "{s:s, s:i, s:f}", "text", "x", "n", 3, "real", 0.5),
                     STATUS_OK);
    assert_int_equal(json_put(object, "nan", json_finite(NAN)), STATUS_OK);
    assert_int_equal(json_put(object, "finite", json_finite(2.5)), STATUS_OK);
    assert_int_equal(json_put(object, "d", NULL), STATUS_OOM);
    assert_int_equal(json_put(NULL, "d", json_true()), STATUS_OOM);
    assert_true(json_is_null(json_object_get(object, "nan")));
    assert_true(json_number_at(object, "finite") == 2.5);
    assert_string_equal(json_text_at(object, "text"), "x");
    assert_string_equal(json_text_at(object, "n"), "");
    assert_true(json_number_at(object, "n") == 3 && isnan(json_number_at(object, "text")));
    json_decref(object);
    assert_int_equal(json_new(&object, "{s:o}", "a", NULL), STATUS_OOM);
    assert_null(object);
}

static void test_write_and_read(void **state)
{
    char path[SCRATCH_MAX + 8];
    json_t *object, *read;
    snprintf(path, sizeof path, "%s/json", (char *)*state);
    assert_int_equal(json_new(&object, "{s:[i, i]}", "list", 1, 2), STATUS_OK);
    assert_int_equal(json_write(json_incref(object), path, JSON_RECORD), STATUS_OK);
    assert_int_equal(json_read(path, 1000, &read), STATUS_OK);
    assert_true(json_equal(object, read));
    json_decref(read);
    assert_int_equal(json_read(path, 3, &read), STATUS_DATA);
    assert_null(read);
    assert_int_equal(json_write(NULL, path, JSON_RECORD), STATUS_OOM);
    assert_int_not_equal(json_read("no-such-file", 1000, &read), STATUS_OK);
    assert_null(read);
    json_decref(object);
}

static void test_parse_names_the_line(void **state)
{
    static const char broken[] = "{\n\"a\": }", twice[] = "{\"a\": 1,\n\"a\": 2}";
    json_t *value = json_true();
    assert_int_equal(json_parse(broken, strlen(broken), "x.json", &value), STATUS_DATA);
    assert_null(value);
    assert_non_null(strstr(status_message(), "'x.json' line 2"));
    assert_int_equal(json_parse(twice, strlen(twice), "x.json", &value), STATUS_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build),
        IN_FOLDER(test_write_and_read),
        cmocka_unit_test(test_parse_names_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
