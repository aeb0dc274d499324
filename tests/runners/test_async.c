/* Compares training on an asynchronous device bit by bit with the reference: records, weights,
 * checkpoints, messages. The thread sanitizer checks all of it. */
#include "scene.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

/* The same training on the reference and on the asynchronous device. */
struct pair {
    struct scene *want, *got;
};

static struct pair pair_run(const struct train_config *c, enum status ends)
{
    struct pair p = {scene_open(), scene_open()};
    scene_run(p.want, c, "ref", ends);
    scene_run(p.got, c, "stream", ends);
    assert_string_equal(p.want->message, p.got->message);
    return p;
}

static void pair_close(struct pair *p)
{
    scene_close(p->want);
    scene_close(p->got);
}

/* Whether the run used the setting `way` ("wgrad_stream" or "pdl"), according to its record. */
static bool uses(const struct scene *s, const char *way)
{
    struct run *r = scene_load(s);
    bool on = json_is_true(json_object_get(json_object_get(r->info, "config"), way));
    run_free(r);
    return on;
}

/* --- tests --- */

/* An epoch has 4 batches, or so many `images` that the loader uses the memory of a batch again: a
 * batch that the device still reads must not be overwritten. `accumulate` 3: a step of 3
 * micro-batches, and a step of 1. `odd_scale`: the loss scale is no power of two. `overlapped`:
 * weight gradients on a second stream, and early launches. `blank`: see scene_blank; a step without
 * images that follows a step that overflows is not skipped. */
static const struct {
    const char *precision, *devices;
    int epochs, images, accumulate, overflow;
    enum dp_reduce reduce;
    bool no_graph, sync_bn, odd_scale, static_scale, overlapped;
    unsigned blank;
} settings[] = {
    {"fp32", "", .epochs = 2},
    {"fp32", "", .epochs = 1, .images = 160},
    {"fp32", "", .epochs = 1, .no_graph = true},
    {"fp32", "", .epochs = 1, .accumulate = 3, .overlapped = true},
    {"amp", "", .epochs = 2, .overflow = 4},
    {"amp", "", .epochs = 1, .no_graph = true, .odd_scale = true},
    {"amp", "", .epochs = 1, .no_graph = true, .odd_scale = true, .static_scale = true},
    {"amp", "", .epochs = 1, .accumulate = 3, .overflow = 1, .no_graph = true, .overlapped = true},
    {"amp", ":2", .epochs = 2, .overflow = 2, .reduce = DP_ALL},
    {"amp", ":2", .epochs = 1, .accumulate = 2, .overflow = 2, .reduce = DP_ALL, .sync_bn = true},
    {"amp", ":2", .epochs = 1, .accumulate = 2, .overflow = 2, .reduce = DP_CENTRAL},
    {"amp", ":2", .epochs = 1, .accumulate = 2, .overflow = 2, .reduce = DP_ALL,
     .overlapped = true},
    {"fp32", "", .epochs = 2, .accumulate = 3, .blank = 4 | 8},
    {"amp", "", .epochs = 2, .overflow = 2, .blank = 8},
    {"amp", ":2", .epochs = 2, .overflow = 5, .reduce = DP_ALL, .blank = 4},
    {"amp", ":2", .epochs = 2, .overflow = 6, .reduce = DP_CENTRAL, .blank = 4 | 8},
};

static void same_as_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct train_config c = scene_config();
        c.precision = settings[i].precision;
        c.devices = settings[i].devices; /* follows the device's name: "stream:2" */
        c.epochs = settings[i].epochs;
        c.dummy_train = settings[i].images > 0 ? settings[i].images : c.dummy_train;
        c.accumulate = settings[i].accumulate > 0 ? settings[i].accumulate : 1;
        c.inject_overflow = strcmp(c.precision, "amp") == 0 ? settings[i].overflow : -1;
        c.dp_reduce = settings[i].reduce;
        c.no_graph = settings[i].no_graph;
        c.sync_bn = settings[i].sync_bn;
        c.bucket_mb = 0.05;
        if (settings[i].odd_scale) {
            c.scaler.init = 3000;
            c.scaler.growth = 1.7;
        }
        c.scaler.dynamic = !settings[i].static_scale;
        c.wgrad_stream = c.pdl = settings[i].overlapped ? OPTION_ON : c.pdl;
        scene_blank = settings[i].blank;
        struct pair p = pair_run(&c, STATUS_OK);
        scene_blank = 0;
        scene_same_run(p.want, p.got);
        assert_true(!settings[i].overlapped || (uses(p.got, "wgrad_stream") && uses(p.got, "pdl")));
        pair_close(&p);
    }
}

