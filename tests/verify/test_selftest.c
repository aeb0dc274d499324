/* Tests the comparison with known values. Correct values pass, each kind of wrong value fails, and
 * incomplete files are refused. The known values come from the reference device. */
#include "tests/model/net_rig.h"
#include "tests/results/scratch.h"
#include "tests/verify/json_at.h"
#include "verify/oracle.h"
#include "verify/selftest.h"

static const char settings[] =
    "{\"arch\": \"resnet8\", \"classes\": 10, \"size\": 16, \"batch\": 4, \"steps\": 2,"
    " \"lr\": 0.01, \"momentum\": 0.9, \"weight_decay\": 1e-4, \"precision\": \"fp64\","
    " \"mode\": \"train\", \"step\": [{\"loss\": 0}, {\"loss\": 0}]}";

/* The case with correct values; computed once. */
static json_t *truth;

static int compute_truth(void **state)
{
    struct device *dev;
    struct oracle_case c;
    json_t *values;
    truth = json_loads(settings, 0, NULL);
    assert_non_null(truth);
    assert_ok(device_open("ref", 1, &dev));
    assert_ok(oracle_read(truth, &c));
    assert_ok(oracle_compute(dev, &c, &values));
    assert_int_equal(json_object_update(truth, values), 0);
    json_decref(values);
    device_close(dev);
    return 0;
}

static int drop_truth(void **state)
{
    json_decref(truth);
    return 0;
}

/* The outcome of a selftest. */
struct result {
    enum status st;
    char *text;
};

/* Runs the selftest on the bytes of an oracle file. */
static struct result run_bytes(const char *bytes, size_t size, bool json)
{
    char dir[SCRATCH_MAX], path[SCRATCH_MAX + 16];
    size_t length;
    struct result r;
    scratch_make(dir);
    scratch_write(dir, "oracle.json", bytes, size);
    snprintf(path, sizeof path, "%s/oracle.json", dir);
    struct selftest_config c = {
        .oracle = path, .devices = "cpu", .threads = 2, .json = json, .verbose = !json};
    c.out = open_memstream(&r.text, &length);
    assert_non_null(c.out);
    r.st = selftest_run(&c);
    fclose(c.out);
    scratch_remove(dir);
    return r;
}

/* Runs the selftest on a list of cases; takes ownership of the list. */
static struct result run_cases(json_t *cases, bool json)
{
    char *text = json_dumps(cases, JSON_REAL_PRECISION(17));
    assert_non_null(text);
    struct result r = run_bytes(text, strlen(text), json);
    free(text);
    json_decref(cases);
    return r;
}

/* Returns a list with a copy of the correct case, which the test may change through *one. */
static json_t *one_case(json_t **one)
{
    json_t *list = json_array();
    *one = json_deep_copy(truth);
    assert_int_equal(json_array_append_new(list, *one), 0);
    return list;
}

static void scale(json_t *number, double factor)
{
    if (json_is_integer(number))
        json_integer_set(number, json_integer_value(number) + 1);
    else
        json_real_set(number, json_number_value(number) * factor);
}

/* Correct values pass. Then changes one value by 1 %, or a count by 1. Only the line of this kind
 * of value must have FAIL. A value that the program does not compute fails too. */
static void every_false_value_is_found(void **state)
{
    static const char *const values[][2] = {
        {"step/0/loss", "loss"},
        {"step/1/loss", "loss"},
        {"step/0/logits_row0/3", "logits_row0"},
        {"step/0/grad_norm", "grad_norm"},
        {"step/1/grad_norm", "grad_norm"},
        {"step/0/grad_norms/fc.weight", "grad_norms"},
        {"step/1/weight_norm", "weight_norm"},
        {"step/0/top1", "top1"},
        {"step/0/top5", "top5"},
        {"buffer_norms/bn1.running_var", "buffer_norms"},
        {"buffer_norms/layer3.0.bn2.running_mean", "buffer_norms"},
        {"params", "params"},
    };
    json_t *one, *cases = one_case(&one);
    struct result r = run_cases(cases, false);
    assert_int_equal(r.st, STATUS_OK);
    assert_non_null(strstr(r.text, "1 of 1 cases hold"));
    free(r.text);
    for (int i = 0; i < COUNT(values); i++) {
        char line[64];
        cases = one_case(&one);
        scale(json_at(one, values[i][0]), 1.01);
        r = run_cases(cases, false);
        snprintf(line, sizeof line, "  FAIL %s ", values[i][1]);
        const char *first = strstr(r.text, line);
        if (r.st != STATUS_MISMATCH || !first || strstr(first + 1, "  FAIL ") ||
            !strstr(r.text, "0 of 1 cases hold"))
            fail_msg("%s off by 1 %%: %s\n%s", values[i][0], status_str(r.st), r.text);
        free(r.text);
    }
    cases = one_case(&one);
    json_object_set_new(json_object_get(one, "buffer_norms"), "bn9.running_mean", json_real(1));
    r = run_cases(cases, false);
    assert_int_equal(r.st, STATUS_MISMATCH);
    free(r.text);
}

