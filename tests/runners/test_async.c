/* Compares training on an asynchronous device bit by bit with the reference: records, weights,
 * checkpoints, messages. The thread sanitizer checks all of it. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Trains on the reference and on the asynchronous device, and compares. */
static void same_on_streams(const struct train_config *c)
{
    struct scene *want = scene_open(), *got = scene_open();
    scene_expect(scene_run(want, c, "ref"), STATUS_OK, want);
    scene_expect(scene_run(got, c, "stream"), STATUS_OK, got);
    scene_same_run(want, got);
    scene_close(want);
    scene_close(got);
}

/* --- tests --- */

static void in_fp32(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    same_on_streams(&c);
    c.no_graph = true;
    c.epochs = 1;
    same_on_streams(&c);
}

static void with_overflows(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.precision = "amp";
    c.inject_overflow = 4;
    same_on_streams(&c);
    c.no_graph = true;
    c.epochs = 1;
    c.scaler.init = 3000; /* no power of two */
    c.scaler.growth = 1.7;
    c.inject_overflow = 0;
    same_on_streams(&c);
    c.scaler.dynamic = false;
    same_on_streams(&c);
}

/* an epoch has 4 batches: a step of 3 micro-batches, and a step of 1 micro-batch */
static void with_accumulation(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.accumulate = 3;
    same_on_streams(&c);
    c.precision = "amp";
    c.no_graph = true;
    c.epochs = 1;
    c.inject_overflow = 1;
    same_on_streams(&c);
}

/* The device string is the device's name followed by `devices`: "stream:2". */
static void with_two_devices(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.devices = ":2";
    c.dp_reduce = DP_ALL;
    c.precision = "amp";
    c.bucket_mb = 0.05;
    c.inject_overflow = 2;
    same_on_streams(&c);
    c.epochs = 1;
    c.accumulate = 2;
    same_on_streams(&c);
    c.sync_bn = true;
    same_on_streams(&c);
    c.sync_bn = false;
    c.dp_reduce = DP_CENTRAL;
    same_on_streams(&c);
}

/* Whether the run used the setting `way` ("wgrad_stream" or "pdl"), according to its record. */
static bool uses(const struct scene *s, const char *way)
{
    struct run *r = scene_load(s);
    bool on = json_is_true(json_object_get(json_object_get(r->info, "config"), way));
    run_free(r);
    return on;
}

static void with_weight_gradients_beside(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.wgrad_stream = OPTION_ON;
    c.pdl = OPTION_ON;
    same_on_streams(&c);
    c.epochs = 1;
    c.no_graph = true;
    same_on_streams(&c);
    c.no_graph = false;
    c.devices = ":2";
    c.dp_reduce = DP_ALL;
    c.precision = "amp";
    c.bucket_mb = 0.05;
    c.inject_overflow = 2;
    c.accumulate = 2;
    same_on_streams(&c);
    struct scene *s = scene_open();
    scene_expect(scene_run(s, &c, "stream"), STATUS_OK, s);
    assert_true(uses(s, "wgrad_stream"));
    assert_true(uses(s, "pdl"));
    scene_close(s);
}

/* A run of 32 steps measures whether to use a second stream and early launches. If a capture fails
 * while one of these settings is tried, the run continues without this setting, but with graphs. If
 * any other capture fails, the run continues without graphs. */
static void with_a_choice(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    int kept = 0;
    c.epochs = 8;
    struct scene *want = scene_open();
    scene_expect(scene_run(want, &c, "ref"), STATUS_OK, want);
    /* One capture fails in each run: the last capture of the rehearsal, the capture for the second
     * stream, or the first or the last capture for early launches. These are the captures' numbers.
     */
    static const int number[] = {13, 14, 15, 19};
    for (int i = 0; i < 4; i++) {
        int n = number[i];
        struct scene *got = scene_open();
        stream_backend_fail(&scene_streams, &(struct stream_fault){STREAM_CALL_CAPTURE_BEGIN, n});
        scene_expect(scene_run(got, &c, "stream"), STATUS_OK, got);
        scene_same_run(want, got);
        struct run *r = scene_load(got);
        const json_t *l = json_object_get(r->summary, "ladder");
        bool failed = scene_streams.calls >= n, graphs = json_is_true(json_object_get(l, "graphs"));
        if (failed && graphs) {
            assert_false(uses(got, kept == 0 ? "wgrad_stream" : "pdl"));
            kept++;
        }
        assert_true(failed || graphs);
        run_free(r);
        scene_close(got);
    }
    stream_backend_fail(&scene_streams, &(struct stream_fault){STREAM_CALL_NONE});
    assert_int_equal(kept, 3);
    scene_close(want);
}

