/* Trains on a device on which one call fails, once or repeatedly. The call belongs to graphs, to
 * fused operations or to steps. The run falls back to a lower rung of the ladder. Its results must
 * equal those of a run that began on that rung, and its record must name the rung. */
#include "base/file.h"
#include "engine/ladder.h"
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One epoch. It launches every phase of every program. */
static struct train_config short_run(void)
{
    struct train_config c = scene_config();
    c.epochs = 1;
    return c;
}

/* Trains on the device on which the fault occurs. */
static enum status run_with(struct scene *s, const struct train_config *config,
                            const struct stream_fault *fault)
{
    stream_backend_fail(&scene_streams, fault);
    enum status st = scene_run(s, config, "stream");
    stream_backend_fail(&scene_streams, &(struct stream_fault){STREAM_CALL_NONE});
    return st;
}

/* Checks the ladder in run.json or summary.json. */
static void is_recorded(const json_t *of, const char *rung, int falls)
{
    const json_t *l = json_object_get(of, "ladder");
    bool unfused = strstr(rung, "fuse none") != NULL, no_graph = strstr(rung, "no graph") != NULL;
    assert_non_null(l);
    assert_string_equal(json_string_value(json_object_get(l, "rung")), rung);
    assert_string_equal(json_string_value(json_object_get(l, "fuse")), unfused ? "none" : "auto");
    assert_int_equal(json_is_true(json_object_get(l, "graphs")), !no_graph);
    assert_int_equal(json_array_size(json_object_get(l, "falls")), falls);
}

/* A complete run that begins on the given rung. */
static struct scene *run_from_start(const struct train_config *config, const char *rung)
{
    struct train_config c = *config;
    struct scene *s = scene_open();
    if (strstr(rung, "fuse none"))
        c.fuse = FUSE_NONE;
    c.no_graph = strstr(rung, "no graph") != NULL;
    scene_expect(scene_run(s, &c, "stream"), STATUS_OK, s);
    return s;
}

/* Checks that the run ends on `rung` after `falls` falls. */
static void ends_on(const struct train_config *c, const struct stream_fault *fault,
                    const char *rung, int falls)
{
    struct scene *want = run_from_start(c, rung), *got = scene_open();
    scene_expect(run_with(got, c, fault), STATUS_OK, got);
    scene_same_run(want, got);
    struct run *r = scene_load(got);
    is_recorded(r->info, rung, falls);
    is_recorded(r->summary, rung, falls);
    assert_int_equal(r->resumes, 0); /* earlier attempts left no record */
    run_free(r);
    assert_int_equal(strstr(got->output.text, "since 'auto' failed") != NULL, falls > 0);
    scene_close(want);
    scene_close(got);
}

/* Checks that the run fails with one line that contains `text`, and leaves no folder. */
static void fails(const struct train_config *c, const struct stream_fault *fault, const char *text)
{
    char dir[SCRATCH_MAX + 8];
    struct scene *got = scene_open();
    scene_expect(run_with(got, c, fault), STATUS_LIBRARY, got);
    if (!strstr(got->message, text))
        print_error("'%s' is not in '%s'\n", text, got->message);
    assert_non_null(strstr(got->message, text));
    assert_null(strchr(got->message, '\n'));
    snprintf(dir, sizeof dir, "%s/run", got->dir);
    assert_false(path_exists(dir));
    scene_close(got);
}

/* Two rungs give different bits. Otherwise the comparisons below would prove nothing. */
static void rungs_differ(void **state)
{
    (void)state;
    size_t n, m;
    struct train_config c = short_run();
    struct scene *a = run_from_start(&c, "auto"), *b = run_from_start(&c, "fuse none");
    char *x = scratch_read(a->dir, "run/" CHECKPOINT_NAME, &n);
    char *y = scratch_read(b->dir, "run/" CHECKPOINT_NAME, &m);
    assert_true(n != m || memcmp(x, y, n) != 0);
    free(x);
    free(y);
    scene_close(a);
    scene_close(b);
}

static void without_graphs(void **state)
{
    (void)state;
    static const enum stream_call call[] = {STREAM_CALL_CAPTURE_BEGIN, STREAM_CALL_CAPTURE_END,
                                            STREAM_CALL_LAUNCH};
    struct train_config c = short_run();
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        ends_on(&c, &(struct stream_fault){.call = call[i], .number = 1}, "no graph", 1);
        ends_on(&c, &(struct stream_fault){.call = call[i], .number = 8}, "no graph", 1);
        fails(&c, &(struct stream_fault){call[i], 3, true, STATUS_LIBRARY}, "; try --no-graph");
    }
    ends_on(&c, &(struct stream_fault){STREAM_CALL_CAPTURE_END, 2, false, STATUS_OOM}, "no graph",
            1);
    c.devices = ":2";
    c.dp_reduce = DP_ALL;
    ends_on(&c, &(struct stream_fault){.call = STREAM_CALL_LAUNCH, .number = 5}, "no graph", 1);
    c.dp_reduce = DP_CENTRAL;
    ends_on(&c, &(struct stream_fault){.call = STREAM_CALL_LAUNCH, .number = 5}, "no graph", 1);
}

/* A launch fails after the run's first step. (The first 13 launches take place before the run.) The
 * run does not begin again: it continues without graphs, and has the same bits. */
