/* Tests the metrics that are read from a training run. Missing sensors must not count as passed. */
#include "../results/scratch.h"
#include "accept/accept_judge.h"
#include "accept/accept_kind.h"
#include "accept/accept_plan.h"
#include "base/file.h"
#include "results/schema.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 20, SAMPLES = 4 };

static void take(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", status_message());
}

/* Writes a run of 20 steps on `devices` devices. If last_is_dumb, the last device lacks some
 * sensors. */
static void make_run(const char *dir, int devices, bool last_is_dumb, double last_loss)
{
    static const char info[] = "{\"schema\": 1, \"config\": {\"arch\": \"resnet18\"}}";
    static const char summary[] = "{\"schema\": 1, \"ended_by\": \"steps\"}";
    char line[SCHEMA_LINE_MAX], path[SCRATCH_MAX + 8];
    snprintf(path, sizeof path, "%s/run", dir);
    take(dir_make(path));
    scratch_write(path, "run.json", info, strlen(info));
    scratch_write(path, "summary.json", summary, strlen(summary));
    for (int i = 0; i < STEPS; i++) {
        struct step_record s = {.step = i, .images = 8, .total_s = 0.5, .elapsed = 0.5 * (i + 1)};
        s.loss = i == STEPS - 1 ? last_loss : 1.0 / (i + 1);
        scratch_append(path, "steps.jsonl", line, schema_format(&step_schema, &s, line));
    }
    for (int i = 0; i < SAMPLES * devices; i++) {
        struct telemetry_record t = telemetry_nothing;
        t.sample = i / devices;
        t.device = i % devices;
        t.elapsed = 2 * (double)t.sample;
        t.temperature_c = 50 + 10 * (double)t.device + (double)t.sample;
        if (!last_is_dumb || t.device < devices - 1) {
            t.throttle = t.sample == 0 ? THROTTLE_HARDWARE_HEAT : THROTTLE_IDLE;
            t.ecc_uncorrected = 7 + (double)t.sample;
        }
        scratch_append(path, "telemetry.jsonl", line, schema_format(&telemetry_schema, &t, line));
    }
}

/* Reads the run as a run of `devices` devices. */
static struct accept_result read_run(const char *dir, int devices)
{
    struct accept_result r = {.name = "a", .repeats = 1};
    const struct accept_spec spec = {.n_devices = devices, .device = "cuda"};
    const struct accept_check check = {.device = -1, .kind = accept_kind_find("train")};
    take(accept_read_repeat(&spec, &check, NULL, dir, &r));
    return r;
}

static double value(const struct accept_result *r, const char *name)
{
    const struct accept_metric *m = accept_metric_find(r, name);
    return m ? accept_metric_median(m) : NAN;
}

static void test_sensors(void **state)
{
    make_run(*state, 2, false, 0.5);
    struct accept_result r = read_run(*state, 2);
    assert_true(value(&r, "images_per_s") == 16);
    assert_true(value(&r, "images_per_s_per_device") == 8);
    assert_true(value(&r, "loss") == 0.5);
    assert_true(value(&r, "temperature_c") == 63);
    assert_true(value(&r, "ecc_uncorrected") == 6); /* three errors on each of the two devices */
    assert_true(value(&r, "throttled_hardware_heat") == 25);
    assert_true(value(&r, "throttled_heat") == 0);
    assert_null(accept_metric_find(&r, "throttled_idle"));
    assert_null(accept_metric_find(&r, "power_w"));
    accept_result_free(&r);
}

/* If one device lacks a sensor, the metric of all devices is missing. */
static void test_dumb(void **state)
{
    make_run(*state, 2, true, 0.5);
    struct accept_result r = read_run(*state, 2);
    assert_true(value(&r, "temperature_c") == 63);
    assert_null(accept_metric_find(&r, "ecc_uncorrected"));
    assert_null(accept_metric_find(&r, "throttled_heat"));
    accept_result_free(&r);
}

/* If only one of two devices has sensor data, the run has no sensor metrics. */
static void test_few(void **state)
{
    make_run(*state, 1, false, 0.5);
    struct accept_result r = read_run(*state, 2);
    assert_true(value(&r, "images_per_s") == 16);
    assert_null(accept_metric_find(&r, "temperature_c"));
    assert_null(accept_metric_find(&r, "throttled_heat"));
    accept_result_free(&r);
}

