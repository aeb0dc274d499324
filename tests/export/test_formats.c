/* Compares each format with known bytes, and tests the export of damaged records. */
#include "../results/run_rig.h"
#include "base/file.h"
#include "export/export.h"
#include "export/formats.h"
#include "export/prometheus.h"
#include "export/tensorboard.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The folder of the run. Its name has characters that CSV and labels must quote. */
static char folder[SCRATCH_MAX + 32];

static int set_up(void **state)
{
    scratch_set_up(state);
    snprintf(folder, sizeof folder, "%s/say \"hi\", \\o", (char *)*state);
    expect_ok(dir_make(folder));
    run_rig_write(folder);
    scratch_write_text(folder, "telemetry.jsonl",
                       "{\"sample\":0,\"device\":0,\"power_w\":100,\"elapsed\":0.5}\n"
                       "{\"sample\":1,\"device\":0,\"power_w\":200,\"busy\":50,\"elapsed\":1.25}\n"
                       "{\"sample\":1,\"device\":1,\"temperature_c\":71,\"elapsed\":1.25}\n"
                       "{\"sample\":2,\"device\":0,\"power_w\":300,\"busy\":25,\"elapsed\":4.5}\n");
    return 0;
}

static enum status export_to(const char *dir, enum export_format format, const char *name,
                             enum status (*proceed)(void))
{
    char out[SCRATCH_MAX + 64];
    struct run *run = run_rig_load(folder);
    const struct run *const runs[] = {run};
    FILE *written = fopen("/dev/null", "w");
    snprintf(out, sizeof out, "%s/%s", dir, name);
    struct export_options o = {.format = format,
                               .out = out,
                               .run_name = format == EXPORT_PROMETHEUS ? run->name : NULL,
                               .written = written,
                               .proceed = proceed};
    enum status st = export_runs(runs, 1, &o);
    run_free(run);
    fclose(written);
    return st;
}

static char *exported(const char *dir, enum export_format format, const char *name,
                      const char *file, size_t *size)
{
    expect_ok(export_to(dir, format, name, NULL));
    return scratch_read(dir, file, size);
}

