/* Compares each format with known bytes, and tests the export of damaged records. */
#include "../results/scratch.h"
#include "export/export.h"
#include "export/mlperf_rules.h"
#include "export/prometheus.h"
#include "export/tensorboard.h"
#include "made_run.h"

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct fixture {
    char dir[SCRATCH_MAX];
    char run[SCRATCH_MAX + 32]; /* its name has characters that CSV and labels must quote */
    FILE *written;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    snprintf(f->run, sizeof f->run, "%s/say \"hi\", \\o", f->dir);
    f->written = fopen("/dev/null", "w");
    assert_int_equal(mkdir(f->run, 0777), 0);
    assert_int_equal(made_run_write(f->run), STATUS_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    fclose(f->written);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

static struct run *load(const struct fixture *f)
{
    struct run *run;
    if (run_load(f->run, &run) != STATUS_OK)
        fail_msg("%s", status_message());
    return run;
}

/* Exports the run once; returns the status. */
static enum status export_one(const struct fixture *f, enum export_format format, const char *name)
{
    char out[SCRATCH_MAX + 64];
    struct run *run = load(f);
    snprintf(out, sizeof out, "%s/%s", f->dir, name);
    struct export_options o = {.format = format, .out = out, .written = f->written};
    enum status st = export_runs((const struct run *const *)&run, 1, &o);
    run_free(run);
    return st;
}

static char *exported(const struct fixture *f, enum export_format format, const char *name,
                      const char *file, size_t *size)
{
    if (export_one(f, format, name) != STATUS_OK)
        fail_msg("%s", status_message());
    return scratch_read(f->dir, file, size);
}

/* Checks that `text` contains each of the lines as a whole line. */
static void expect_lines(const char *text, const char *const *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(text, line[i]);
        size_t len = strlen(line[i]);
        while (at && !((at == text || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\r')))
            at = strstr(at + 1, line[i]);
        if (!at)
            fail_msg("no line '%s' in:\n%s", line[i], text);
    }
}

static void test_crc(void **state)
{
    (void)state;
    static const unsigned char length[8] = {24};
    assert_int_equal(tensorboard_crc(length, 8), 0x224b7fa3);
    assert_int_equal(tensorboard_crc("123456789", 9), 0xc78ab0e5);
}

/* Compares a file byte by byte: its beginning, and the events of an epoch. The checksums are
 * TensorFlow's. */
static void test_event_bytes(void **state)
{
    (void)state;
    static const unsigned char version[] = {24,   0,    0,    0,    0,   0,   0,   0,   0xa3,
                                            0x7f, 0x4b, 0x22, 0x09, 0,   0,   0,   0,   0,
                                            0,    0xf8, 0x3f, 0x1a, 13,  'b', 'r', 'a', 'i',
                                            'n',  '.',  'E',  'v',  'e', 'n', 't', ':', '2'};
    static const unsigned char scalar[] = {0x09, 0,    0,   0,    0,   0,    0, 0,   0x40, 0x10,
                                           4,    0x2a, 17,  0x0a, 15,  0x0a, 8, 'L', 'o',  's',
                                           's',  '/',  'v', 'a',  'l', 0x15, 0, 0,   0,    0x40};
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    struct epoch_record e = {
        .steps = 5, .val_images = 1, .val_loss = 2, .val_top1 = NAN, .val_top5 = INFINITY};
    tensorboard_begin(out, 1.5, 0);
    tensorboard_epoch(out, 2, &e);
    fclose(out);
    assert_int_equal(size, sizeof version + 4 + 12 + sizeof scalar + 4);
    assert_memory_equal(bytes, version, sizeof version);
    assert_int_equal(bytes[sizeof version + 4], sizeof scalar);
    assert_memory_equal(bytes + sizeof version + 4 + 12, scalar, sizeof scalar);
    free(bytes);
}

/* The export of a resumed run has the step at which it resumed. */
static void test_restart_bytes(void **state)
{
    (void)state;
    static const unsigned char start[] = {0x09, 0,    0, 0,    0, 0,    0, 0xf8,
                                          0x3f, 0x10, 7, 0x3a, 2, 0x08, 1};
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    tensorboard_begin(out, 1.5, 7);
    fclose(out);
    assert_int_equal(size, 12 + 24 + 4 + 12 + sizeof start + 4);
    assert_memory_equal(bytes + 12 + 24 + 4 + 12, start, sizeof start);
    free(bytes);
}

static void test_tensorboard(void **state)
{
    size_t size, again_size;
    const char *file = "tb/say \"hi\", \\o/events.out.tfevents.1706702400.node1.export";
    char *bytes = exported(*state, EXPORT_TENSORBOARD, "tb", file, &size);
    char *again = exported(*state, EXPORT_TENSORBOARD, "tb", file, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(bytes, again, size);
    int records = 0;
    for (size_t at = 0; at < size; records++) {
        uint32_t crc;
        size_t length = (unsigned char)bytes[at] + 256 * (size_t)(unsigned char)bytes[at + 1];
        memcpy(&crc, bytes + at + 8, 4);
        assert_int_equal(crc, tensorboard_crc(bytes + at, 8));
        memcpy(&crc, bytes + at + 12 + length, 4);
        assert_int_equal(crc, tensorboard_crc(bytes + at + 12, length));
        at += 12 + length + 4;
    }
    /* the version, two records of hyper-parameters, four steps, two epochs, and the outcome */
    assert_int_equal(records, 1 + 2 + 4 + 2 + 1);
    free(bytes);
    free(again);
}

static void test_tensorboard_name(void **state)
{
    (void)state;
    char name[TENSORBOARD_NAME_MAX];
    tensorboard_name(name, 12.9, "a/../b c", "7");
    assert_string_equal(name, "events.out.tfevents.0000000012.a_.._b_c.7");
}

static void test_csv(void **state)
{
    size_t size;
    static const char *const steps[] = {
        "\"say \"\"hi\"\", \\o\",0,1,1,32,3,25,50,0.01,0.0625,0,0.125,0.25,0,0,0.03125,0.5,0,0,0,0,"
        "0,65536,0,1,1.5",
        "\"say \"\"hi\"\", \\o\",1,2,0,32,,25,50,0.0001,0.0625,0,0.125,0.25,0,0,0.03125,0.5,0,0,0,"
        "0,0,32768,0,0,3"};
    char *text = exported(*state, EXPORT_CSV, "csv", "csv/steps.csv", &size);
    assert_memory_equal(text, "run,epoch,step,batch,images,loss,", 33);
    assert_int_equal(text[size - 2], '\r');
    expect_lines(text, steps, 2);
    free(text);
    text = scratch_read(((struct fixture *)*state)->dir, "csv/ranks.csv", &size);
    assert_memory_equal(text, "run,epoch,rank,attempt,", 23);
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
    free(text);
}

static void test_prometheus(void **state)
{
    size_t size;
    static const char *const lines[] = {
        "# TYPE ampscale_steps_total counter",
        "ampscale_run_info{run=\"say \\\"hi\\\", \\\\o\",arch=\"resnet18\",precision=\"amp\",mode="
        "\"nd\",device=\"a \\\"quick\\\" \\\\ device\"} 1",
        "ampscale_run_finished{run=\"say \\\"hi\\\", \\\\o\"} 1",
        "ampscale_last_record_timestamp_seconds{run=\"say \\\"hi\\\", \\\\o\"} 1706702404.5",
        "ampscale_steps_total{run=\"say \\\"hi\\\", \\\\o\"} 4",
        "ampscale_epochs_total{run=\"say \\\"hi\\\", \\\\o\"} 2",
        "ampscale_skipped_steps_total{run=\"say \\\"hi\\\", \\\\o\"} 1",
        "ampscale_throughput_images_per_second{run=\"say \\\"hi\\\", \\\\o\"} 64",
        "ampscale_step_part_seconds{run=\"say \\\"hi\\\", \\\\o\",part=\"backward\"} 0.25",
        "ampscale_accuracy_ratio{run=\"say \\\"hi\\\", \\\\o\",phase=\"val\",top=\"1\"} 0.78",
        "ampscale_loss_scale{run=\"say \\\"hi\\\", \\\\o\"} 32768"};
    char *text = exported(*state, EXPORT_PROMETHEUS, "x.prom", "x.prom", &size);
    expect_lines(text, lines, sizeof lines / sizeof *lines);
    assert_int_equal(text[size - 1], '\n');
    free(text);
}

/* For each device, the last sample is exported. Sums cover all steps. */
static void test_telemetry(void **state)
{
    size_t size;
    const struct fixture *f = *state;
    static const char rows[] =
        "{\"sample\":0,\"device\":0,\"power_w\":100,\"elapsed\":0.5}\n"
        "{\"sample\":1,\"device\":0,\"power_w\":200,\"busy\":50,\"elapsed\":1.25}\n"
        "{\"sample\":1,\"device\":1,\"temperature_c\":71,\"elapsed\":1.25}\n"
        "{\"sample\":2,\"device\":0,\"power_w\":300,\"busy\":25,\"elapsed\":9}\n";
    static const char *const lines[] = {
        "# TYPE ampscale_device_power_watts gauge",
        "ampscale_device_power_watts{run=\"say \\\"hi\\\", \\\\o\",device=\"0\"} 300",
        "ampscale_device_utilization_ratio{run=\"say \\\"hi\\\", \\\\o\",device=\"0\"} 0.25",
        "ampscale_device_temperature_celsius{run=\"say \\\"hi\\\", \\\\o\",device=\"1\"} 71"};
    scratch_write(f->run, "telemetry.jsonl", rows, sizeof rows - 1);
    char *text = exported(f, EXPORT_PROMETHEUS, "x.prom", "x.prom", &size);
    expect_lines(text, lines, sizeof lines / sizeof *lines);
    assert_null(strstr(text, "ampscale_device_clock_hertz"));
    free(text);
    assert_int_equal(export_one(f, EXPORT_TENSORBOARD, "tb"), STATUS_OK);
    char *events = scratch_read(
        f->dir, "tb/say \"hi\", \\o/events.out.tfevents.1706702400.node1.export", &size);
    int powers = 0, hot = 0;
    for (size_t i = 0; i + 21 <= size; i++) {
        powers += memcmp(events + i, "Device0/Power_W", 15) == 0;
        hot += memcmp(events + i, "Device1/Temperature_C", 21) == 0;
    }
    assert_int_equal(powers, 3);
    assert_int_equal(hot, 1);
    free(events);
}

/* Writes the metrics of a run before its first step, and again after a step whose loss is not
 * finite. The text contains neither nan nor inf. */
static void test_prometheus_of_nothing(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    struct prometheus_run run = {
        .name = "a\nb", .arch = "", .precision = "", .mode = "", .device = "", .time = NAN};
    FILE *out = open_memstream(&text, &size);
    prometheus_write(out, &run, 1);
    prometheus_step(&run, 1, &(struct step_record){.images = 1, .loss = NAN});
    prometheus_epoch(&run, 1, &(struct epoch_record){.epoch = 0});
    prometheus_write(out, &run, 1);
    fclose(out);
    assert_non_null(strstr(text, "ampscale_run_finished{run=\"a?b\"} 0\n"));
    assert_null(strstr(text, " nan"));
    assert_null(strstr(text, " inf"));
    assert_null(strstr(text, "ampscale_loss{"));
    free(text);
}

static void test_mlperf(void **state)
{
    size_t size;
    static const char *const lines[] = {
        "# Ruleset: MLPerf Training 4.0.0, resnet, open division.",
        "# Not met: its data set has 64 training and 50 validation images, ImageNet has 1281167 "
        "and 50000.",
        "# Not met: its network is resnet18, not resnet50.",
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702400000, \"event_type\": "
        "\"POINT_IN_TIME\", \"key\": \"submission_status\", \"value\": \"research\", \"metadata\": "
        "{\"file\": \"run.json\", \"lineno\": 0}}",
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702400500, \"event_type\": "
        "\"INTERVAL_START\", \"key\": \"run_start\", \"value\": null, \"metadata\": {\"file\": "
        "\"run.json\", \"lineno\": 0}}",
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702404250, \"event_type\": "
        "\"POINT_IN_TIME\", \"key\": \"eval_accuracy\", \"value\": 0.78, \"metadata\": {\"file\": "
        "\"epochs.jsonl\", \"lineno\": 2, \"epoch_num\": 2}}",
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702404500, \"event_type\": "
        "\"INTERVAL_END\", \"key\": \"run_stop\", \"value\": null, \"metadata\": {\"file\": "
        "\"epochs.jsonl\", \"lineno\": 2, \"status\": \"success\"}}"};
    char *text = exported(*state, EXPORT_MLPERF, "x.log", "x.log", &size);
    expect_lines(text, lines, sizeof lines / sizeof *lines);
    free(text);
}

/* Each case changes one setting of the made run. The new setting breaks a rule of the closed
 * division, or meets it if `line` is NULL. */
static void test_mlperf_rules(void **state)
{
    const struct {
        const char *key;
        json_t *value;
        const char *line; /* NULL: the value meets the rule */
    } cases[] = {
        {"epochs", json_integer(2), NULL},
        {"dummy", json_true(), "it trained on synthetic tensors, not on ImageNet"},
        {"weight_decay", json_real(0.0002), NULL},
        {"weight_decay", json_real(0.00015),
         "its weight decay, 0.00015, is not 0.0001 times a power of 2"},
        {"lars", json_real(0.001), "its learning rate does not decay by a polynomial of power 2"},
        {"lr_schedule", json_string("poly"),
         "its learning rate ends at 0, not at 0.0001 (--lr-schedule poly --lr-end 0.0001)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run *run = load(*state);
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        json_object_set_new(json_object_get(run->info, "config"), cases[i].key, cases[i].value);
        mlperf_unmet(run, true, out);
        fclose(out);
        int lines = 0;
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            lines++;
        /* Without synthetic data, the output always has two lines: the network is not resnet50, and
         * the data set is not ImageNet. With synthetic data, the line of the case replaces the
         * second line. */
        bool synthetic = strcmp(cases[i].key, "dummy") == 0;
        assert_int_equal(lines, 2 + (cases[i].line && !synthetic));
        if (cases[i].line && !strstr(text, cases[i].line))
            fail_msg("no '%s' in:\n%s", cases[i].line, text);
        free(text);
        run_free(run);
    }
    struct run *run = load(*state);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    run->epoch[run->n_epochs - 1].best_top1 = 75.8999;
    run->step[0].lr = 0.0105;
    mlperf_unmet(run, true, out);
    fclose(out);
    assert_non_null(strstr(text, "its validation top-1 is 75.90 %, the target is 75.90 %\n"));
    assert_non_null(strstr(text, "its base learning rate, 0.0105, is not a multiple of 0.001\n"));
    free(text);
    run_free(run);
}

/* Exports runs whose settings are absent or invalid, and then a run that was killed before its
 * first record. */
static void test_hostile_runs(void **state)
{
    struct fixture *f = *state;
    char path[SCRATCH_MAX + 64];
    static const char *const infos[] = {
        "{\"schema\":1}",
        "{\"schema\":1,\"started\":\"yesterday\",\"config\":{\"batch_size\":9223372036854775807,"
        "\"world_size\":9223372036854775807,\"accumulate\":-1,\"devices_per_rank\":0,\"lars\":1,"
        "\"arch\":\"../../x\",\"lr\":\"high\"},\"host\":[]}"};
    for (size_t i = 0; i < 2; i++) {
        scratch_write(f->run, "run.json", infos[i], strlen(infos[i]));
        for (int format = 0; format < EXPORT_FORMATS; format++) {
            snprintf(path, sizeof path, "hostile-%d", format);
            if (export_one(f, format, path) != STATUS_OK)
                fail_msg("%s: %s", export_format_str(format), status_message());
        }
    }
    snprintf(path, sizeof path, "%s/epochs.jsonl", f->run);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof path, "%s/steps.jsonl", f->run);
    assert_int_equal(remove(path), 0);
    for (int format = 0; format < EXPORT_FORMATS; format++) {
        snprintf(path, sizeof path, "empty-%d", format);
        assert_int_equal(export_one(f, format, path),
                         format == EXPORT_MLPERF ? STATUS_DATA : STATUS_OK);
    }
}

static int files; /* nftw has no context */

static int count_file(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)path, (void)s, (void)at;
    files += type == FTW_F;
    return 0;
}

static int count_files(const char *dir)
{
    files = 0;
    assert_int_equal(nftw(dir, count_file, 8, FTW_PHYS), 0);
    return files;
}

static enum status stop(void)
{
    return status_fail(STATUS_INTERRUPTED, "interrupted");
}

/* export_runs calls `proceed` before it puts a file in place. Here `proceed` fails: neither the
 * file nor a part of it may remain. */
static void test_interrupted(void **state)
{
    struct fixture *f = *state;
    static const enum export_format formats[] = {EXPORT_TENSORBOARD, EXPORT_MLPERF,
                                                 EXPORT_PROMETHEUS, EXPORT_CSV};
    int before = count_files(f->dir);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char out[SCRATCH_MAX + 64], *written;
        size_t size;
        FILE *names = open_memstream(&written, &size);
        struct run *run = load(f);
        snprintf(out, sizeof out, "%s/stopped", f->dir);
        struct export_options o = {
            .format = formats[i], .out = out, .written = names, .proceed = stop};
        assert_int_equal(export_runs((const struct run *const *)&run, 1, &o), STATUS_INTERRUPTED);
        run_free(run);
        fclose(names);
        assert_string_equal(written, "");
        free(written);
        assert_int_equal(count_files(f->dir), before);
    }
}

static void test_same_names(void **state)
{
    struct fixture *f = *state;
    struct run *run = load(f);
    const struct run *twice[] = {run, run};
    char out[SCRATCH_MAX + 8];
    snprintf(out, sizeof out, "%s/out", f->dir);
    for (int format = 0; format < EXPORT_FORMATS; format++) {
        struct export_options o = {.format = format, .out = out, .written = f->written};
        assert_int_equal(export_runs(twice, 2, &o), STATUS_USAGE);
    }
    run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_event_bytes),
        cmocka_unit_test(test_restart_bytes),
        cmocka_unit_test(test_tensorboard_name),
        cmocka_unit_test(test_prometheus_of_nothing),
        cmocka_unit_test_setup_teardown(test_tensorboard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prometheus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_telemetry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mlperf, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mlperf_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interrupted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_names, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
