/* Compares each column of each figure's data with the record that it shows, in the column's unit.
 * All values of a record differ, so a column in another one's place is found. */
#include "base/file.h"
#include "rig.h"
#include "tests/results/run_rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>

struct row {
    const char *table, *text;
};

static void expect_rows(const char *dir, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char file[64];
        snprintf(file, sizeof file, "data/%s.dat", rows[i].table);
        expect_text(dir, file, rows[i].text);
    }
}

/* Writes four epochs of four equal steps: half a second, 64 images, 3 MB in 7 files, 128 ms of
 * decoding. */
static void write_run(const char *dir)
{
    scratch_write_text(dir, "run.json",
                       "{\"schema\":1,\"config\":{\"arch\":\"resnet18\",\"desired_acc\":72},"
                       "\"ranks\":[{\"rank\":0,\"host\":\"a\",\"pid\":1},"
                       "{\"rank\":1,\"host\":\"b\",\"pid\":2}]}");
    for (int k = 0; k < 16; k++) {
        const struct step_record s = {.epoch = k / 4,
                                      .step = k,
                                      .batch = k % 4,
                                      .images = 64,
                                      .loss = 2.5,
                                      .top1 = 31,
                                      .top5 = 52,
                                      .lr = 0.125,
                                      .data_s = 0.01,
                                      .h2d_s = 0.02,
                                      .forward_s = 0.1,
                                      .backward_s = 0.2,
                                      .comm_s = 0.04,
                                      .optimizer_s = 0.05,
                                      .total_s = 0.5,
                                      .bytes_read = 3000000,
                                      .files_read = 7,
                                      .decode_s = 0.128,
                                      .workers = 3,
                                      .loss_scale = 1024,
                                      .skipped = k == 5,
                                      .elapsed = 0.5 * (k + 1)};
        run_rig_append(dir, &step_schema, &s);
    }
    for (int e = 0; e < 4; e++) {
        const struct epoch_record r = {.epoch = e,
                                       .steps = 4 * (e + 1),
                                       .lr = 0.125,
                                       .train_images = 256,
                                       .train_loss = 3 + e,
                                       .train_top1 = 41 + e,
                                       .train_top5 = 61 + e,
                                       .val_images = 10,
                                       .val_loss = 2.25 + e,
                                       .val_top1 = 71 + e,
                                       .val_top5 = 91 + e,
                                       .best_top1 = 71 + e,
                                       .train_s = 2,
                                       .elapsed = 2 * (e + 1)};
        run_rig_append(dir, &epoch_schema, &r);
        for (int i = 0; i < 2; i++) {
            const struct rank_record rank = {.epoch = e,
                                             .rank = i,
                                             .steps = 4,
                                             .images = 128,
                                             .data_s = 0.04,
                                             .h2d_s = 0.08,
                                             .forward_s = 0.4,
                                             .backward_s = 0.8,
                                             .comm_s = i ? 0.12 : 0.16,
                                             .comm_busy_s = 0.24,
                                             .optimizer_s = 0.2,
                                             .total_s = 2};
            run_rig_append(dir, &rank_schema, &rank);
        }
        struct telemetry_record t = telemetry_nothing;
        t.sample = e;
        t.elapsed = 2 * e;
        t.power_w = 300;
        t.temperature_c = 60;
        t.clock_mhz = 1500;
        t.throttle = e == 2 ? THROTTLE_POWER_CAP : 0;
        run_rig_append(dir, &telemetry_schema, &t);
    }
}

static void add_known(struct fixture *f)
{
    char dir[SCRATCH_MAX + 8];
    snprintf(dir, sizeof dir, "%s/run", f->dir);
    expect_ok(dir_make(dir));
    write_run(dir);
    f->run[f->n++] = run_rig_load(dir);
}

static void test_runs(void **state)
{
    static const struct row rows[] = {
        /* completed epochs; training, validation */
        {"loss-01", "1 3 2.25\n2 4 3.25\n"},
        {"top1_train-01", "1 41 nan\n2 42 nan\n"},
        {"top1_val-01", "1 nan 71\n2 nan 72\n"},
        {"top5_train-01", "1 61 nan\n2 62 nan\n"},
        {"top5_val-01", "1 nan 91\n2 nan 92\n"},
        /* s; accuracy in %, the same where it reached the target, the target */
        {"time_to_accuracy-01", "2 71 nan 72\n4 72 72 72\n6 73 nan 72\n"},
        {"lr-01", "0 0.125\n"},
        /* steps; scale, the same if the step was skipped */
        {"loss_scale-01", "5 1024 nan\n6 1024 1024\n7 1024 nan\n"},
        /* s; images/s, their running median */
        {"throughput-01", "0.5 128 128\n1 128 128\n"},
        /* s; MB/s, files/s, ms of decoding for each image */
        {"io-01", "0.25 6 14 2\n0.75 6 14 2\n"},
        /* the part; its ends in ms, and in %: data, h2d, forward, backward, comm., optimizer, other
         */
        {"split-01", "1 0 10 0 2\n2 10 30 2 6\n3 30 130 6 26\n4 130 330 26 66\n5 330 370 66 74\n"
                     "6 370 420 74 84\n7 420 500 84 100\n"},
        /* s; W, degrees C, MHz, MHz if throttled */
        {"telemetry-01", "2 300 60 1500 nan\n4 300 60 1500 1500\n"},
        /* the rank, 0; the ends of its parts in ms: data, h2d, forward, backward, optimizer, comm.,
           other */
        {"ranks-01",
         "0 0 10 30 130 330 380 420 500\n1 0 10 30 130 330 380 410 500\n\n\n0 0 a\n1 1 b\n"},
    };
    struct fixture *f = *state;
    add_known(f);
    write_tables(f);
    expect_rows(f->out, rows, COUNT(rows));
}

/* With fewer epochs than four, curves have a row for each step: value, mean over neighbours. */
static void test_steps(void **state)
{
    static const struct row rows[] = {{"loss-steps-01", "1 2.5 2.5\n"},
                                      {"top1_train-steps-01", "1 31 31\n"},
                                      {"top5_train-steps-01", "1 52 52\n"},
                                      {"loss-01", "4 3 2.25\n8 4 3.25\n"},
                                      {"top5_val-01", "4 nan 91\n"}};
    struct fixture *f = *state;
    add_known(f);
    f->run[0]->n_epochs = 2;
    write_tables(f);
    expect_rows(f->out, rows, COUNT(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_RUNS(test_runs), WITH_RUNS(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