static void late(void **state)
{
    (void)state;
    struct train_config c = short_run();
    const struct stream_fault fault = {.call = STREAM_CALL_LAUNCH, .number = 20};
    struct scene *want = run_from_start(&c, "auto"), *got = scene_open();
    scene_expect(run_with(got, &c, &fault), STATUS_OK, got);
    scene_same_run(want, got);
    struct run *r = scene_load(got);
    is_recorded(r->info, "auto", 0);
    is_recorded(r->summary, "no graph", 1);
    run_free(r);
    scene_close(want);
    scene_close(got);
}

/* If a fused form fails while it is measured, it counts as unsupported. If it fails while the
 * network is planned, the run falls back by one rung. */
static void without_fusion(void **state)
{
    (void)state;
    struct train_config c = short_run();
    int fell = 0;
    for (int n = 1; n <= 8; n++) {
        const struct stream_fault fault = {STREAM_CALL_PLAN_FUSED, n};
        struct scene *got = scene_open();
        scene_expect(run_with(got, &c, &fault), STATUS_OK, got);
        struct run *r = scene_load(got);
        size_t falls =
            json_array_size(json_object_get(json_object_get(r->info, "ladder"), "falls"));
        is_recorded(r->info, falls ? "fuse none" : "auto", (int)falls);
        if (falls && fell++ == 0) {
            struct scene *want = run_from_start(&c, "fuse none");
            scene_same_run(want, got);
            scene_close(want);
            fails(&c, &(struct stream_fault){STREAM_CALL_PLAN_FUSED, n, true, STATUS_LIBRARY},
                  "; try --fuse none");
            c.fuse_named = true;
            fails(&c, &fault, "; try --fuse none");
            c.fuse_named = false;
        }
        run_free(r);
        scene_close(got);
    }
    assert_in_range(fell, 1, 7);
}

static void down_to_the_last(void **state)
{
    (void)state;
    struct train_config c = short_run();
    const struct stream_fault once = {.call = STREAM_CALL_EXECUTE, .number = 30};
    const struct stream_fault lost = {STREAM_CALL_EXECUTE, 30, true, STATUS_LIBRARY};
    ends_on(&c, &once, "fuse none", 1);
    fails(&c, &lost, "; try --fuse none --no-graph");
    c.devices = ":2";
    ends_on(&c, &once, "fuse none", 1);
    c.devices = "";
    c.fuse_named = true;
    c.no_graph = true;
    fails(&c, &once, "; try --fuse none");
    c.fuse = FUSE_NONE;
    fails(&c, &once, "as configured");
}

/* A run that has fallen back is resumed on the same rung, although fusion would work now. It has
 * the bits of a run that never fused. */
static void resumed(void **state)
{
    (void)state;
    struct train_config c = short_run();
    const struct stream_fault fault = {.call = STREAM_CALL_EXECUTE, .number = 30};
    struct scene *want = run_from_start(&c, "fuse none"), *got = scene_open();
    c.resume = "auto";
    c.steps = 2;
    scene_expect(run_with(got, &c, &fault), STATUS_OK, got);
    c.steps = 0;
    scene_expect(run_with(got, &c, &(struct stream_fault){STREAM_CALL_NONE}), STATUS_OK, got);
    scene_same_run(want, got);
    struct run *r = scene_load(got);
    is_recorded(r->info, "fuse none", 1);
    is_recorded(r->summary, "fuse none", 0); /* falls of the last attempt only */
    run_free(r);
    scene_close(want);
    scene_close(got);
}

/* If a run was trained with fused operations, and fused operations fail when the run is resumed,
 * the run fails. It turns fusion off only if the user gives --fuse none. */
static void resumed_where_it_fails(void **state)
{
    (void)state;
    struct train_config c = short_run();
    struct scene *got = scene_open();
    c.resume = "auto";
    c.steps = 2;
    scene_expect(run_with(got, &c, &(struct stream_fault){STREAM_CALL_NONE}), STATUS_OK, got);
    c.steps = 0;
    c.no_graph = true;
    scene_expect(
        run_with(got, &c, &(struct stream_fault){.call = STREAM_CALL_EXECUTE, .number = 30}),
        STATUS_LIBRARY, got);
    assert_non_null(strstr(got->message, "the checkpoint was trained with --fuse auto"));
    c.fuse = FUSE_NONE;
    c.fuse_named = true;
    scene_expect(run_with(got, &c, &(struct stream_fault){STREAM_CALL_NONE}), STATUS_OK, got);
    scene_close(got);
}

/* The reference has only one rung, and its records have no ladder. */
static void one_way(void **state)
{
    (void)state;
    struct train_config c = short_run();
    struct scene *got = scene_open();
    scene_expect(scene_run(got, &c, "ref"), STATUS_OK, got);
    struct run *r = scene_load(got);
    assert_null(json_object_get(r->info, "ladder"));
    assert_null(json_object_get(r->summary, "ladder"));
    run_free(r);
    scene_close(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_differ),
        cmocka_unit_test(without_graphs),
        cmocka_unit_test(late),
        cmocka_unit_test(without_fusion),
        cmocka_unit_test(down_to_the_last),
        cmocka_unit_test(resumed),
        cmocka_unit_test(resumed_where_it_fails),
        cmocka_unit_test(one_way),
    };
    stream_backend_make(&scene_streams);
    scene_streams.fusion_pays = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