/* Writes a run of two ranks. Its summary has the host and the index of each device. */
static void make_ranks(const char *dir, const char *second)
{
    static const char info[] =
        "{\"schema\": 1, \"config\": {\"arch\": \"resnet18\"}, \"ranks\": [{\"rank\": 0, "
        "\"host\": \"a\", \"pid\": 1}, {\"rank\": 1, \"host\": \"b\", \"pid\": 2}]}";
    char path[SCRATCH_MAX + 8], summary[512];
    make_run(dir, 1, false, 0.5);
    snprintf(path, sizeof path, "%s/run", dir);
    int n = snprintf(summary, sizeof summary,
                     "{\"schema\": 1, \"ended_by\": \"steps\", \"telemetry\": [{\"device\": 0, "
                     "\"rank\": 0, \"host\": \"a\", \"index\": 0, \"temperature_c\": 60, "
                     "\"clock_mhz\": 900, \"throttled\": {}}%s]}",
                     second);
    scratch_write(path, "run.json", info, strlen(info));
    scratch_write(path, "summary.json", summary, (size_t)n);
}

static void test_ranks(void **state)
{
    make_ranks(*state,
               ", {\"device\": 0, \"rank\": 1, \"host\": \"b\", \"index\": 3, "
               "\"temperature_c\": 70, \"clock_mhz\": 1000, \"throttled\": {\"heat\": 0.5}}");
    struct accept_result r = read_run(*state, 2);
    assert_true(value(&r, "temperature_c") == 70);
    assert_string_equal(accept_metric_find(&r, "temperature_c")->where, "b cuda:3");
    assert_true(value(&r, "clock_mhz") == 900);
    assert_string_equal(accept_metric_find(&r, "clock_mhz")->where, "a cuda:0");
    assert_true(value(&r, "throttled_heat") == 50);
    assert_string_equal(accept_metric_find(&r, "throttled_heat")->where, "b cuda:3");
    assert_string_equal(accept_metric_find(&r, "throttled_power_brake")->where, "");
    /* the summary lacks this sensor; only the samples on disk have it */
    assert_null(accept_metric_find(&r, "ecc_uncorrected"));
    accept_result_free(&r);
}

/* If one rank has no sensors, the metrics of all ranks are missing. */
static void test_dumb_rank(void **state)
{
    make_ranks(*state, "");
    struct accept_result r = read_run(*state, 2);
    assert_null(accept_metric_find(&r, "temperature_c"));
    accept_result_free(&r);
}

/* A difference in the last bit of one loss changes loss_bits. */
static void test_loss_bits(void **state)
{
    make_run(*state, 1, false, 0.5);
    struct accept_result a = read_run(*state, 1);
    take(dir_remove(*state));
    make_run(*state, 1, false, 0.500000001);
    struct accept_result b = read_run(*state, 1);
    assert_string_not_equal(accept_metric_find(&a, "loss_bits")->text[0],
                            accept_metric_find(&b, "loss_bits")->text[0]);
    accept_result_free(&a);
    accept_result_free(&b);
}

/* A folder without a run, and a run that is incomplete, are refused. */
static void test_unfinished(void **state)
{
    char path[SCRATCH_MAX + 32];
    struct accept_result r = {.name = "a"};
    const struct accept_spec spec = {.n_devices = 1};
    const struct accept_check check = {.device = -1, .kind = accept_kind_find("train")};
    assert_int_equal(accept_read_repeat(&spec, &check, NULL, *state, &r), STATUS_DATA);
    make_run(*state, 1, false, 0.5);
    snprintf(path, sizeof path, "%s/run/summary.json", (char *)*state);
    assert_int_equal(remove(path), 0);
    assert_int_equal(accept_read_repeat(&spec, &check, NULL, *state, &r), STATUS_DATA);
    accept_result_free(&r);
}

