/* Tests the faults that a user can request on the command line, and their effects on a run. */
#include "engine/inject.h"
#include "tests/unit.h"

#include <string.h>

static struct inject parsed(const char *text)
{
    struct inject f = {0};
    if (inject_parse(text, &f) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_true(inject_any(&f));
    return f;
}

static void good_forms_are_read(void **state)
{
    struct inject f = parsed("slow-rank=1:20%");
    assert_true(f.slow && f.slow_rank == 1 && f.slow_share == 0.2);
    assert_true(parsed("throttle=2.5%").throttle == 0.025);
    f = parsed("lost-image");
    assert_true(f.lose_image && f.lose_epoch == 0);
    assert_true(parsed("lost-image=12").lose_epoch == 12);
    struct inject_flip flip = parsed("bitflip=7").flip[0];
    assert_true(flip.step == 7 && flip.rank == -1 && flip.value == VALUE_WEIGHT && flip.bit == -1);
    flip = parsed("bitflip=7@2:gradient").flip[0];
    assert_true(flip.rank == 2 && flip.value == VALUE_GRADIENT && !*flip.tensor);
    flip = parsed("bitflip=0:weight:fc.weight").flip[0];
    assert_string_equal(flip.tensor, "fc.weight");
    flip = parsed("bitflip=0:gradient:layer1.0.conv1.weight:65").flip[0];
    assert_true(flip.bit == 65 && flip.value == VALUE_GRADIENT);
    assert_string_equal(flip.tensor, "layer1.0.conv1.weight");
}

static void bad_forms_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "slow",
        "slow-rank=1",
        "slow-rank=1:20",
        "slow-rank=1:-20%",
        "slow-rank=-1:20%",
        "slow-rank=99999999999:20%",
        "throttle=0%",
        "throttle=10001%",
        "bitflip",
        "bitflip=-1",
        "bitflip=1@x",
        "bitflip=1:",
        "bitflip=1:momentum",
        "bitflip=1:weight:",
        "bitflip=1:weight:fc.weight:",
        "bitflip=1:weight:fc.weight:x",
        "bitflip=1:weight:fc.weight:1:2",
        "bitflip=1:weight:fc.weight:99999999999999999999",
        "bitflip=99999999999999999999",
        "bitflip=1:weight:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "lost-image=",
        "lost-image=x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct inject f = {0};
        if (inject_parse(bad[i], &f) != STATUS_USAGE)
            fail_msg("'%s' is taken", bad[i]);
        assert_non_null(strstr(status_message(), bad[i]));
    }
}

/* The largest number of flips whose tensors, bits and ranks are drawn. */
static void what_is_open_is_drawn(void **state)
{
    struct inject f = {0}, again;
    struct graph *g;
    int different = 0;
    assert_int_equal(graph_build("resnet8", 5, 8, &g), STATUS_OK);
    for (int i = 0; i < INJECT_FLIPS_MAX; i++)
        assert_int_equal(inject_parse("bitflip=1", &f), STATUS_OK);
    assert_int_equal(inject_parse("bitflip=1", &f), STATUS_USAGE);
    again = f;
    assert_int_equal(inject_settle(&f, g, 3, 2), STATUS_OK);
    assert_int_equal(inject_settle(&again, g, 3, 2), STATUS_OK);
    assert_memory_equal(&f, &again, sizeof f);
    for (int i = 0; i < INJECT_FLIPS_MAX; i++) {
        const struct inject_flip *flip = &f.flip[i];
        const struct param *p = &g->param[flip->param];
        assert_int_equal(flip->rank, 1);
        assert_true(param_is_trained(p) && flip->bit >= 0 && flip->bit < 32 * param_count(p));
        assert_string_equal(flip->tensor, p->name);
        different += flip->param != f.flip[0].param;
    }
    assert_true(different > 0);
    graph_free(g);
}

static void what_the_run_has_not_is_refused(void **state)
{
    static const char *const bad[] = {"slow-rank=2:5%", "bitflip=0@2", "bitflip=0:weight:none",
                                      "bitflip=0:weight:bn1.running_mean",
                                      "bitflip=0:weight:fc.bias:160"};
    struct graph *g;
    assert_int_equal(graph_build("resnet8", 5, 8, &g), STATUS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct inject f = parsed(bad[i]);
        if (inject_settle(&f, g, 0, 2) != STATUS_USAGE)
            fail_msg("'%s' is taken", bad[i]);
    }
    struct inject last = parsed("bitflip=0@1:weight:fc.bias:159");
    assert_int_equal(inject_settle(&last, g, 0, 2), STATUS_OK);
    graph_free(g);
}

static void records_say_it_in_the_same_words(void **state)
{
    struct inject f = {0};
    json_t *want = json_pack("[s, s, s, s]", "slow-rank=1:20%", "throttle=2.5%",
                             "bitflip=3@1:gradient:fc.bias:7", "lost-image=4");
    for (size_t i = 0; i < json_array_size(want); i++)
        assert_int_equal(inject_parse(json_string_value(json_array_get(want, i)), &f), STATUS_OK);
    json_t *got = inject_json(&f);
    assert_true(json_equal(got, want));
    json_decref(got);
    json_decref(want);
}

static void delays_multiply(void **state)
{
    struct inject f = {.throttle = 0.5, .slow = true, .slow_rank = 1, .slow_share = 1};
    assert_true(inject_delay(&f, 0) == 0.5);
    assert_true(inject_delay(&f, 1) == 2);
    assert_true(inject_delay(&(struct inject){0}, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_forms_are_read),
        cmocka_unit_test(bad_forms_are_refused),
        cmocka_unit_test(what_is_open_is_drawn),
        cmocka_unit_test(what_the_run_has_not_is_refused),
        cmocka_unit_test(records_say_it_in_the_same_words),
        cmocka_unit_test(delays_multiply),
    };
    return cmocka_run_group_tests_name("inject", tests, NULL, NULL);
}
