/* The file of plan choices: stored choices are read back, and every damaged file is refused. */
#include "kernels/cuda/plan_cache.h"

#include "base/file.h"
#include "base/rng.h"
#include "tests/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64], saved[64];

static struct plan_choice choice_of(int64_t engine, int knobs)
{
    struct plan_choice c = {.engine = engine, .nanoseconds = 1000 + engine, .n_knobs = knobs};
    for (int i = 0; i < knobs; i++)
        c.knob[i] = (struct plan_knob){i, i == 1 ? INT64_MIN : 7 * i};
    return c;
}

static const char *const keys[] = {"NVIDIA H200 sm90 fwd f16 n256",
                                   "NVIDIA A100 fwd",
                                   "zebra",
                                   "NVIDIA H200 sm90 fwd f16 n64",
                                   "NVIDIA H200 dgrad bf16 n64",
                                   "NVIDIA H200 op bn_apply"};
enum { N_KEYS = COUNT(keys) };

static struct plan_choice choice_at(int i)
{
    if (i == 4)
        return (struct plan_choice){.fact = PLAN_LACKING};
    if (i == 5)
        return (struct plan_choice){.fact = PLAN_TIMED, .nanoseconds = 2345};
    return choice_of(10 * i, i == 3 ? PLAN_KNOBS_MAX : i);
}

static struct plan_cache *filled(void)
{
    struct plan_cache *c;
    assert_int_equal(plan_cache_open(&c), STATUS_OK);
    for (int i = 0; i < N_KEYS; i++) {
        struct plan_choice choice = choice_at(i);
        assert_int_equal(plan_cache_put(c, keys[i], &choice), STATUS_OK);
    }
    return c;
}

/* The number of facts in the file that the cache writes; its first and last lines are no facts. */
static int count_of(const struct plan_cache *c)
{
    char *text;
    size_t size;
    int lines = 0;
    assert_int_equal(plan_cache_save(c, saved), STATUS_OK);
    assert_int_equal(file_read(saved, 1 << 20, &text, &size), STATUS_OK);
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    free(text);
    return lines - 2;
}

static void check_filled(const struct plan_cache *c)
{
    assert_int_equal(count_of(c), N_KEYS);
    for (int i = 0; i < N_KEYS; i++) {
        struct plan_choice choice = choice_at(i);
        const struct plan_choice *found = plan_cache_find(c, keys[i]);
        assert_non_null(found);
        assert_true(plan_choice_same(found, &choice));
        assert_int_equal(found->nanoseconds, choice.nanoseconds);
    }
    assert_null(plan_cache_find(c, "NVIDIA H200"));
}

static void test_round_trip(void **state)
{
    struct plan_cache *c = filled(), *again;
    check_filled(c);
    unlink(path);
    assert_int_equal(plan_cache_load(c, path), STATUS_OK); /* there is no file */
    assert_int_equal(plan_cache_save(c, path), STATUS_OK);
    assert_int_equal(plan_cache_open(&again), STATUS_OK);
    assert_int_equal(plan_cache_load(again, path), STATUS_OK);
    check_filled(again);

    struct plan_choice other = choice_of(99, 2);
    assert_int_equal(plan_cache_put(again, keys[0], &other), STATUS_OK);
    assert_int_equal(count_of(again), N_KEYS);
    assert_int_equal(plan_cache_find(again, keys[0])->engine, 99);
    /* for each key, the choice of the file replaces the choice in the cache */
    assert_int_equal(plan_cache_load(again, path), STATUS_OK);
    check_filled(again);
    plan_cache_close(again);
    plan_cache_close(c);
}

/* Checks that a damaged file is refused, and does not change a cache that has a choice. */
static void check_refused(const void *bytes, size_t size)
{
    struct plan_cache *c;
    struct plan_choice own = choice_of(5, 1);
    assert_int_equal(file_replace(path, bytes, size), STATUS_OK);
    assert_int_equal(plan_cache_open(&c), STATUS_OK);
    assert_int_equal(plan_cache_put(c, "own", &own), STATUS_OK);
    assert_int_equal(plan_cache_load(c, path), STATUS_DATA);
    assert_non_null(strstr(status_message(), "is not a file of plans"));
    assert_int_equal(count_of(c), 1);
    assert_true(plan_choice_same(plan_cache_find(c, "own"), &own));
    plan_cache_close(c);
}

