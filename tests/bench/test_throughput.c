/* Tests the fallback of a failed run of bench throughput to another rung (configuration), and the
 * protocol of a peer. The programs are shell scripts that fail on purpose.
 */
#include "bench/throughput_peer.h"

#include "../results/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- runs --- */

/* The state of a test. Every test calls rig_open first and rig_close last. */
struct rig {
    char dir[SCRATCH_MAX], program[SCRATCH_MAX + 32], run[SCRATCH_MAX + 32];
    struct train_work work;
    struct train_ladder ladder;
    char script[SCRATCH_MAX + 32];
    struct peer peer;
};

static void write_script(const struct rig *r, const char *file, const char *text)
{
    char path[SCRATCH_MAX + 64];
    scratch_write(r->dir, file, text, strlen(text));
    snprintf(path, sizeof path, "%s/%s", r->dir, file);
    assert_int_equal(chmod(path, 0755), 0);
}

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
    write_script(r, "program", text);
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
    peer_stop(&r->peer);
    assert_int_equal(train_work_close(&r->work, STATUS_OK), STATUS_OK);
    scratch_remove(r->dir);
    free(r);
    return 0;
}

/* Executes one run, and returns whether it wrote a record. */
static bool rig_train(struct rig *r, struct train_ladder *l)
{
    struct words args = {0};
    struct run *run;
    assert_int_equal(words_add(&args, "--dummy"), STATUS_OK);
    assert_int_equal(train_child_run(&r->work, &args, r->run, l, &run), STATUS_OK);
    bool got = run;
    run_free(run);
    words_free(&args);
    return got;
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
    assert_true(rig_train(r, l));
    assert_int_equal(l->rung, RUNG_NO_GRAPH);
    assert_int_equal(l->n_falls, 2);
    assert_int_equal(l->fall[0].rung, 0);
    assert_non_null(strstr(l->fall[0].why, "Segmentation fault"));
    assert_int_equal(l->fall[1].rung, RUNG_UNFUSED);
    assert_string_equal(l->fall[1].why, "exit code 1: cannot plan");
    assert_true(l->reported && !l->graphs);
    assert_string_equal(l->fuse, "auto");
    /* The row's next run starts on the rung on which this run ended. */
    assert_true(rig_train(r, l));
    assert_int_equal(l->n_falls, 2);
}

/* `train` itself may fall back to other rungs and report them. Later runs start on the last
 * reported rung. */
static void test_ladder_of_train(void **state)
{
    struct rig *r = *state;
    struct train_ladder *l = &r->ladder;
    rig_open(r, "[ \"$rung\" = auto ] || done_on '{\"fuse\": \"none\", \"graphs\": true, \"rung\": "
                "\"fuse none\", \"falls\": []}'\n"
                "done_on '{\"fuse\": \"none\", \"graphs\": true, \"rung\": \"fuse none\", "
                "\"falls\": [{\"rung\": \"auto\", \"why\": \"no plan\"}]}'\n");
    assert_true(rig_train(r, l));
    assert_int_equal(l->rung, RUNG_UNFUSED);
    assert_int_equal(l->n_falls, 1);
    assert_string_equal(l->fall[0].why, "no plan");
    assert_true(rig_train(r, l));
    assert_int_equal(l->n_falls, 1);
}

/* If a row already has a measurement, a run that falls to another rung is rejected. It is also
 * rejected if the row's configuration names its fusion or graphs. */
static void test_fell(void **state)
{
    struct rig *r = *state;
    struct train_ladder proven = {0}, fixed = {.fixed = true};
    rig_open(r, "[ -e \"$0.ran\" ] || { echo >\"$0.ran\"; done_on '{\"fuse\": \"auto\", "
                "\"graphs\": true, \"rung\": \"auto\", \"falls\": []}'; }\n"
                "done_on '{\"fuse\": \"auto\", \"graphs\": false, \"rung\": \"no graph\", "
                "\"falls\": [{\"rung\": \"auto\", \"why\": \"no capture\"}]}'\n");
    assert_true(rig_train(r, &proven));
    assert_false(rig_train(r, &proven));
    assert_string_equal(proven.why, "fell to 'no graph': no capture");
    assert_int_equal(proven.n_falls, 0);
    assert_true(proven.rung == 0 && proven.graphs);
    assert_false(rig_train(r, &fixed));
    assert_string_equal(fixed.why, "fell to 'no graph': no capture");
}

/* If a row already has a measurement, a failed run does not change its rung. A row that names its
 * fusion or graphs has no other rung. Wrong arguments, and errors on a CPU, would recur on every
 * rung. */
