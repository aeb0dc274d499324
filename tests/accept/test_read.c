/* Tests the metrics that are read from a training run and from the output of the other kinds of
 * checks. Missing sensors must not count as passed. */
#include "accept/accept_kind.h"
#include "accept/accept_suite.h"
#include "base/file.h"
#include "results/schema.h"
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <string.h>

enum { STEPS = 20, SAMPLES = 4, WANTS = 10 };

/* A metric's median, or its text; neither: the result must not have the metric. */
struct want {
    const char *metric;
    double number;
    const char *text;
};
#define NUMBER(metric, number)                                                                     \
    {                                                                                              \
        metric, number, NULL                                                                       \
    }
#define TEXT(metric, text)                                                                         \
    {                                                                                              \
        metric, NAN, text                                                                          \
    }
#define ABSENT(metric)                                                                             \
    {                                                                                              \
        metric, NAN, NULL                                                                          \
    }

static void check_metrics(const struct accept_result *r, const struct want want[WANTS])
{
    for (const struct want *w = want; w < want + WANTS && w->metric; w++) {
        const struct accept_metric *m = accept_metric_find(r, w->metric);
        if ((m != NULL) != (w->text || !isnan(w->number)))
            fail_msg("%s is %s", w->metric, m ? "there" : "absent");
        if (w->text)
            assert_string_equal(m->text[0], w->text);
        if (!isnan(w->number) && accept_metric_median(m) != w->number)
            fail_msg("%s is %.17g", w->metric, accept_metric_median(m));
    }
}

/* Writes a run of 20 steps on `devices` devices. If last_is_dumb, the last device lacks some
 * sensors. */