/* Reads text that has the form of a benchmark's output. */
static struct accept_result read_output(const char *kind, const char *text)
{
    struct accept_result r = {.name = "a", .repeats = 1};
    const struct accept_spec spec = {.n_devices = 2, .device = "cuda"};
    const struct accept_check check = {.device = -1, .kind = accept_kind_find(kind)};
    json_t *output = json_loads(text, 0, NULL);
    assert_non_null(output);
    take(accept_read_repeat(&spec, &check, output, ".", &r));
    json_decref(output);
    return r;
}

static void test_peers(void **state)
{
    (void)state;
    struct accept_result r = read_output(
        "gpu-peers",
        "{\"pairs\": [{\"from\": 0, \"to\": 3, \"direct\": true, \"median_gb_per_s\": 400, "
        "\"wrong\": 0}, {\"from\": 3, \"to\": 0, \"direct\": false, \"median_gb_per_s\": 20, "
        "\"wrong\": 2}]}");
    assert_true(value(&r, "copy_0_3") == 400);
    assert_true(value(&r, "copy_3_0") == 20);
    assert_true(value(&r, "pairs") == 2);
    assert_true(value(&r, "direct") == 1);
    assert_true(value(&r, "wrong") == 2);
    accept_result_free(&r);
}

/* One rank moves no data, so its rows have no metric. */
static void test_nccl(void **state)
{
    (void)state;
    struct accept_result r = read_output(
        "nccl", "{\"wrong\": 3, \"rows\": [{\"bytes\": 4096, \"out_of_place\": {\"busbw\": 0}}]}");
    assert_true(value(&r, "wrong") == 3);
    assert_int_equal(r.n_metrics, 1);
    accept_result_free(&r);
}

/* A row without `on_gpu` comes from a machine without JPEG engines. The metric is then missing. */
static void test_gpu_input(void **state)
{
    (void)state;
    struct accept_result r = read_output(
        "gpu-input",
        "{\"gpu_decoder\": \"nvJPEG\", \"rows\": ["
        "{\"stage\": \"loader\", \"from\": \"warm\", \"threads\": 2, \"images_per_s\": 100, "
        "\"on_gpu\": 0, \"wrong\": 0}, "
        "{\"stage\": \"gpu\", \"from\": \"warm\", \"threads\": 2, \"images_per_s\": 400, "
        "\"on_gpu\": 64, \"wrong\": 1}]}");
    assert_true(value(&r, "loader_warm_2") == 100);
    assert_true(value(&r, "gpu_warm_2") == 400);
    assert_true(value(&r, "on_gpu") == 64);
    assert_true(value(&r, "wrong") == 1);
    accept_result_free(&r);
    r = read_output("gpu-input", "{\"gpu_decoder\": \"none: no nvJPEG\", \"rows\": ["
                                 "{\"stage\": \"loader\", \"from\": \"warm\", \"threads\": 2, "
                                 "\"images_per_s\": 100, \"wrong\": 0}]}");
    assert_null(accept_metric_find(&r, "on_gpu"));
    accept_result_free(&r);
}

/* The times of operations of a kind are added. `of_peak` is the sum of the bounds divided by the
 * sum of the times. An operation without a bound adds only its time. */
static void test_step(void **state)
{
    (void)state;
    struct accept_result r = read_output(
        "step", "{\"steps\": [{\"op\": \"conv_fwd\", \"seconds\": 0.5, \"bound_s\": 0.25}, "
                "{\"op\": \"sgd\", \"seconds\": 0.25}, "
                "{\"op\": \"conv_fwd\", \"seconds\": 0.25, \"bound_s\": 0.25}]}");
    assert_true(value(&r, "step_ms") == 1000);
    assert_true(value(&r, "conv_fwd_ms") == 750);
    assert_true(value(&r, "sgd_ms") == 250);
    assert_true(value(&r, "of_peak") == 50);
    accept_result_free(&r);
}

/* Reads a text as the output of a check of the given kind and arguments. */
static struct accept_result read_text(const char *kind, const char *args, const char *text)
{
    struct accept_result r = {.name = "a", .repeats = 1};
    const struct accept_spec spec = {.n_devices = 1, .device = "cuda", .only_device = -1};
    json_t *output = json_loads(text, 0, NULL), *given = json_loads(args, 0, NULL);
    const struct accept_check check = {.device = -1, .kind = accept_kind_find(kind), .args = given};
    assert_non_null(output);
    take(accept_read_repeat(&spec, &check, output, "", &r));
    json_decref(given);
    json_decref(output);
    return r;
}

