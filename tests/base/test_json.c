/* Tests that JSON is built, written and read, and that failures of these calls are reported. */
#include "base/json.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void put_nothing(json_t *object)
{
    json_put(object, "d", NULL);
}

static void put_nowhere(json_t *object)
{
    (void)object;
    json_put(NULL, "d", json_true());
}

static void add_no_text(json_t *object)
{
    json_add(json_object_get(object, "list"), json_string("\xff"));
}

static void make_of_nothing(json_t *object)
{
    (void)object;
    json_decref(json_new("{s:o}", "a", NULL));
}

static void write_nothing(json_t *object)
{
    (void)object;
    _exit(json_write(NULL, JSON_RECORD, "no-such-folder/json") == STATUS_OK ? 0 : 5);
}

/* The exit code of a process that calls `call`; 0 if the call returns. */
static int code_of(void (*call)(json_t *object), json_t *object)
{
    int code;
    pid_t pid = fork();
    if (pid == 0) {
        call(object);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &code, 0), pid);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

/* The reader of the record finds null for what is not a number. A failure to make a member is not
 * lost. */
static void test_build(void **state)
{
    json_t *object = json_new("{s:s, s:i, s:f, s:[]}", "text", "x", "n", 3, "real", 0.5, "list");
    void (*const fails[])(json_t * object) = {put_nothing, put_nowhere, add_no_text,
                                              make_of_nothing, write_nothing};
    for (int i = 0; i < COUNT(fails); i++)
        assert_int_equal(code_of(fails[i], object), status_exit_code(STATUS_OOM));
    json_put(object, "nan", json_finite(NAN));
    json_put(object, "finite", json_finite(2.5));
    json_put(object, "packed", json_new("{s:s, s:f}", "name", "a\xff", "inf", INFINITY));
    assert_string_equal(json_text_at(json_object_get(object, "packed"), "name"), "a?");
    assert_true(json_is_null(json_object_get(json_object_get(object, "packed"), "inf")));
    assert_true(json_is_null(json_object_get(object, "nan")));
    assert_true(json_number_at(object, "finite") == 2.5);
    assert_string_equal(json_text_at(object, "text"), "x");
    assert_string_equal(json_text_at(object, "n"), "");
    assert_true(json_number_at(object, "n") == 3 && isnan(json_number_at(object, "text")));
    json_decref(object);
}

static void test_write_and_read(void **state)
{
    char path[SCRATCH_MAX + 8];
    json_t *object = json_new("{s:[i, i]}", "list", 1, 2), *read;
    snprintf(path, sizeof path, "%s/json", (char *)*state);
    assert_int_equal(json_write(json_incref(object), JSON_RECORD, "%s", path), STATUS_OK);
    assert_int_equal(json_read(path, 1000, &read), STATUS_OK);
    assert_true(json_equal(object, read));
    json_decref(read);
    assert_int_equal(json_read(path, 3, &read), STATUS_DATA);
    assert_null(read);
    assert_int_not_equal(json_read("no-such-file", 1000, &read), STATUS_OK);
    assert_null(read);
    json_decref(object);
}

/* A setting reads back as it was, and nobody has to read 0.10000000000000001. */
static void test_exact_numbers(void **state)
{
    static const double exact[] = {0.1,    700,    1.0 / 3, 1795372822.4050944, 65536,    1e-5,
                                   1e300,  5e-324, -0.0,    279.17373105137256, 123456.7, 1e17,
                                   -2.5e-7};
    json_t *list = json_array(), *read;
    (void)state;
    for (int i = 0; i < COUNT(exact); i++)
        json_add(list, json_real(exact[i]));
    json_add(list, json_string("0.10000000000000001 \\ \" 1.50"));
    json_add(list, json_integer(12345678901234));
    char *text = json_text(list, JSON_COMPACT);
    static const char begin[] = "[0.1,700.0,0.3333333333333333,1795372822.4050944,65536.0,1e-5,";
    assert_memory_equal(text, begin, strlen(begin));
    assert_non_null(strstr(text, "\"0.10000000000000001 \\\\ \\\" 1.50\",12345678901234]"));
    assert_int_equal(json_parse(text, strlen(text), "text", &read), STATUS_OK);
    for (int i = 0; i < COUNT(exact); i++) {
        assert_true(json_is_real(json_array_get(read, (size_t)i)));
        assert_true(json_real_value(json_array_get(read, (size_t)i)) == exact[i]);
    }
    free(text);
    json_decref(read);
    json_decref(list);
    assert_null(json_text(NULL, JSON_COMPACT));
}

/* A measurement has nine digits, in a record of either kind. */
static void test_measured_numbers(void **state)
{
    json_t *x = json_measured(279.17373105137256), *none = json_measured(INFINITY);
    (void)state;
    char *exact = json_text(x, JSON_ENCODE_ANY),
         *record = json_text(x, JSON_ENCODE_ANY | JSON_RECORD);
    assert_string_equal(exact, "279.173731");
    assert_string_equal(record, "279.173731");
    assert_true(json_is_null(none));
    free(exact);
    free(record);
    json_decref(x);
    json_decref(none);
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
        cmocka_unit_test(test_exact_numbers),
        cmocka_unit_test(test_measured_numbers),
        cmocka_unit_test(test_parse_names_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
