/* Tests bench throughput: the order and the time limits of turns, and the fallback of a failed run
 * to another rung (configuration). The program is a shell script that fails on purpose. */
#include "bench/throughput.h"

#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- turns --- */

static void assert_turn(const struct throughput_plan *p, int i, int key, enum throughput_who who,
                        int round)
{
    const struct throughput_slot *s = &p->slot[p->turn[i].slot];
    if (s->key != key || s->who != who || p->turn[i].round != round)
        fail_msg("turn %d is of key %d, who %d, round %d", i, s->key, s->who, p->turn[i].round);
}

/* In the first round each key has ours and then eager; then the peer compiles once. In every second
 * round the peer has the first turn of a key. Training from files comes last. */
static void test_plan(void **state)
{
    enum { KEYS = 3, ROUNDS = 4 };
    const struct throughput_config config = {
        .n_keys = KEYS, .options.rounds = ROUNDS, .peer = "peer.py", .files = true};
    struct throughput_plan p;
    int turn = 0;
    assert_int_equal(throughput_plan_make(&config, &p), STATUS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int key = 0; key < KEYS; key++)
            for (int i = 0; i < 2; i++)
                assert_turn(&p, turn++, key,
                            (round + i) % 2 == 1 ? THROUGHPUT_EAGER : THROUGHPUT_OURS, round);
        if (round == 0)
            assert_turn(&p, turn++, 0, THROUGHPUT_COMPILE, 0);
    }
    for (int round = 0; round < ROUNDS; round++)
        assert_turn(&p, turn++, 0, THROUGHPUT_FILES, round);
    assert_int_equal(p.n_turns, turn);
    throughput_plan_free(&p);
}

/* The order of the combinations reverses from round to round. */
static void test_plan_of_combinations(void **state)
{
    static const int order[] = {0, 1, 2, 2, 1, 0};
    const struct throughput_config config = {.n_keys = 1, .n_combinations = 3, .options.rounds = 2};
    struct throughput_plan p;
    assert_int_equal(throughput_plan_make(&config, &p), STATUS_OK);
    assert_int_equal(p.n_turns, COUNT(order));
    for (int i = 0; i < p.n_turns; i++)
        assert_int_equal(p.slot[p.turn[i].slot].combination, order[i]);
    throughput_plan_free(&p);
}

/* Limits with values by hand: 20 s for each later turn, and for a repetition. */
static void test_limits(void **state)
{
    struct time_budget none = time_budget_begin(0), some = time_budget_begin(100000),
                       over = time_budget_begin(1e-6);
    assert_true(isinf(time_budget_left(&none)));
    assert_int_equal(time_budget_limit(&none, false, 600), 600);
    assert_int_equal(time_budget_limit(&none, true, 600), 600);
    assert_int_equal(time_budget_limit(&some, false, 600), 600);
    assert_true(time_budget_limit(&some, false, 1000000) > 90000);
    assert_int_equal(time_budget_limit(&over, false, 600), 0);
    static const struct {
        double left;
        int after;
        bool again, measured;
        int limit;
    } cases[] = {
        {130, 0, false, true, 130}, /* the last turn has all the time that is left */
        {130, 0, true, true, 110},  {130, 2, false, true, 90}, /* 130 - 2 x 20 */
        {130, 2, true, true, 70},                              /* 130 - 3 x 20 */
        {130, 3, true, false, 91},  /* 0.7 x 130, because nothing is measured yet */
        {130, 24, false, true, 52}, /* 0.4 x 130 */
        {130, 24, true, false, 91}, {20, 0, true, true, 8},    {2, 24, false, true, 1},
        {0.9, 0, false, true, 0},   {-3, 0, false, true, 0},   {10000, 1, false, true, 600},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct time_budget b = {.after = cases[i].after, .measured = cases[i].measured};
        int64_t limit = time_budget_share(&b, cases[i].left, cases[i].again, 600);
        if (limit != cases[i].limit)
            fail_msg("case %zu: %lld s, not %d", i, (long long)limit, cases[i].limit);
    }
}

/* --- runs --- */

/* The state of a test. Every test calls rig_open first and rig_close last. */
struct rig {
    char dir[SCRATCH_MAX], program[SCRATCH_MAX + 32], run[SCRATCH_MAX + 32];
    struct train_work work;
    struct train_ladder ladder;
};

/* Opens the rig. A script replaces ampscale: its "train ... --out DIR" writes a summary that
 * depends on the rung. */