/* A run of 32 steps measures whether to use a second stream and early launches. If a capture fails
 * while one of these settings is tried, the run continues without this setting, but with graphs. If
 * any other capture fails, the run continues without graphs. */
static void with_a_choice(void **state)
{
    static const struct {
        int number; /* which capture fails */
        const char *without;
    } cases[] = {{13, "graphs"}, {14, "wgrad_stream"}, {15, "pdl"}};
    struct train_config c = scene_config();
    c.epochs = 8;
    struct scene *want = scene_open();
    scene_run(want, &c, "ref", STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *got = scene_open();
        stream_backend_fail(&scene_streams,
                            &(struct stream_fault){STREAM_CALL_CAPTURE_BEGIN, cases[i].number});
        scene_run(got, &c, "stream", STATUS_OK);
        scene_same_run(want, got);
        struct run *r = scene_load(got);
        const json_t *l = json_object_get(r->summary, "ladder");
        assert_int_equal(json_is_true(json_object_get(l, "graphs")), i > 0);
        assert_true(i == 0 || !uses(got, cases[i].without));
        run_free(r);
        scene_close(got);
    }
    stream_backend_fail(&scene_streams, &(struct stream_fault){STREAM_CALL_NONE});
    scene_close(want);
}

/* A checkpoint must have the results of all steps before it, and of no step after it. */
static void with_checkpoints(void **state)
{
    struct train_config c = scene_config();
    c.precision = "amp";
    c.inject_overflow = 3;
    c.checkpoint_steps = 2;
    c.steps = 7; /* ends in the middle of an epoch */
    struct pair p = pair_run(&c, STATUS_OK);
    scene_same_run(p.want, p.got);
    scene_same_file(p.want, p.got, CHECKPOINT_PREV_NAME);
    pair_close(&p);
}

/* A run that ended early and a run that was stopped are resumed, and end like an uninterrupted run.
 */
static void resumed(void **state)
{
    struct train_config c = scene_config();
    c.precision = "amp";
    c.inject_overflow = 2;
    struct scene *want = scene_open(), *got = scene_open();
    scene_run(want, &c, "ref", STATUS_OK);
    c.resume = "auto";
    c.steps = 3;
    scene_run(got, &c, "stream", STATUS_OK);
    c.steps = 0;
    got->output.stop_at = "Epoch: [1][1/4]";
    scene_run(got, &c, "stream", STATUS_INTERRUPTED);
    struct run *r = scene_load(got);
    assert_in_range(r->n_steps, 6, 8); /* the steps that had begun were completed */
    run_free(r);
    scene_run(got, &c, "stream", STATUS_OK);
    scene_same_run(want, got);
    scene_close(want);
    scene_close(got);
}

/* Both runs fail at the same step, with the same message. */
static void diverged(void **state)
{
    for (int amp = 0; amp < 2; amp++) {
        struct train_config c = scene_config();
        c.lr = amp ? c.lr : 1e30;
        c.precision = amp ? "amp" : "fp32";
        c.scaler.min = c.scaler.init;
        c.inject_overflow = 4 * amp;
        struct pair p = pair_run(&c, STATUS_DIVERGED);
        scene_same_records(p.want, p.got);
        pair_close(&p);
    }
}

static void evaluated(void **state)
{
    char weights[SCRATCH_MAX + 64];
    struct train_config c = scene_config();
    struct scene *trained = scene_open();
    c.epochs = 1;
    scene_run(trained, &c, "ref", STATUS_OK);
    snprintf(weights, sizeof weights, "%s/run/" CHECKPOINT_NAME, trained->dir);
    c.evaluate = true;
    c.resume = weights;
    struct pair p = pair_run(&c, STATUS_OK);
    const char *want = strstr(p.want->output.text, " *   Acc");
    const char *got = strstr(p.got->output.text, " *   Acc");
    assert_true(want && got);
    size_t line = strcspn(want, "\n"); /* the next line has the elapsed time */
    assert_memory_equal(want, got, line + 1);
    pair_close(&p);
    scene_close(trained);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_the_reference),
        cmocka_unit_test(with_a_choice),
        cmocka_unit_test(with_checkpoints),
        cmocka_unit_test(resumed),
        cmocka_unit_test(diverged),
        cmocka_unit_test(evaluated),
    };
    stream_backend_make(&scene_streams);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