static void test_no_fall(void **state)
{
    struct rig *r = *state;
    struct train_ladder proven = {0}, fixed = {.fixed = true}, wrong = {0}, cpu = {0};
    rig_open(r, "[ -e \"$0.ran\" ] && { echo 'ampscale: broken' >&2; exit $(cat \"$0.ran\"); }\n"
                "echo 1 >\"$0.ran\"\n"
                "done_on null\n");
    assert_true(rig_train(r, &proven));
    assert_false(rig_train(r, &proven));
    assert_int_equal(proven.rung, 0);
    assert_int_equal(proven.n_falls, 0);
    assert_string_equal(proven.why, "exit code 1: broken");
    assert_false(rig_train(r, &fixed));
    assert_int_equal(fixed.n_falls, 0);
    assert_int_equal(fixed.rung, RUNG_COUNT);
    r->work.devices = "cpu";
    assert_false(rig_train(r, &cpu));
    assert_int_equal(cpu.n_falls, 0);
    r->work.devices = "cuda:0";
    scratch_write(r->dir, "program.ran", "2\n", 2);
    assert_false(rig_train(r, &wrong));
    assert_int_equal(wrong.n_falls, 0);
    assert_string_equal(wrong.why, "exit code 2: broken");
}

/* Returns the number of runs, which the scripts of some tests count. */
static size_t count_runs(const struct rig *r)
{
    size_t size;
    free(scratch_read(r->dir, "program.runs", &size));
    return size;
}

static void assert_log(const struct rig *r, const char *name, const char *text)
{
    size_t size;
    char *log = scratch_read(r->dir, name, &size);
    if (strcmp(log, text) != 0)
        fail_msg("%s has '%s', not '%s'", name, log, text);
    free(log);
}

/* If no rung completes a run, the row lists the reason of each rung, and each rung has a log. */
static void test_no_rung(void **state)
{
    struct rig *r = *state;
    struct train_ladder *l = &r->ladder;
    rig_open(r, "printf . >>\"$0.runs\"\n"
                "case \"$* \" in *' --plans 1 '*) rung=\"$rung, untimed\" ;; esac\n"
                "echo \"ampscale: cannot run on $rung\" >&2\n"
                "exit 4\n");
    assert_false(rig_train(r, l));
    assert_int_equal(l->n_falls, RUNG_COUNT);
    assert_string_equal(l->fall[0].why, "exit code 4: cannot run on auto");
    assert_string_equal(l->fall[3].why, "exit code 4: cannot run on fuse none, no graph, untimed");
    assert_int_equal(l->rung, RUNG_COUNT);
    assert_false(rig_train(r, l));
    assert_int_equal(l->n_falls, RUNG_COUNT);
    assert_int_equal(count_runs(r), RUNG_COUNT);
    assert_log(r, "run-auto.log", "ampscale: cannot run on auto\n");
    assert_log(r, "run-fuse-none.log", "ampscale: cannot run on fuse none, untimed\n");
    assert_log(r, "run-no-graph.log", "ampscale: cannot run on no graph\n");
    assert_log(r, "run-fuse-none-no-graph.log",
               "ampscale: cannot run on fuse none, no graph, untimed\n");
}

/* After a row whose rungs all failed with one message, a row that fails with this message tries no
 * lower rung. A row that fails otherwise tries all of them, and so does a row after a success. */
static void test_broken_device(void **state)
{
    struct rig *r = *state;
    struct train_ladder first = {0}, same = {0}, other = {0}, good = {0}, last = {0};
    rig_open(r, "printf . >>\"$0.runs\"\n"
                "text=$(cat \"$0.why\")\n"
                "[ \"$text\" ] || done_on null\n"
                "echo \"ampscale: $text\" >&2\n"
                "exit 1\n");
    scratch_write(r->dir, "program.why", "no device", 9);
    assert_false(rig_train(r, &first));
    assert_int_equal(count_runs(r), 4);
    assert_false(rig_train(r, &same));
    assert_int_equal(count_runs(r), 5);
    assert_int_equal(same.rung, RUNG_COUNT);
    assert_string_equal(same.why, "exit code 1: no device");
    scratch_write(r->dir, "program.why", "no plan", 7);
    assert_false(rig_train(r, &other));
    assert_int_equal(count_runs(r), 9);
    scratch_write(r->dir, "program.why", "", 0);
    assert_true(rig_train(r, &good));
    scratch_write(r->dir, "program.why", "no plan", 7);
    assert_false(rig_train(r, &last));
    assert_int_equal(count_runs(r), 14);
}

/* A late run is no failure of its rung: the row's next run is on the same one, and finds what the
 * late run has saved. */