static void rig_open(struct rig *r, const char *train)
{
    static const char head[] = "#!/bin/sh\n"
                               "rung=auto out=\n"
                               "case \"$*\" in\n"
                               "*'--fuse none --no-graph'*) rung='fuse none, no graph' ;;\n"
                               "*'--fuse none'*) rung='fuse none' ;;\n"
                               "*--no-graph*) rung='no graph' ;;\n"
                               "esac\n"
                               "for word; do out=$word; done\n"
                               "done_on() {\n"
                               "    mkdir -p \"$out\"\n"
                               "    echo '{\"schema\": 1, \"started\": \"2026-01-01T00:00:00Z\"}' "
                               ">\"$out/run.json\"\n"
                               "    echo \"{\\\"schema\\\": 1, \\\"ladder\\\": $1}\" "
                               ">\"$out/summary.json\"\n"
                               "    exit 0\n"
                               "}\n";
    char *text;
    scratch_make(r->dir);
    snprintf(r->program, sizeof r->program, "%s/program", r->dir);
    snprintf(r->run, sizeof r->run, "%s/run", r->dir);
    assert_true(asprintf(&text, "%s%s", head, train) > 0);
    scratch_write(r->dir, "program", text, strlen(text));
    assert_int_equal(chmod(r->program, 0755), 0);
    free(text);
    const struct bench_options o = {.devices = "cuda:0", .dir = r->dir};
    r->work = (struct train_work){.program = r->program, .limit_s = 60};
    assert_int_equal(train_work_open(&r->work, &o), STATUS_OK);
}

static int rig_setup(void **state)
{
    *state = calloc(1, sizeof(struct rig));
    return *state ? 0 : -1;
}

static int rig_close(void **state)
{
    struct rig *r = *state;
    assert_int_equal(train_work_close(&r->work, STATUS_OK), STATUS_OK);
    scratch_remove(r->dir);
    free(r);
    return 0;
}

/* Executes one run of a row. Checks whether it wrote a record, and then the row's rung, its number
 * of falls, and why the run failed. */
static void assert_run(struct rig *r, struct train_ladder *l, bool good, int rung, int falls,
                       const char *why)
{
    struct words args = {0};
    struct run *run;
    assert_int_equal(words_add(&args, "--dummy"), STATUS_OK);
    assert_int_equal(train_child_run(&r->work, &args, r->run, l, &run), STATUS_OK);
    assert_int_equal(run != NULL, good);
    assert_int_equal(l->rung, rung);
    assert_int_equal(l->n_falls, falls);
    if (!good)
        assert_string_equal(l->why, why);
    run_free(run);
    words_free(&args);
}

static void test_ladder(void **state)
{
    struct rig *r = *state;
    struct train_ladder *l = &r->ladder;
    rig_open(r, "case $rung in\n"
                "auto) kill -SEGV $$ ;;\n"
                "'fuse none') echo 'ampscale: cannot plan' >&2; exit 1 ;;\n"
                "esac\n"
                "done_on '{\"fuse\": \"auto\", \"graphs\": false, \"rung\": \"no graph\"}'\n");
    assert_run(r, l, true, RUNG_NO_GRAPH, 2, NULL);
    assert_true(l->fall[0].rung == 0 && l->fall[1].rung == RUNG_UNFUSED);
    assert_non_null(strstr(l->fall[0].why, "Segmentation fault"));
    assert_string_equal(l->fall[1].why, "exit code 1: cannot plan");
    assert_true(l->reported && !l->graphs);
    assert_string_equal(l->fuse, "auto");
    assert_run(r, l, true, RUNG_NO_GRAPH, 2, NULL); /* the row's next run starts on that rung */
}

/* `train` itself may fall back to other rungs and report them: later runs of the row start on the
 * last reported one. If a row already has a measurement, or its configuration names its fusion or
 * graphs, such a run is rejected. */
static void test_ladder_of_train(void **state)
{
    struct rig *r = *state;
    struct train_ladder open = {0}, proven = {0}, fixed = {.fixed = true};
    char fine[SCRATCH_MAX + 32];
    rig_open(r, "[ \"$rung\" = auto ] || done_on '{\"fuse\": \"none\", \"graphs\": true, \"rung\": "
                "\"fuse none\", \"falls\": []}'\n"
                "[ ! -e \"$0.fine\" ] || done_on '{\"fuse\": \"auto\", \"graphs\": true, \"rung\": "
                "\"auto\", \"falls\": []}'\n"
                "done_on '{\"fuse\": \"none\", \"graphs\": true, \"rung\": \"fuse none\", "
                "\"falls\": [{\"rung\": \"auto\", \"why\": \"no plan\"}]}'\n");
    assert_run(r, &open, true, RUNG_UNFUSED, 1, NULL);
    assert_string_equal(open.fall[0].why, "no plan");
    assert_run(r, &open, true, RUNG_UNFUSED, 1, NULL);
    snprintf(fine, sizeof fine, "%s/program.fine", r->dir);
    scratch_write(r->dir, "program.fine", "", 0);
    assert_run(r, &proven, true, 0, 0, NULL);
    assert_int_equal(unlink(fine), 0);
    assert_run(r, &proven, false, 0, 0, "fell to 'fuse none': no plan");
    assert_run(r, &fixed, false, 0, 0, "fell to 'fuse none': no plan");
}

