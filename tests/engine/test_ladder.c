/* Tests the rules of the ladder: to which lower rung a run falls after each failure, or why the run
 * ends. The rules depend on the flags that the user has set. */
#include "engine/ladder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ladder ladder_of(enum fuse fuse, enum fuse_choice choice, bool graphs)
{
    struct ladder l = {0};
    ladder_begin(&l, true, fuse, choice, graphs);
    return l;
}

static enum status fail_once(struct ladder *l, enum ladder_failure kind)
{
    return ladder_fall(l, kind, status_fail(STATUS_LIBRARY, "it broke"));
}

static void is_on(const struct ladder *l, const char *want)
{
    char name[RUNG_NAME_MAX];
    ladder_rung_name(l, l->rung, name);
    assert_string_equal(name, want);
}

static void falls_to(struct ladder *l, enum ladder_failure kind, const char *want)
{
    assert_int_equal(fail_once(l, kind), STATUS_OK);
    is_on(l, want);
}

/* Checks that the run ends. The message must contain the reason, and the flags that may help
 * (`flags`; "": none). */
static void ends(struct ladder *l, enum ladder_failure kind, const char *flags)
{
    int falls = l->n_falls;
    assert_int_equal(fail_once(l, kind), STATUS_LIBRARY);
    assert_int_equal(l->n_falls, falls);
    assert_int_equal(strncmp(status_message(), "it broke", strlen("it broke")), 0);
    if (*flags)
        assert_non_null(strstr(status_message(), flags));
    else
        assert_string_equal(status_message(), "it broke");
}

static void each_failure_has_its_remedy(void **state)
{
    (void)state;
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    is_on(&l, "auto");
    falls_to(&l, FAILED_PLAN, "fuse none");
    falls_to(&l, FAILED_CAPTURE, "fuse none, no graph");
    ends(&l, FAILED_STEP, "");

    l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    falls_to(&l, FAILED_CAPTURE, "no graph");
    falls_to(&l, FAILED_PLAN, "fuse none, no graph");
    assert_true(ladder_fuse(&l) == FUSE_NONE && !ladder_graphs(&l));
    ends(&l, FAILED_PLAN, "");

    l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    falls_to(&l, FAILED_STEP, "fuse none");
    assert_true(ladder_fuse(&l) == FUSE_NONE && ladder_graphs(&l));
    falls_to(&l, FAILED_STEP, "no graph");
    assert_true(ladder_fuse(&l) == FUSE_AUTO && !ladder_graphs(&l));
    falls_to(&l, FAILED_STEP, "fuse none, no graph");
    ends(&l, FAILED_STEP, "");
}

/* A run does not return to a rung on which it has failed. */
static void known_failures_stay(void **state)
{
    (void)state;
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    falls_to(&l, FAILED_PLAN, "fuse none");
    falls_to(&l, FAILED_STEP, "fuse none, no graph");
    l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    falls_to(&l, FAILED_PLAN, "fuse none");
    ends(&l, FAILED_PLAN, ""); /* plans do not depend on graphs */
}

static void named_choices_stay(void **state)
{
    (void)state;
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_NAMED, true);
    ends(&l, FAILED_PLAN, "; try --fuse none");
    falls_to(&l, FAILED_CAPTURE, "no graph");
    ends(&l, FAILED_PLAN, "--fuse none");
    ends(&l, FAILED_STEP, "--fuse none");

    l = ladder_of(FUSE_STATS, FUSE_NAMED, true);
    is_on(&l, "fuse stats");
    falls_to(&l, FAILED_STEP, "fuse stats, no graph");

    l = ladder_of(FUSE_NONE, FUSE_NAMED, true);
    is_on(&l, "fuse none");
    falls_to(&l, FAILED_STEP, "fuse none, no graph");

    l = ladder_of(FUSE_AUTO, FUSE_FREE, false);
    is_on(&l, "no graph");
    falls_to(&l, FAILED_STEP, "fuse none, no graph");

    l = ladder_of(FUSE_NONE, FUSE_NAMED, false);
    ends(&l, FAILED_STEP, "");
}

static void resumed_runs_stay(void **state)
{
    (void)state;
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_RESUMED, true);
    ends(&l, FAILED_PLAN, "the checkpoint was trained with --fuse auto");
    falls_to(&l, FAILED_STEP, "no graph");
    l = ladder_of(FUSE_NONE, FUSE_RESUMED, true);
    is_on(&l, "fuse none");
    falls_to(&l, FAILED_CAPTURE, "fuse none, no graph");
}

/* A run falls to a lower rung only if a device or a library fails, and only on a device with
 * several rungs. Other failures end the run. */
static void other_failures_end_the_run(void **state)
{
    (void)state;
    static const enum status other[] = {
        STATUS_USAGE,       STATUS_INVALID,  STATUS_IO,          STATUS_DATA,     STATUS_DIVERGED,
        STATUS_INTERRUPTED, STATUS_HARDWARE, STATUS_UNSUPPORTED, STATUS_MISMATCH, STATUS_OOM};
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_int_equal(ladder_fall(&l, FAILED_STEP, status_fail(other[i], "other")), other[i]);
        assert_int_equal(ladder_fall(&l, FAILED_PLAN, status_fail(other[i], "other")), other[i]);
        assert_string_equal(status_message(), "other");
    }
    is_on(&l, "auto");
    assert_int_equal(ladder_fall(&l, FAILED_CAPTURE, status_fail(STATUS_OOM, "full")), STATUS_OK);
    is_on(&l, "no graph");
    l = (struct ladder){0};
    ladder_begin(&l, false, FUSE_AUTO, FUSE_FREE, false);
    ends(&l, FAILED_STEP, "");
}

/* After any sequence of failures, a run has fallen at most three times, and always to a lower rung.
 */
static void falls_are_bounded(void **state)
{
    (void)state;
    for (int kinds = 0; kinds < 3 * 3 * 3 * 3; kinds++) {
        struct ladder l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
        for (int i = 0, k = kinds; i < 4; i++, k /= 3) {
            int rung = l.rung;
            if (fail_once(&l, (enum ladder_failure)(k % 3)) == STATUS_OK)
                assert_true(l.rung > rung);
        }
        assert_in_range(l.n_falls, 0, RUNG_COUNT - 1);
    }
}

static void record_says_it(void **state)
{
    (void)state;
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
    falls_to(&l, FAILED_STEP, "fuse none");
    json_t *got = ladder_json(&l);
    json_t *want = json_pack("{s:s, s:b, s:s, s:[{s:s, s:s}]}", "fuse", "none", "graphs", 1, "rung",
                             "fuse none", "falls", "rung", "auto", "why", "it broke");
    assert_true(json_equal(got, want));
    json_decref(got);
    json_decref(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_has_its_remedy),
        cmocka_unit_test(known_failures_stay),
        cmocka_unit_test(named_choices_stay),
        cmocka_unit_test(resumed_runs_stay),
        cmocka_unit_test(other_failures_end_the_run),
        cmocka_unit_test(falls_are_bounded),
        cmocka_unit_test(record_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