/* The correct case runs together with a copy in fp32, which stands for results that PyTorch
 * computes in fp32 and does not count as a case. For one value, the program has the relative error
 * `got` and the copy has the relative error 1e-2. The tolerance is three times PyTorch's own error.
 * For the gradient norm it is ten times that error, because the norm depends on the drift of
 * earlier steps. Without fp64 values, the relative tolerance is 0.001. */
static void fp32_errors_widen_the_tolerance(void **state)
{
    static const struct {
        const char *value;
        bool fp64;
        double got;
        enum status want;
    } table[] = {
        {"step/0/loss", true, 2.8e-2, STATUS_OK},
        {"step/0/loss", true, 3.3e-2, STATUS_MISMATCH},
        {"step/0/logits_row0/3", true, 2.8e-2, STATUS_OK},
        {"step/0/logits_row0/3", true, 3.3e-2, STATUS_MISMATCH},
        {"step/0/grad_norm", true, 9e-2, STATUS_OK},
        {"step/0/grad_norm", true, 11e-2, STATUS_MISMATCH},
        {"step/0/loss", false, 8e-4, STATUS_OK},
        {"step/0/loss", false, 3e-3, STATUS_MISMATCH},
    };
    for (int i = 0; i < COUNT(table); i++) {
        json_t *one, *cases = one_case(&one), *fp32 = one;
        double got = table[i].got;
        if (table[i].fp64) {
            fp32 = json_deep_copy(truth);
            json_array_append_new(cases, fp32);
            scale(json_at(fp32, table[i].value), 1.01 / (1 + got));
        }
        json_object_set_new(fp32, "precision", json_string("fp32"));
        /* The test cannot change the program's value. It changes those of the cases. */
        scale(json_at(one, table[i].value), 1 / (1 + got));
        struct result r = run_cases(cases, false);
        if (r.st != table[i].want || !strstr(r.text, r.st == STATUS_OK ? "1 of 1" : "0 of 1"))
            fail_msg("%s: error %g: %s\n%s", table[i].value, got, status_str(r.st), r.text);
        free(r.text);
    }
}

static void json_says_the_same(void **state)
{
    json_t *one, *cases = one_case(&one), *family;
    scale(json_at(one, "step/0/loss"), 1.01);
    struct result r = run_cases(cases, true);
    assert_int_equal(r.st, STATUS_MISMATCH);
    json_t *out = json_loads(r.text, 0, NULL);
    free(r.text);
    assert_true(json_is_false(json_object_get(out, "ok")));
    json_t *ran = json_array_get(json_object_get(out, "cases"), 0);
    json_t *families = json_object_get(ran, "families");
    assert_string_equal(json_string_value(json_object_get(ran, "arch")), "resnet8");
    assert_true(json_array_size(families) > 5);
    for (size_t i = 0; (family = json_array_get(families, i)); i++) {
        bool is_loss = strcmp(json_string_value(json_object_get(family, "name")), "loss") == 0;
        assert_int_equal(json_is_false(json_object_get(family, "ok")), is_loss);
        assert_int_equal(json_number_value(json_at(family, "error")) >
                             json_number_value(json_at(family, "tolerance")),
                         is_loss);
    }
    json_decref(out);
}

static void assert_no_oracle(struct result r, const char *word)
{
    if (r.st != STATUS_DATA || !strstr(status_message(), word))
        fail_msg("%s '%s', not a data error with '%s'", status_str(r.st), status_message(), word);
    free(r.text);
}

static void damaged_files_are_refused(void **state)
{
    static const struct {
        const char *bytes, *word;
    } files[] = {
        {"", "not valid JSON"},  {"[{\"arch\": \"resn", "not valid JSON"},
        {"[]", "list of cases"}, {"{}", "list of cases"},
        {"[7]", "'arch'"},
    };
    static const struct {
        const char *key, *value, *word;
    } members[] = {
        {"batch", "0", "'batch'"},
        {"lr", "\"0.1\"", "'lr'"},
        {"mode", "\"both\"", "'mode'"},
        {"mix", "[0.5]", "'mix'"},
        {"mix", "[0.5, 1.5]", "'mix'"},
        {"step", "[{\"loss\": 1}]", "2 steps"},
        {"step", "[{\"loss\": 1}, {}]", "loss"},
    };
    for (int i = 0; i < COUNT(files); i++)
        assert_no_oracle(run_bytes(files[i].bytes, strlen(files[i].bytes), false), files[i].word);
    for (int i = 0; i < COUNT(members); i++) {
        json_t *one, *cases = one_case(&one);
        json_object_set_new(one, members[i].key,
                            json_loads(members[i].value, JSON_DECODE_ANY, NULL));
        assert_no_oracle(run_cases(cases, false), members[i].word);
    }
    struct selftest_config c = {.oracle = "/nonexistent", .devices = "cpu", .out = stdout};
    assert_int_equal(selftest_run(&c), STATUS_DATA);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_false_value_is_found),
        cmocka_unit_test(fp32_errors_widen_the_tolerance),
        cmocka_unit_test(json_says_the_same),
        cmocka_unit_test(damaged_files_are_refused),
    };
    return cmocka_run_group_tests_name("selftest", tests, compute_truth, drop_truth);
}