/* If a row already has a measurement, a failed run does not change its rung. A row that names its
 * fusion or graphs has no other rung. Wrong arguments (exit code 2), and errors on a CPU, would
 * recur on every rung. */
static void test_no_fall(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *devices, *code, *why;
        bool fixed;
    } cases[] = {{"cuda:0", "1\n", "exit code 1: broken", true},
                 {"cpu", "1\n", "exit code 1: broken", false},
                 {"cuda:0", "2\n", "exit code 2: broken", false}};
    struct train_ladder proven = {0};
    rig_open(r, "[ -e \"$0.ran\" ] && { echo 'ampscale: broken' >&2; exit $(cat \"$0.ran\"); }\n"
                "echo 1 >\"$0.ran\"\n"
                "done_on null\n");
    assert_run(r, &proven, true, 0, 0, NULL);
    assert_run(r, &proven, false, 0, 0, "exit code 1: broken");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct train_ladder l = {.fixed = cases[i].fixed};
        r->work.devices = cases[i].devices;
        scratch_write(r->dir, "program.ran", cases[i].code, 2);
        assert_run(r, &l, false, RUNG_COUNT, 0, cases[i].why);
    }
}

/* If no rung completes a run, the row lists the reason of each rung, and each rung has a log. Lower
 * rungs time no plans. After such a row, a row that fails with the same message tries no lower
 * rung. A row that fails otherwise tries all of them, and so does a row after a success. */
static void test_no_rung(void **state)
{
    struct rig *r = *state;
    struct train_ladder first = {0}, same = {0}, other = {0}, good = {0}, last = {0};
    size_t size;
    rig_open(r, "case \"$* \" in *' --plans 1 '*) rung=\"$rung, untimed\" ;; esac\n"
                "text=$(cat \"$0.why\")\n"
                "[ \"$text\" ] || done_on null\n"
                "echo \"ampscale: $text\" >&2\n"
                "echo \"$rung\" >&2\n"
                "exit 1\n");
    scratch_write(r->dir, "program.why", "no device", 9);
    assert_run(r, &first, false, RUNG_COUNT, RUNG_COUNT, "exit code 1: no device");
    assert_string_equal(first.fall[3].why, "exit code 1: no device");
    char *log = scratch_read(r->dir, "run-fuse-none.log", &size);
    assert_string_equal(log, "ampscale: no device\nfuse none, untimed\n");
    free(log);
    assert_run(r, &same, false, RUNG_COUNT, 0, "exit code 1: no device");
    scratch_write(r->dir, "program.why", "no plan", 7);
    assert_run(r, &other, false, RUNG_COUNT, RUNG_COUNT, "exit code 1: no plan");
    scratch_write(r->dir, "program.why", "", 0);
    assert_run(r, &good, true, 0, 0, NULL);
    scratch_write(r->dir, "program.why", "no plan", 7);
    assert_run(r, &last, false, RUNG_COUNT, RUNG_COUNT, "exit code 1: no plan");
}

/* A late run is no failure of its rung: the row's next run is on the same one. */
static void test_late(void **state)
{
    struct rig *r = *state;
    struct train_ladder *l = &r->ladder;
    rig_open(r, "[ -e \"$0.quick\" ] || exec sleep 600\n"
                "done_on null\n");
    r->work.limit_s = 1;
    assert_run(r, l, false, 0, 0, "not done within 1 s");
    assert_true(l->cut);
    scratch_write(r->dir, "program.quick", "", 0);
    r->work.limit_s = 60;
    assert_run(r, l, true, 0, 0, NULL);
    assert_true(l->proven && !l->cut);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),    cmocka_unit_test(test_plan_of_combinations),
        cmocka_unit_test(test_limits),  WITH_RIG(test_ladder),
        WITH_RIG(test_ladder_of_train), WITH_RIG(test_no_fall),
        WITH_RIG(test_no_rung),         WITH_RIG(test_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
