/* Trains on a device on which one call fails, once or repeatedly. The call belongs to graphs, to
 * fused operations or to steps. The run falls back to a lower rung of the ladder. Its results must
 * equal those of a run that began on that rung, and its record must name the rung. */
#include "base/file.h"
#include "engine/ladder.h"
#include "scene.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct stream_fault none = {STREAM_CALL_NONE};

/* One epoch. It launches every phase of every program. */
static struct train_config short_run(void)
{
    struct train_config c = scene_config();
    c.epochs = 1;
    return c;
}

/* Trains on the device on which the fault occurs. */
static void run_with(struct scene *s, const struct train_config *config,
                     const struct stream_fault *fault, enum status want)
{
    stream_backend_fail(&scene_streams, fault);
    scene_run(s, config, "stream", want);
    stream_backend_fail(&scene_streams, &none);
}

/* Checks the ladder in run.json and in summary.json. */
static void is_recorded(const struct scene *s, const char *began, const char *ended, int falls)
{
    struct run *r = scene_load(s);
    for (int k = 0; k < 2; k++) {
        const char *rung = k == 0 ? began : ended;
        const json_t *l = json_object_get(k == 0 ? r->info : r->summary, "ladder");
        bool unfused = strstr(rung, "fuse none"), no_graph = strstr(rung, "no graph");
        assert_string_equal(json_string_value(json_object_get(l, "rung")), rung);
        assert_string_equal(json_string_value(json_object_get(l, "fuse")),
                            unfused ? "none" : "auto");
        assert_int_equal(json_is_true(json_object_get(l, "graphs")), !no_graph);
        assert_int_equal(json_array_size(json_object_get(l, "falls")),
                         k == 1 || strcmp(began, ended) == 0 ? falls : 0);
    }
    assert_int_equal(r->resumes, 0); /* earlier attempts left no record */
    run_free(r);
}

/* A complete run that begins on the given rung. */
static struct scene *run_from_start(const struct train_config *config, const char *rung)
{
    struct train_config c = *config;
    struct scene *s = scene_open();
    if (strstr(rung, "fuse none"))
        c.fuse = FUSE_NONE;
    c.no_graph = strstr(rung, "no graph") != NULL;
    run_with(s, &c, &none, STATUS_OK);
    return s;
}