static void make_run(const char *dir, int devices, bool last_is_dumb, double last_loss)
{
    static const char info[] = "{\"schema\": 1, \"config\": {\"arch\": \"resnet18\"}}";
    static const char summary[] = "{\"schema\": 1, \"ended_by\": \"steps\"}";
    char line[SCHEMA_LINE_MAX], path[SCRATCH_MAX + 8];
    snprintf(path, sizeof path, "%s/run", dir);
    expect_ok(dir_make(path));
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

/* Reads the run as a run of two devices. */
static struct accept_result read_run(const char *dir)
{
    struct accept_result r = {.name = "a", .repeats = 1};
    const struct accept_spec spec = {.n_devices = 2, .device = "cuda"};
    const struct accept_check check = {.device = -1, .kind = accept_kind_find("train")};
    expect_ok(accept_read_repeat(&spec, &check, NULL, dir, &r));
    return r;
}

/* If one device lacks a sensor, the metric of all devices is missing. */
static void test_sensors(void **state)
{
    static const struct {
        int devices;
        bool last_is_dumb;
        struct want want[WANTS];
    } rows[] = {
        {2,
         false,
         {NUMBER("images_per_s", 16), NUMBER("images_per_s_per_device", 8), NUMBER("loss", 0.5),
          NUMBER("temperature_c", 63), NUMBER("ecc_uncorrected", 6),
          NUMBER("throttled_hardware_heat", 25), NUMBER("throttled_heat", 0),
          ABSENT("throttled_idle"), ABSENT("power_w")}},
        {2,
         true,
         {NUMBER("temperature_c", 63), ABSENT("ecc_uncorrected"), ABSENT("throttled_heat")}},
        {1, false, {NUMBER("images_per_s", 16), ABSENT("temperature_c"), ABSENT("throttled_heat")}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_run(*state, rows[i].devices, rows[i].last_is_dumb, 0.5);
        struct accept_result r = read_run(*state);
        check_metrics(&r, rows[i].want);
        accept_result_free(&r);
        expect_ok(dir_remove(*state));
    }
    expect_ok(dir_make(*state));
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
    static const struct want all[WANTS] = {
        NUMBER("temperature_c", 70), NUMBER("clock_mhz", 900), NUMBER("throttled_heat", 50),
        ABSENT("ecc_uncorrected"), /* only the samples on disk have it, not the summary */
    };
    static const struct want none[WANTS] = {ABSENT("temperature_c")};
    make_ranks(*state,
               ", {\"device\": 0, \"rank\": 1, \"host\": \"b\", \"index\": 3, "
               "\"temperature_c\": 70, \"clock_mhz\": 1000, \"throttled\": {\"heat\": 0.5}}");
    struct accept_result r = read_run(*state);
    check_metrics(&r, all);
    assert_string_equal(accept_metric_find(&r, "temperature_c")->where, "b cuda:3");
    assert_string_equal(accept_metric_find(&r, "clock_mhz")->where, "a cuda:0");
    assert_string_equal(accept_metric_find(&r, "throttled_power_brake")->where, "");
    accept_result_free(&r);
    expect_ok(dir_remove(*state));
    make_ranks(*state, ""); /* one rank has no sensors */
    r = read_run(*state);
    check_metrics(&r, none);
    accept_result_free(&r);
}

/* A small difference of one loss changes loss_bits. */
static void test_loss_bits(void **state)
{
    struct accept_result r[2];
    for (int i = 0; i < 2; i++) {
        make_run(*state, 2, false, i ? 0.500000001 : 0.5);
        r[i] = read_run(*state);
        expect_ok(dir_remove(*state));
    }
    expect_ok(dir_make(*state));
    assert_string_not_equal(accept_metric_find(&r[0], "loss_bits")->text[0],
                            accept_metric_find(&r[1], "loss_bits")->text[0]);
    accept_result_free(&r[0]);
    accept_result_free(&r[1]);
}

/* A folder without a run, and a run that is incomplete, are refused. */
static void test_unfinished(void **state)
{
    struct accept_result r = {.name = "a"};
    const struct accept_spec spec = {.n_devices = 1};
    const struct accept_check check = {.device = -1, .kind = accept_kind_find("train")};
    assert_int_equal(accept_read_repeat(&spec, &check, NULL, *state, &r), STATUS_DATA);
    make_run(*state, 1, false, 0.5);
    scratch_remove_file(*state, "run/summary.json");
    assert_int_equal(accept_read_repeat(&spec, &check, NULL, *state, &r), STATUS_DATA);
    accept_result_free(&r);
}

#define MEDIAN         "'images_per_s': {'median': "
#define ROW(who, more) "{'precision': 'amp', 'batch': 256, 'who': '" who "', " more "}, "
#define TURNS                                                                                      \
    "{'peer': 'PyTorch 2', 'net': 'resnet50', 'image_size': 224, 'rows': [" ROW(                   \
        "ampscale",                                                                                \
        "'fuse': 'none', 'graphs': false, 'rung': 'no graph', " MEDIAN                             \
        "300, 'min': 290, 'max': 310}, 'falls': [{'rung': 'auto', 'why': 'capture failed'}]")      \
        ROW("PyTorch eager", MEDIAN "100}") ROW("PyTorch compile", MEDIAN "150}")                  \
            ROW("somebody", MEDIAN "1}") "{'precision': 'bf16', 'batch': 64, 'who': 'ampscale', "  \
                                         "'why': 'no time was left'}]}"

/* Output of a benchmark, and the metrics that it must give. */
static const struct {
    const char *kind, *args, *output;
    struct want want[WANTS];
} outputs[] = {
    {"gpu-peers",
     "{}",
     "{'pairs': [{'from': 0, 'to': 3, 'direct': true, 'median_gb_per_s': 400, 'wrong': 0}, "
     "{'from': 3, 'to': 0, 'direct': false, 'median_gb_per_s': 20, 'wrong': 2}]}",
     {NUMBER("copy_0_3", 400), NUMBER("copy_3_0", 20), NUMBER("pairs", 2), NUMBER("direct", 1),
      NUMBER("staged", 1), NUMBER("wrong", 2)}},
    {"nccl", /* one rank moves no data, so its rows have no metric */
     "{}",
     "{'wrong': 3, 'rows': [{'bytes': 4096, 'out_of_place': {'busbw': 0}}]}",
     {NUMBER("wrong", 3), ABSENT("busbw_4096")}},
    {"gpu-input",
     "{}",
     "{'gpu_decoder': 'nvJPEG', 'rows': [{'stage': 'loader', 'from': 'warm', 'threads': 2, "
     "'images_per_s': 100, 'on_gpu': 0, 'wrong': 0}, {'stage': 'gpu', 'from': 'warm', 'threads': "
     "2, 'images_per_s': 400, 'on_gpu': 64, 'wrong': 1}]}",
     {NUMBER("loader_warm_2", 100), NUMBER("gpu_warm_2", 400), NUMBER("on_gpu", 64),
      NUMBER("wrong", 1)}},
    {"gpu-input", /* a machine without JPEG engines */
     "{}",
     "{'gpu_decoder': 'none: no nvJPEG', 'rows': [{'stage': 'loader', 'from': 'warm', "
     "'threads': 2, 'images_per_s': 100, 'wrong': 0}]}",
     {NUMBER("loader_warm_2", 100), ABSENT("on_gpu")}},
    /* The times of operations of a kind are added. `of_peak` is the sum of the bounds divided by
     * the sum of the times. An operation without a bound adds only its time. */
    {"step",
     "{}",
     "{'steps': [{'op': 'conv_fwd', 'seconds': 0.5, 'bound_s': 0.25}, {'op': 'sgd', 'seconds': "
     "0.25}, {'op': 'conv_fwd', 'seconds': 0.25, 'bound_s': 0.25}]}",
     {NUMBER("step_ms", 1000), NUMBER("conv_fwd_ms", 750), NUMBER("sgd_ms", 250),
      NUMBER("of_peak", 50)}},
    {"operations",
     "{}",
     "{'cases': 9, 'passed': 5, 'skipped': 1, 'failed': 2, 'late': 1, 'kinds': [{'kind': "
     "'conv_fwd', 'passed': 5, 'ended': 'ended by a signal: Killed'}], 'failures': [{'kind': "
     "'conv_fwd', 'case': 3, 'name': '3x3', 'reason': '7 is 8'}]}",
     {NUMBER("wrong", 2), NUMBER("late", 1), NUMBER("passed", 5), NUMBER("passed_conv_fwd", 5),
      TEXT("ended_conv_fwd", "ended by a signal: Killed"),
      TEXT("first_failure", "conv_fwd: 3x3: 7 is 8")}},
    {"sanitizer",
     "{}",
     "{'tool': 'racecheck', 'findings': 3, 'cases': 4, 'first': 'Race reported'}",
     {NUMBER("findings", 3), TEXT("first_finding", "Race reported")}},
    {"accuracy",
     "{}",
     "{'rows': [{'precision': 'O1', 'val_top1': 64.5, 'cpu': {'mean': 65}, 'rung': 'no graph'}, "
     "{'precision': 'O2', 'val_top1': null, 'why': 'no time'}]}",
     {NUMBER("top1_O1", 64.5), NUMBER("off_cpu_O1", -0.5), TEXT("rung_O1", "no graph"),
      TEXT("why_O2", "no time"), ABSENT("top1_O2")}},
    /* The names of metrics contain the trainer, the precision and the batch. They also contain the
     * launch mode if several were requested. */
    {"throughput",
     "{}",
     TURNS,
     {NUMBER("images_per_s_amp_256", 300), NUMBER("lowest_amp_256", 290),
      NUMBER("images_per_s_peer_compile_amp_256", 150), NUMBER("of_peer_amp_256", 2),
      NUMBER("falls_amp_256", 1), TEXT("peer_mode_amp_256", "PyTorch compile"),
      TEXT("why_amp_256", "capture failed"), TEXT("why_bf16_64", "no time was left"),
      ABSENT("images_per_s_bf16_64"), ABSENT("peer_mode_bf16_64")}},
    {"throughput",
     "{'fuse': 'auto,none'}",
     TURNS,
     {NUMBER("images_per_s_amp_256_fuse-none_no-graph", 300)}},
    /* Without a result of the compiled PyTorch the ratio is to the eager mode. */
    {"throughput",
     "{}",
     "{'rows': [" ROW("ampscale", MEDIAN "300}") ROW("PyTorch eager", MEDIAN "100}")
         ROW("PyTorch compile",
             MEDIAN "null}, 'why': 'out of time'") "{'precision': 'bf16', 'batch': 8, 'who': "
                                                   "'ampscale'}]}",
     {NUMBER("of_peer_amp_256", 3),
      TEXT("peer_mode_amp_256", "PyTorch eager only; PyTorch compile: out of time")}},
};

static void test_outputs(void **state)
{
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        struct accept_result r = {.name = "a", .repeats = 1};
        const struct accept_spec spec = {.n_devices = 2, .device = "cuda", .only_device = -1};
        json_t *output = json_quoted(outputs[i].output), *args = json_quoted(outputs[i].args);
        const struct accept_check check = {
            .device = -1, .kind = accept_kind_find(outputs[i].kind), .args = args};
        expect_ok(accept_read_repeat(&spec, &check, output, ".", &r));
        check_metrics(&r, outputs[i].want);
        json_decref(args);
        json_decref(output);
        accept_result_free(&r);
    }
}

/* Invalid output of every kind of check is read or refused. No two kinds have the same name. */
static void test_invalid_outputs(void **state)
{
    static const char *const texts[] = {
        "{}", "{'rows': 1}", "{'rows': [1, {}, {'kernel': 2, 'bytes': 'x'}]}",
        "{'cases': [0], 'devices': [{}], 'gpus': [{}], 'host': []}", "{'copy': [[]]}"};
    const struct accept_spec spec = {.n_devices = 1, .device = "cpu"};
    for (const struct accept_kind *k = accept_kinds; k->name; k++) {
        assert_ptr_equal(accept_kind_find(k->name), k);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            struct accept_result r = {.name = "a"};
            const struct accept_check check = {.device = -1, .kind = k};
            json_t *output = json_quoted(texts[i]);
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
        IN_FOLDER(test_sensors),    IN_FOLDER(test_ranks),           IN_FOLDER(test_loss_bits),
        IN_FOLDER(test_unfinished), IN_FOLDER(test_invalid_outputs), cmocka_unit_test(test_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
