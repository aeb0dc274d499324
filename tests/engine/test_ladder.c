/* Tests the rules of the ladder: to which lower rung a run falls after each failure, or why the run
 * ends. The rules depend on the flags that the user has set. */
#include "engine/ladder.h"
#include "tests/unit.h"

#include <string.h>

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
    assert_non_null(strstr(status_message(), flags));
    assert_true(*flags || strcmp(status_message(), "it broke") == 0);
}

/* A run does not return to a rung on which it has failed. Plans do not depend on graphs. */
static void each_failure_has_its_remedy(void **state)
{
    enum { END = -1 };
    static const struct {
        int kind[4];
        const char *rung[4];
    } cases[] = {
        {{FAILED_PLAN, FAILED_CAPTURE, FAILED_STEP, END}, {"fuse none", "fuse none, no graph"}},
        {{FAILED_CAPTURE, FAILED_PLAN, FAILED_PLAN, END}, {"no graph", "fuse none, no graph"}},
        {{FAILED_STEP, FAILED_STEP, FAILED_STEP, FAILED_STEP},
         {"fuse none", "no graph", "fuse none, no graph"}},
        {{FAILED_PLAN, FAILED_STEP, FAILED_STEP, END}, {"fuse none", "fuse none, no graph"}},
        {{FAILED_PLAN, FAILED_PLAN, END}, {"fuse none"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ladder l = ladder_of(FUSE_AUTO, FUSE_FREE, true);
        is_on(&l, "auto");
        for (int k = 0; k < 4 && cases[i].kind[k] != END; k++) {
            const char *to = cases[i].rung[k];
            if (!to) {
                ends(&l, (enum ladder_failure)cases[i].kind[k], "");
                continue;
            }
            falls_to(&l, (enum ladder_failure)cases[i].kind[k], to);
            assert_true((ladder_fuse(&l) == FUSE_NONE) == (strstr(to, "fuse none") != NULL));
            assert_true(ladder_graphs(&l) == !strstr(to, "no graph"));
        }
    }
}

/* What the user or the checkpoint has chosen stays, and the message names it. */
static void choices_stay(void **state)
{
    struct ladder l = ladder_of(FUSE_AUTO, FUSE_NAMED, true);
    ends(&l, FAILED_PLAN, "; try --fuse none");
    falls_to(&l, FAILED_CAPTURE, "no graph");
    ends(&l, FAILED_STEP, "--fuse none");
    l = ladder_of(FUSE_AUTO, FUSE_RESUMED, true);
    ends(&l, FAILED_PLAN, "the checkpoint was trained with --fuse auto");
    falls_to(&l, FAILED_STEP, "no graph");
    l = ladder_of(FUSE_NONE, FUSE_NAMED, false);
    ends(&l, FAILED_STEP, "");

    static const struct {
        enum fuse fuse;
        enum fuse_choice choice;
        bool graphs;
        const char *first, *then;
    } cases[] = {
        {FUSE_STATS, FUSE_NAMED, true, "fuse stats", "fuse stats, no graph"},
        {FUSE_NONE, FUSE_NAMED, true, "fuse none", "fuse none, no graph"},
        {FUSE_NONE, FUSE_RESUMED, true, "fuse none", "fuse none, no graph"},
        {FUSE_AUTO, FUSE_FREE, false, "no graph", "fuse none, no graph"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        l = ladder_of(cases[i].fuse, cases[i].choice, cases[i].graphs);
        is_on(&l, cases[i].first);
        falls_to(&l, FAILED_STEP, cases[i].then);
    }
}

/* A run falls to a lower rung only if a device or a library fails, and only on a device with
 * several rungs. Other failures end the run. */
static void other_failures_end_the_run(void **state)
{
    static const enum status other[] = {STATUS_USAGE, STATUS_DIVERGED, STATUS_INTERRUPTED,
                                        STATUS_OOM};
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

static void record_says_it(void **state)
{
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
        cmocka_unit_test(choices_stay),
        cmocka_unit_test(other_failures_end_the_run),
        cmocka_unit_test(record_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
