/* What a reader learns of the conditions of runs: when they were made, and whether they were alone
 * on the machine. */
#include "results/analysis.h"
#include "tests/unit.h"

#include <jansson.h>
#include <math.h>

/* The conditions of a run whose record has this start, end and "noise"; NULL: it lacks them. */
static struct conditions conditions(const char *started, const char *finished, const char *noise)
{
    json_t *info = json_pack("{s:s*}", "started", started);
    json_t *summary = json_pack("{s:s*, s:o*}", "finished", finished, "noise",
                                noise ? json_loads(noise, 0, NULL) : NULL);
    struct conditions c = conditions_of(&(struct run){.info = info, .summary = summary});
    json_decref(info);
    json_decref(summary);
    return c;
}

static void test_runs(void **state)
{
    static const char *const noises[] = {
        "{\"disturbed\": false, \"seconds\": 60, \"others\": 0.02}",
        "{\"disturbed\": true, \"seconds\": 60, \"others\": 0.4}",
        "{\"disturbed\": false, \"seconds\": 3.5, \"others\": 0.84}", /* short, and clear */
        "{\"disturbed\": false, \"seconds\": 0.1, \"others\": 0.3}",
        "{\"disturbed\": true, \"seconds\": 3.5}", /* its steps show it */
        "{\"disturbed\": false}",                  /* no counters of the kernel */
        NULL,                                      /* an earlier version */
    };
    struct conditions all = conditions_none;
    (void)state;
    for (int i = 0; i < COUNT(noises); i++) {
        struct conditions c = conditions("2026-11-21T06:25:00Z", "2026-11-21T06:27:37Z", noises[i]);
        conditions_add(&all, &c);
    }
    assert_true(all.runs == 7 && all.recorded == 6 && all.disturbed == 3);
    assert_true(all.others == 0.84);
    assert_true(isnan(conditions_none.others));
}

static void test_period(void **state)
{
    struct conditions all = conditions_none;
    static const struct {
        const char *started, *finished;
    } runs[] = {{"2026-11-21T06:25:00Z", "2026-11-21T06:27:37Z"},
                {"2026-11-20T23:59:59Z", "2026-11-21T00:10:00Z"},
                {"2026-11-22T01:00:00Z", NULL}, /* not finished */
                {NULL, NULL},
                {"0000 \033[31m", "yesterday"}};
    (void)state;
    for (int i = 0; i < COUNT(runs); i++) {
        struct conditions c = conditions(runs[i].started, runs[i].finished, NULL);
        conditions_add(&all, &c);
    }
    assert_string_equal(all.from, "2026-11-20T23:59:59Z");
    assert_string_equal(all.to, "2026-11-21T06:27:37Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_period)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