/* Two rungs give different bits. Otherwise the comparisons below would prove nothing. */
static void rungs_differ(void **state)
{
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

/* Runs whose fault happens before the first step begin again on the lower rung. The last row
 * fails after the first step: the run continues without graphs. */
static void falls_to_a_lower_rung(void **state)
{
    static const struct {
        struct stream_fault fault;
        const char *devices;
        enum dp_reduce reduce;
        const char *began, *ended;
    } cases[] = {
        {{STREAM_CALL_CAPTURE_BEGIN, 1}, "", DP_CENTRAL, "no graph", "no graph"},
        {{STREAM_CALL_CAPTURE_END, 2, false, STATUS_OOM}, "", DP_CENTRAL, "no graph", "no graph"},
        {{STREAM_CALL_LAUNCH, 1}, "", DP_CENTRAL, "no graph", "no graph"},
        {{STREAM_CALL_LAUNCH, 5}, ":2", DP_ALL, "no graph", "no graph"},
        {{STREAM_CALL_LAUNCH, 5}, ":2", DP_CENTRAL, "no graph", "no graph"},
        {{STREAM_CALL_EXECUTE, 30}, "", DP_CENTRAL, "fuse none", "fuse none"},
        {{STREAM_CALL_EXECUTE, 30}, ":2", DP_CENTRAL, "fuse none", "fuse none"},
        {{STREAM_CALL_LAUNCH, 20}, "", DP_CENTRAL, "auto", "no graph"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct train_config c = short_run();
        c.devices = cases[i].devices;
        c.dp_reduce = cases[i].reduce;
        struct scene *want = run_from_start(&c, cases[i].ended), *got = scene_open();
        run_with(got, &c, &cases[i].fault, STATUS_OK);
        scene_same_run(want, got);
        is_recorded(got, cases[i].began, cases[i].ended, 1);
        assert_non_null(strstr(got->output.text, "since 'auto' failed"));
        scene_close(want);
        scene_close(got);
    }
}

/* A run on the last rung, on a rung that the user chose, or on a device that is lost fails with one
 * line that suggests a remedy, and leaves no folder. */
static void fails(const struct train_config *c, const struct stream_fault *fault, const char *text)
{
    char dir[SCRATCH_MAX + 8];
    struct scene *got = scene_open();
    run_with(got, c, fault, STATUS_LIBRARY);
    if (!strstr(got->message, text) || strchr(got->message, '\n'))
        fail_msg("'%s' is not one line with '%s'", got->message, text);
    snprintf(dir, sizeof dir, "%s/run", got->dir);
    assert_false(path_exists(dir));
    scene_close(got);
}

static void no_rung_is_left(void **state)
{
    static const struct {
        struct stream_fault fault;
        bool named, no_graph;
        enum fuse fuse;
        const char *text;
    } cases[] = {
        {{STREAM_CALL_CAPTURE_BEGIN, 3, true}, false, false, FUSE_AUTO, "; try --no-graph"},
        {{STREAM_CALL_CAPTURE_END, 3, true}, false, false, FUSE_AUTO, "; try --no-graph"},
        {{STREAM_CALL_LAUNCH, 3, true}, false, false, FUSE_AUTO, "; try --no-graph"},
        {{STREAM_CALL_EXECUTE, 30, true}, false, false, FUSE_AUTO, "; try --fuse none --no-graph"},
        {{STREAM_CALL_EXECUTE, 30}, true, true, FUSE_AUTO, "; try --fuse none"},
        {{STREAM_CALL_EXECUTE, 30}, true, true, FUSE_NONE, "as configured"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct train_config c = short_run();
        c.fuse_named = cases[i].named;
        c.no_graph = cases[i].no_graph;
        c.fuse = cases[i].fuse;
        fails(&c, &cases[i].fault, cases[i].text);
    }
}

/* If a fused form fails while it is measured, it counts as unsupported. If it fails while the
 * network is planned, the run falls back by one rung. */
static void without_fusion(void **state)
{
    struct train_config c = short_run();
    int fell = 0;
    for (int n = 1; n <= 8; n++) {
        const struct stream_fault fault = {STREAM_CALL_PLAN_FUSED, n};
        const struct stream_fault lost = {STREAM_CALL_PLAN_FUSED, n, true, STATUS_LIBRARY};
        struct scene *got = scene_open();
        run_with(got, &c, &fault, STATUS_OK);
        struct run *r = scene_load(got);
        size_t falls =
            json_array_size(json_object_get(json_object_get(r->info, "ladder"), "falls"));
        run_free(r);
        const char *rung = falls ? "fuse none" : "auto";
        is_recorded(got, rung, rung, (int)falls);
        if (falls && fell++ == 0) {
            struct scene *want = run_from_start(&c, "fuse none");
            scene_same_run(want, got);
            scene_close(want);
            fails(&c, &lost, "; try --fuse none");
        }
        scene_close(got);
    }
    assert_in_range(fell, 1, 7);
}

/* A run that has fallen back is resumed on the same rung, although fusion would work now. It has
 * the bits of a run that never fused. */
static void resumed(void **state)
{
    struct train_config c = short_run();
    const struct stream_fault fault = {.call = STREAM_CALL_EXECUTE, .number = 30};
    struct scene *want = run_from_start(&c, "fuse none"), *got = scene_open();
    c.resume = "auto";
    c.steps = 2;
    run_with(got, &c, &fault, STATUS_OK);
    c.steps = 0;
    run_with(got, &c, &none, STATUS_OK);
    scene_same_run(want, got);
    scene_close(want);
    scene_close(got);
}

/* If a run was trained with fused operations, and fused operations fail when the run is resumed,
 * the run fails. It turns fusion off only if the user gives --fuse none. */
static void resumed_where_it_fails(void **state)
{
    struct train_config c = short_run();
    const struct stream_fault fault = {.call = STREAM_CALL_EXECUTE, .number = 30};
    struct scene *got = scene_open();
    c.resume = "auto";
    c.steps = 2;
    run_with(got, &c, &none, STATUS_OK);
    c.steps = 0;
    c.no_graph = true;
    run_with(got, &c, &fault, STATUS_LIBRARY);
    assert_non_null(strstr(got->message, "the checkpoint was trained with --fuse auto"));
    c.fuse = FUSE_NONE;
    c.fuse_named = true;
    run_with(got, &c, &none, STATUS_OK);
    scene_close(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_differ),    cmocka_unit_test(falls_to_a_lower_rung),
        cmocka_unit_test(no_rung_is_left), cmocka_unit_test(without_fusion),
        cmocka_unit_test(resumed),         cmocka_unit_test(resumed_where_it_fails),
    };
    stream_backend_make(&scene_streams);
    scene_streams.fusion_pays = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