static void test_damage(void **state)
{
    struct plan_cache *c = filled();
    char *bytes;
    size_t size;
    assert_int_equal(plan_cache_save(c, path), STATUS_OK);
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size), STATUS_OK);
    plan_cache_close(c);
    for (size_t cut = 0; cut < size; cut += 3)
        check_refused(bytes, cut);
    for (size_t at = 0; at < size; at += 2) {
        const char kept = bytes[at];
        bytes[at] = (char)(kept ^ (1 << at % 8));
        check_refused(bytes, size);
        bytes[at] = kept;
    }
    free(bytes);
}

/* Checks that a file with invalid lines is refused, even if its checksum is right. */
static void check_forged(const char *line, const char *end)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "ampscale plans 4\n%s%s", line, end);
    n += snprintf(text + n, sizeof text - (size_t)n, "sum %016" PRIx64 "\n", hash_fnv1a64(text));
    check_refused(text, (size_t)n);
}

static void test_forgery(void **state)
{
    static const char *const forged[] = {
        "plan 5",
        "plan 5 7",
        "plan 5 7 1=2",
        "plan 5 7 1=2 ",
        "plan 5 7 - \x01",
        "plan x 7 - key",
        "plan -1 7 - key",
        "plan 99999999999 7 - key",
        "plan 99999999999999999999999 7 - key",
        "plan 5 7 -1=2 key",
        "plan 5 7 70000=2 key",
        "plan 5 7 1=99999999999999999999 key",
        "plan 5 7 1=2, key",
        "plan 5 7 1=2,3 key",
        "plan  5 7 - key",
        "plan 5 7 +1=2 key",
        "plan 5 - key",
        "5 7 - key", /* a line of version 2 of the format */
        "plan 5 -7 - key",
        "plan 5 7s - key",
        "none ",
        "none key\nnone",
        "nonekey",
        "time 0 key", /* 0 would mean an unknown time */
        "time -7 key",
        "time 7",
        "time 99999999999999999999 key",
        "times 7 key",
        "lack key",
    };
    char many[2048] = "plan 5 7 ", longest[2048];
    for (int i = 0; i < COUNT(forged); i++)
        check_forged(forged[i], "\n");
    check_forged("plan 5 7 - key", "");
    for (int i = 0; i <= PLAN_KNOBS_MAX; i++)
        strcat(many, i ? ",1=2" : "1=2");
    check_forged(strcat(many, " key"), "\n");
    snprintf(longest, sizeof longest, "plan 5 7 - %0*d", PLAN_KEY_MAX, 0);
    check_forged(longest, "\n");
}

/* What the file could not hold is refused. */
static void test_bad_puts(void **state)
{
    char key[PLAN_KEY_MAX + 1];
    const struct plan_choice good = choice_of(1, 1);
    const struct {
        const char *key;
        struct plan_choice choice;
    } bad[] = {{key, good},
               {"", good},
               {"two\nlines", good},
               {" key", good},
               {"key", {.engine = -1}},
               {"key", {.fact = PLAN_TIMED}},
               {"key", {.fact = PLAN_TIMED, .nanoseconds = 1, .engine = 1}},
               {"key", {.fact = PLAN_LACKING, .nanoseconds = 1}}};
    struct plan_cache *c;
    memset(key, 'k', sizeof key);
    key[PLAN_KEY_MAX] = '\0';
    assert_int_equal(plan_cache_open(&c), STATUS_OK);
    for (int i = 0; i < COUNT(bad); i++)
        assert_int_equal(plan_cache_put(c, bad[i].key, &bad[i].choice), STATUS_INVALID);
    key[PLAN_KEY_MAX - 1] = '\0';
    assert_int_equal(plan_cache_put(c, key, &good), STATUS_OK);
    assert_int_equal(plan_cache_save(c, path), STATUS_OK);
    assert_int_equal(plan_cache_load(c, path), STATUS_OK);
    plan_cache_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_forgery),
        cmocka_unit_test(test_bad_puts),
    };
    snprintf(path, sizeof path, "plan_cache_%ld.txt", (long)getpid());
    snprintf(saved, sizeof saved, "plan_cache_saved_%ld.txt", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    unlink(saved);
    return failed;
}