static void text_is(const struct accept_result *r, const char *metric, const char *want)
{
    const struct accept_metric *m = accept_metric_find(r, metric);
    assert_non_null(m);
    assert_non_null(m->text);
    assert_string_equal(m->text[0], want);
}

static void test_operations(void **state)
{
    (void)state;
    struct accept_result r =
        read_text("operations", "{}",
                  "{\"cases\": 9, \"passed\": 5, \"skipped\": 1, \"failed\": 2, \"late\": 1, "
                  "\"kinds\": [{\"kind\": "
                  "\"conv_fwd\", \"passed\": 5, \"ended\": \"ended by a signal: Killed\"}], "
                  "\"failures\": [{\"kind\": "
                  "\"conv_fwd\", \"case\": 3, \"name\": \"3x3\", \"reason\": \"7 is 8\"}]}");
    assert_true(value(&r, "wrong") == 2 && value(&r, "late") == 1 && value(&r, "passed") == 5);
    assert_true(value(&r, "passed_conv_fwd") == 5);
    text_is(&r, "ended_conv_fwd", "ended by a signal: Killed");
    text_is(&r, "first_failure", "conv_fwd: 3x3: 7 is 8");
    accept_result_free(&r);
    r = read_text("sanitizer", "{}",
                  "{\"tool\": \"racecheck\", \"findings\": 3, \"cases\": 4, \"first\": "
                  "\"Race reported\"}");
    assert_true(value(&r, "findings") == 3);
    text_is(&r, "first_finding", "Race reported");
    accept_result_free(&r);
}

static void test_accuracy(void **state)
{
    (void)state;
    struct accept_result r =
        read_text("accuracy", "{}",
                  "{\"rows\": [{\"precision\": \"O1\", \"val_top1\": 64.5, \"cpu\": {\"mean\": "
                  "65}, \"rung\": \"no graph\"}, "
                  "{\"precision\": \"O2\", \"val_top1\": null, \"why\": \"no time\"}]}");
    assert_true(value(&r, "top1_O1") == 64.5 && value(&r, "off_cpu_O1") == -0.5);
    text_is(&r, "rung_O1", "no graph");
    text_is(&r, "why_O2", "no time");
    assert_null(accept_metric_find(&r, "top1_O2"));
    accept_result_free(&r);
}

/* The names of metrics contain the trainer, the precision and the batch. They also contain the
 * launch mode if several were requested. */
static void test_throughput(void **state)
{
    (void)state;
    static const char text[] =
        "{\"peer\": \"PyTorch 2\", \"net\": \"resnet50\", \"image_size\": 224, \"rows\": ["
        "{\"precision\": \"amp\", \"batch\": 256, \"who\": \"ampscale\", \"fuse\": \"none\", "
        "\"graphs\": false, "
        "\"rung\": \"no graph\", \"images_per_s\": {\"median\": 300, \"min\": 290, \"max\": 310}, "
        "\"falls\": [{\"rung\": \"auto\", \"why\": \"capture failed\"}]},"
        "{\"precision\": \"amp\", \"batch\": 256, \"who\": \"PyTorch eager\", \"images_per_s\": "
        "{\"median\": 100}},"
        "{\"precision\": \"amp\", \"batch\": 256, \"who\": \"PyTorch compile\", \"images_per_s\": "
        "{\"median\": 150}},"
        "{\"precision\": \"bf16\", \"batch\": 64, \"who\": \"ampscale\", \"why\": \"no time was "
        "left\"},"
        "{\"precision\": \"amp\", \"batch\": 256, \"who\": \"somebody\", \"images_per_s\": "
        "{\"median\": 1}}]}";
    struct accept_result r = read_text("throughput", "{}", text);
    assert_true(value(&r, "images_per_s_amp_256") == 300 && value(&r, "lowest_amp_256") == 290);
    assert_true(value(&r, "images_per_s_peer_compile_amp_256") == 150);
    assert_true(value(&r, "of_peer_amp_256") == 2 && value(&r, "falls_amp_256") == 1);
    text_is(&r, "peer_mode_amp_256", "PyTorch compile");
    assert_null(accept_metric_find(&r, "peer_mode_bf16_64"));
    text_is(&r, "rung_amp_256", "no graph");
    text_is(&r, "why_amp_256", "capture failed");
    text_is(&r, "why_bf16_64", "no time was left");
    assert_null(accept_metric_find(&r, "images_per_s_bf16_64"));
    accept_result_free(&r);
    r = read_text("throughput", "{\"fuse\": \"auto,none\"}", text);
    assert_true(value(&r, "images_per_s_amp_256_fuse-none_no-graph") == 300);
    accept_result_free(&r);
}