static void test_late(void **state)
{
    struct rig *r = *state;
    struct train_ladder *l = &r->ladder;
    rig_open(r, "echo \"at $rung\" >&2\n"
                "[ -e \"$0.plans\" ] || { echo >\"$0.plans\"; exec sleep 600; }\n"
                "done_on \"{\\\"fuse\\\": \\\"auto\\\", \\\"graphs\\\": true, \\\"rung\\\": "
                "\\\"$rung\\\"}\"\n");
    r->work.limit_s = 1;
    assert_false(rig_train(r, l));
    assert_true(l->cut && l->rung == 0 && l->n_falls == 0);
    assert_string_equal(l->why, "not done within 1 s");
    assert_log(r, "run-auto.log", "at auto\n");
    assert_true(rig_train(r, l));
    assert_true(l->proven && !l->cut && l->rung == 0 && l->n_falls == 0);
}

/* --- the peer --- */

static const char answers[] = "#!/bin/sh\n"
                              "echo 'ready Peer 1.2'\n"
                              "while read -r mode precision batch steps; do\n"
                              "    case $precision in\n"
                              "    die) echo 'out of luck' >&2; exit 3 ;;\n"
                              "    hang) echo 'a warning' >&2; exec sleep 600 ;;\n"
                              "    odd) echo 'images_per_s many' ;;\n"
                              "    none) echo \"error no $batch images\" ;;\n"
                              "    *) echo \"images_per_s $batch.5 1 2\" ;;\n"
                              "    esac\n"
                              "done\n";

static struct rig *peer_open(void **state, const char *script)
{
    struct rig *r = *state;
    rig_open(r, "exit 1\n");
    write_script(r, "peer", script);
    snprintf(r->script, sizeof r->script, "%s/peer", r->dir);
    r->peer = (struct peer){.script = r->script,
                            .device = "cpu",
                            .net = "resnet8",
                            .image_size = 32,
                            .dir = r->dir,
                            .signals = &r->work.signals,
                            .budget = &r->work.budget};
    assert_int_equal(peer_start(&r->peer), STATUS_OK);
    return r;
}

/* Requests 8 images at a precision. The peer must answer 8.5, or fail with `reason`. */
static void assert_answer(struct rig *r, const char *precision, const char *reason)
{
    char why[TRAIN_WHY_SIZE] = "";
    double rate;
    assert_int_equal(peer_ask(&r->peer, "eager", precision, 8, 4, &rate, why), STATUS_OK);
    assert_true(reason ? isnan(rate) : rate == 8.5);
    if (reason && !strstr(why, reason))
        fail_msg("%s: '%s' is not '%s'", precision, why, reason);
}

static void test_peer(void **state)
{
    struct rig *r = peer_open(state, answers);
    assert_answer(r, "fp32", NULL);
    assert_string_equal(r->peer.about, "Peer 1.2");
    assert_answer(r, "none", "no 8 images");
    assert_answer(r, "odd", "images_per_s many");
    assert_answer(r, "amp", NULL);
    assert_int_equal(r->peer.starts, 1);
}

/* A peer that dies is replaced once. If the new peer dies too, there is no peer. */
static void test_peer_dies(void **state)
{
    struct rig *r = peer_open(state, answers);
    assert_answer(r, "die", "it ended at 'eager die 8': out of luck");
    assert_answer(r, "fp32", NULL);
    assert_answer(r, "die", "");
    assert_answer(r, "fp32", "it ended at 'eager die 8': out of luck");
    assert_int_equal(r->peer.starts, 2);
}

static void test_peer_hangs(void **state)
{
    struct rig *r = peer_open(state, answers);
    assert_answer(r, "fp32", NULL);
    r->work.budget = time_budget_begin(3); /* the peer has two seconds to answer */
    assert_answer(r, "hang", "out of time: no answer to 'eager hang 8' within 2 s");
    r->work.budget = time_budget_begin(0);
    assert_answer(r, "fp32", NULL);
}

/* If a peer cannot start, its reason is reported, and it is not started again. */
static void test_no_peer(void **state)
{
    struct rig *r = peer_open(state, "#!/bin/sh\necho 'no Python has torch'\nexit 77\n");
    assert_answer(r, "fp32", "no Python has torch");
    assert_answer(r, "fp32", "");
    assert_int_equal(r->peer.starts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ladder, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_ladder_of_train, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_fell, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_no_fall, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_no_rung, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_broken_device, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_late, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_peer, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_peer_dies, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_peer_hangs, rig_setup, rig_close),
        cmocka_unit_test_setup_teardown(test_no_peer, rig_setup, rig_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