/* A checkpoint must have the results of all steps before it, and of no step after it. */
static void with_checkpoints(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.precision = "amp";
    c.inject_overflow = 3;
    c.checkpoint_steps = 2;
    c.steps = 7; /* ends in the middle of an epoch */
    struct scene *want = scene_open(), *got = scene_open();
    scene_expect(scene_run(want, &c, "ref"), STATUS_OK, want);
    scene_expect(scene_run(got, &c, "stream"), STATUS_OK, got);
    scene_same_run(want, got);
    scene_same_file(want, got, CHECKPOINT_PREV_NAME);
    scene_close(want);
    scene_close(got);
}

/* A run that ended early and a run that was stopped are resumed, and end like an uninterrupted run.
 */
static void resumed(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.precision = "amp";
    c.inject_overflow = 2;
    struct scene *want = scene_open(), *got = scene_open();
    scene_expect(scene_run(want, &c, "ref"), STATUS_OK, want);
    c.resume = "auto";
    c.steps = 3;
    scene_expect(scene_run(got, &c, "stream"), STATUS_OK, got);
    c.steps = 0;
    got->output.stop_at = "Epoch: [1][1/4]";
    scene_expect(scene_run(got, &c, "stream"), STATUS_INTERRUPTED, got);
    assert_non_null(strstr(got->message, "stopped by SIGTERM"));
    struct run *r = scene_load(got);
    assert_in_range(r->n_steps, 6, 8); /* the steps that had begun were completed */
    run_free(r);
    scene_expect(scene_run(got, &c, "stream"), STATUS_OK, got);
    scene_same_records(want, got);
    scene_same_file(want, got, CHECKPOINT_NAME);
    scene_same_file(want, got, BEST_NAME);
    scene_close(want);
    scene_close(got);
}

/* Both runs fail at the same step, with the same message. */
static void end_alike(const struct train_config *c)
{
    struct scene *want = scene_open(), *got = scene_open();
    scene_expect(scene_run(want, c, "ref"), STATUS_DIVERGED, want);
    scene_expect(scene_run(got, c, "stream"), STATUS_DIVERGED, got);
    assert_string_equal(want->message, got->message);
    scene_same_records(want, got);
    scene_close(want);
    scene_close(got);
}

static void diverged(void **state)
{
    (void)state;
    struct train_config c = scene_config();
    c.lr = 1e30;
    end_alike(&c);
    c = scene_config();
    c.precision = "amp";
    c.scaler.min = c.scaler.init;
    c.inject_overflow = 4;
    end_alike(&c);
}

static void evaluated(void **state)
{
    (void)state;
    char weights[SCRATCH_MAX + 64];
    struct train_config c = scene_config();
    struct scene *want = scene_open(), *got = scene_open();
    c.epochs = 1;
    scene_expect(scene_run(want, &c, "ref"), STATUS_OK, want);
    snprintf(weights, sizeof weights, "%s/run/" CHECKPOINT_NAME, want->dir);
    c.evaluate = true;
    c.resume = weights;
    want->output.length = 0;
    memset(want->output.text, 0, sizeof want->output.text);
    scene_expect(scene_run(want, &c, "ref"), STATUS_OK, want);
    scene_expect(scene_run(got, &c, "stream"), STATUS_OK, got);
    const char *accuracy = strstr(want->output.text, " *   Acc");
    const char *other = strstr(got->output.text, " *   Acc");
    assert_non_null(accuracy);
    assert_non_null(other);
    size_t line = strcspn(accuracy, "\n");
    assert_int_equal(strcspn(other, "\n"), line); /* the next line has the elapsed time */
    assert_memory_equal(accuracy, other, line);
    scene_close(want);
    scene_close(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_fp32),
        cmocka_unit_test(with_overflows),
        cmocka_unit_test(with_accumulation),
        cmocka_unit_test(with_two_devices),
        cmocka_unit_test(with_weight_gradients_beside),
        cmocka_unit_test(with_a_choice),
        cmocka_unit_test(with_checkpoints),
        cmocka_unit_test(resumed),
        cmocka_unit_test(diverged),
        cmocka_unit_test(evaluated),
    };
    stream_backend_make(&scene_streams);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