/* Without a result of the compiled PyTorch the ratio is to the eager mode. The whole reason is
 * kept, and so is the long message of a failed row. */
static void test_throughput_eager_only(void **state)
{
    (void)state;
    char text[1024], why[301] = "";
    memset(why, 'w', sizeof why - 1);
    snprintf(text, sizeof text,
             "{\"rows\": [{\"precision\": \"amp\", \"batch\": 8, \"who\": \"ampscale\", "
             "\"images_per_s\": {\"median\": 300}}, {\"precision\": \"amp\", \"batch\": 8, "
             "\"who\": \"PyTorch eager\", \"images_per_s\": {\"median\": 100}}, {\"precision\": "
             "\"amp\", \"batch\": 8, \"who\": \"PyTorch compile\", \"images_per_s\": {\"median\": "
             "null}, \"why\": \"out of time\"}, {\"precision\": \"bf16\", \"batch\": 8, \"who\": "
             "\"ampscale\", \"why\": \"%s\"}]}",
             why);
    struct accept_result r = read_text("throughput", "{}", text);
    assert_true(value(&r, "of_peer_amp_8") == 3);
    text_is(&r, "peer_mode_amp_8", "PyTorch eager only; PyTorch compile: out of time");
    text_is(&r, "why_bf16_8", why);
    accept_result_free(&r);
}

static void test_profile(void **state)
{
    (void)state;
    struct accept_result r = read_text("profile", "{}",
                                       "{\"tool\": \"ncu 1\", \"kernels\": [{\"name\": "
                                       "\"bn_apply\", \"phase\": \"forward\", \"count\": 53, "
                                       "\"time_us\": 900, \"dram_share\": 0.75, \"tensor_share\": "
                                       "0}], \"totals\": {\"time_us\": 29000}}");
    text_is(&r, "kernel_01", "bn_apply, forward, x53");
    assert_true(value(&r, "kernel_01_us") == 900 && value(&r, "kernel_01_dram") == 75);
    assert_true(value(&r, "step_us") == 29000);
    accept_result_free(&r);
}

/* Invalid output of every kind of check is read or refused. No two kinds have the same name. */
static void test_other_output(void **state)
{
    static const char *const texts[] = {
        "{}", "{\"rows\": 1}", "{\"rows\": [1, {}, {\"kernel\": 2, \"bytes\": \"x\"}]}",
        "{\"cases\": [0], \"devices\": [{}], \"gpus\": [{}], \"host\": []}", "{\"copy\": [[]]}"};
    const struct accept_spec spec = {.n_devices = 1, .device = "cpu"};
    for (const struct accept_kind *k = accept_kinds; k->name; k++) {
        assert_ptr_equal(accept_kind_find(k->name), k);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            struct accept_result r = {.name = "a"};
            const struct accept_check check = {.device = -1, .kind = k};
            json_t *output = json_loads(texts[i], 0, NULL);
            enum status st = accept_read_repeat(&spec, &check, output, *state, &r);
            assert_true(st == STATUS_OK || st == STATUS_DATA);
            json_decref(output);
            accept_result_free(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sensors, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_dumb, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_few, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_ranks, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_dumb_rank, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_loss_bits, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_unfinished, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_other_output, scratch_set_up, scratch_tear_down),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_throughput),
        cmocka_unit_test(test_throughput_eager_only),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_nccl),
        cmocka_unit_test(test_gpu_input),
        cmocka_unit_test(test_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