/* Checks that `text` contains a whole line. */
static void expect_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    const char *at = strstr(text, line);
    while (at && !((at == text || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\r')))
        at = strstr(at + 1, line);
    if (!at)
        fail_msg("no line '%s' in:\n%s", line, text);
}

/* Lines of text files. Of the telemetry, the last sample of each device is exported. */
#define RUN "{run=\"say \\\"hi\\\", \\\\o\""
static const struct {
    enum export_format format;
    const char *out, *file;
    const char *line[12];
} texts[] = {
    {EXPORT_CSV,
     "csv",
     "csv/steps.csv",
     {"\"say \"\"hi\"\", \\o\",0,1,1,32,3,25,50,0.01,0.0625,0,0.125,0.25,0,0,0.03125,0.5,0,0,0,0,"
      "0,65536,0,1,1.5",
      "\"say \"\"hi\"\", \\o\",1,2,0,32,,25,50,0.0001,0.0625,0,0.125,0.25,0,0,0.03125,0.5,0,0,0,"
      "0,0,32768,0,0,3"}},
    {EXPORT_PROMETHEUS,
     "x.prom",
     "x.prom",
     {"# TYPE ampscale_steps_total counter",
      "ampscale_run_info" RUN ",arch=\"resnet18\",precision=\"amp\",mode=\"nd\",device=\"a "
      "\\\"quick\\\" \\\\ device\"} 1",
      "ampscale_last_record_timestamp_seconds" RUN "} 1706702404.5",
      "ampscale_steps_total" RUN "} 4", "ampscale_skipped_steps_total" RUN "} 1",
      "ampscale_throughput_images_per_second" RUN "} 64",
      "ampscale_step_part_seconds" RUN ",part=\"backward\"} 0.25",
      "ampscale_accuracy_ratio" RUN ",phase=\"val\",top=\"1\"} 0.78",
      "# TYPE ampscale_device_power_watts gauge",
      "ampscale_device_power_watts" RUN ",device=\"0\"} 300",
      "ampscale_device_utilization_ratio" RUN ",device=\"0\"} 0.25",
      "ampscale_device_temperature_celsius" RUN ",device=\"1\"} 71"}},
    {EXPORT_MLPERF,
     "x.log",
     "x.log",
     {"# Ruleset: MLPerf Training 4.0.0, resnet, open division.",
      "# Not met: its data set has 64 training and 50 validation images, ImageNet has 1281167 "
      "and 50000.",
      ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702400500, \"event_type\": "
      "\"INTERVAL_START\", \"key\": \"run_start\", \"value\": null, \"metadata\": {\"file\": "
      "\"run.json\", \"lineno\": 0}}",
      ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702404250, \"event_type\": "
      "\"POINT_IN_TIME\", \"key\": \"eval_accuracy\", \"value\": 0.78, \"metadata\": {\"file\": "
      "\"epochs.jsonl\", \"lineno\": 2, \"epoch_num\": 2}}",
      ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1706702404500, \"event_type\": "
      "\"INTERVAL_END\", \"key\": \"run_stop\", \"value\": null, \"metadata\": {\"file\": "
      "\"epochs.jsonl\", \"lineno\": 2, \"status\": \"success\"}}"}},
};

static void test_texts(void **state)
{
    size_t size;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = exported(*state, texts[i].format, texts[i].out, texts[i].file, &size);
        for (int k = 0; k < 12 && texts[i].line[k]; k++)
            expect_line(text, texts[i].line[k]);
        assert_int_equal(text[size - 1], '\n');
        assert_null(strstr(text, "ampscale_device_clock_hertz")); /* was not measured */
        free(text);
    }
    char *text = scratch_read(*state, "csv/ranks.csv", &size); /* has only its head */
    assert_memory_equal(text, "run,epoch,rank,attempt,", 23);
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
    free(text);
    text = exported(*state, EXPORT_TENSORBOARD, "tb",
                    "tb/say \"hi\", \\o/events.out.tfevents.1706702400.node1.export", &size);
    assert_non_null(memmem(text, size, "Device0/Power_W", 15));
    free(text);
}

/* The beginning of a file, the events of an epoch, and the restart of a resumed run at step 7. The
 * checksums are TensorFlow's. */
static void test_event_bytes(void **state)
{
    static const unsigned char version[] = {24,   0,    0,    0,    0,   0,   0,   0,   0xa3,
                                            0x7f, 0x4b, 0x22, 0x09, 0,   0,   0,   0,   0,
                                            0,    0xf8, 0x3f, 0x1a, 13,  'b', 'r', 'a', 'i',
                                            'n',  '.',  'E',  'v',  'e', 'n', 't', ':', '2'};
    static const unsigned char scalar[] = {0x09, 0,    0,   0,    0,   0,    0, 0,   0x40, 0x10,
                                           4,    0x2a, 17,  0x0a, 15,  0x0a, 8, 'L', 'o',  's',
                                           's',  '/',  'v', 'a',  'l', 0x15, 0, 0,   0,    0x40};
    static const unsigned char restart[] = {0x09, 0,    0, 0,    0, 0,    0, 0xf8,
                                            0x3f, 0x10, 7, 0x3a, 2, 0x08, 1};
    enum { AT = sizeof version + 4 + 12 };
    char name[TENSORBOARD_NAME_MAX];
    uint32_t crc;
    tensorboard_name(name, 12.9, "a/../b c", "7");
    assert_string_equal(name, "events.out.tfevents.0000000012.a_.._b_c.7");
    assert_int_equal(tensorboard_crc(version, 8), 0x224b7fa3);
    assert_int_equal(tensorboard_crc("123456789", 9), 0xc78ab0e5);
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    struct epoch_record e = {
        .steps = 5, .val_images = 1, .val_loss = 2, .val_top1 = NAN, .val_top5 = INFINITY};
    tensorboard_begin(out, 1.5, 0);
    tensorboard_epoch(out, 2, &e);
    fclose(out);
    assert_int_equal(size, AT + sizeof scalar + 4);
    assert_memory_equal(bytes, version, sizeof version);
    memcpy(&crc, bytes + sizeof version, 4);
    assert_int_equal(crc, tensorboard_crc(version + 12, sizeof version - 12));
    assert_int_equal(bytes[sizeof version + 4], sizeof scalar);
    assert_memory_equal(bytes + AT, scalar, sizeof scalar);
    free(bytes);
    out = open_memstream(&bytes, &size);
    tensorboard_begin(out, 1.5, 7);
    fclose(out);
    assert_int_equal(size, AT + sizeof restart + 4);
    assert_memory_equal(bytes + AT, restart, sizeof restart);
    free(bytes);
}

/* Writes the metrics of a run before its first step, and again after a step whose loss is not
 * finite. The text contains neither nan nor inf. */
static void test_prometheus_of_nothing(void **state)
{
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

/* Each case changes one setting of the made run. The new setting breaks a rule of the closed
 * division, or meets it if `line` is NULL. Two more rules are always broken: the network is not
 * resnet50, and the data set is not ImageNet; the line on synthetic data replaces the second. */
static void test_mlperf_rules(void **state)
{
    const struct {
        const char *key;
        json_t *value;
        double top1, lr;
        const char *line; /* NULL: the value meets the rule */
    } cases[] = {
        {"epochs", json_integer(2), 78, 0.01, NULL},
        {"dummy", json_true(), 78, 0.01, "it trained on synthetic tensors, not on ImageNet"},
        {"weight_decay", json_real(0.0002), 78, 0.01, NULL},
        {"lars", json_real(0.001), 78, 0.01,
         "its learning rate does not decay by a polynomial of power 2"},
        {"lr_schedule", json_string("poly"), 78, 0.01,
         "its learning rate ends at 0, not at 0.0001"},
        {"epochs", json_integer(2), 75.8999, 0.01,
         "its validation top-1 is 75.90 %, the target is 75.90 %\n"},
        {"epochs", json_integer(2), 78, 0.0105,
         "its base learning rate, 0.0105, is not a multiple of 0.001\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run *run = run_rig_load(folder);
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        json_object_set_new(json_object_get(run->info, "config"), cases[i].key, cases[i].value);
        run->epoch[run->n_epochs - 1].best_top1 = cases[i].top1;
        run->step[0].lr = cases[i].lr;
        mlperf_unmet(run, true, out);
        fclose(out);
        int lines = 0;
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            lines++;
        assert_int_equal(lines, 2 + (cases[i].line && strcmp(cases[i].key, "dummy") != 0));
        if (cases[i].line && !strstr(text, cases[i].line))
            fail_msg("no '%s' in:\n%s", cases[i].line, text);
        free(text);
        run_free(run);
    }
}

/* Exports runs whose settings are absent or invalid, and then a run that was killed before its
 * first record. */
static void test_hostile_runs(void **state)
{
    char path[SCRATCH_MAX + 64];
    static const char *const infos[] = {
        "{\"schema\":1}",
        "{\"schema\":1,\"started\":\"yesterday\",\"config\":{\"batch_size\":9223372036854775807,"
        "\"world_size\":9223372036854775807,\"accumulate\":-1,\"devices_per_rank\":0,\"lars\":1,"
        "\"arch\":\"../../x\",\"lr\":\"high\"},\"host\":[]}"};
    for (size_t i = 0; i < 2; i++) {
        scratch_write_text(folder, "run.json", infos[i]);
        for (int format = 0; format < EXPORT_FORMATS; format++) {
            snprintf(path, sizeof path, "hostile-%d", format);
            if (export_to(*state, format, path, NULL) != STATUS_OK)
                fail_msg("format %d: %s", (int)format, status_message());
        }
    }
    scratch_remove_file(folder, "epochs.jsonl");
    scratch_remove_file(folder, "steps.jsonl");
    for (int format = 0; format < EXPORT_FORMATS; format++) {
        snprintf(path, sizeof path, "empty-%d", format);
        assert_int_equal(export_to(*state, format, path, NULL),
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
    int before = count_files(*state);
    for (int format = 0; format < EXPORT_FORMATS; format++) {
        const char name[] = {(char)('a' + format), '\0'}; /* a folder or a file, by the format */
        assert_int_equal(export_to(*state, format, name, stop), STATUS_INTERRUPTED);
        assert_int_equal(count_files(*state), before);
    }
}

int main(void)
{
#define WITH_RUN(test) cmocka_unit_test_setup_teardown(test, set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_bytes),
        cmocka_unit_test(test_prometheus_of_nothing),
        WITH_RUN(test_texts),
        WITH_RUN(test_mlperf_rules),
        WITH_RUN(test_hostile_runs),
        WITH_RUN(test_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
