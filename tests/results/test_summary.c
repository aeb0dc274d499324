/* Tests the throughputs in a summary, and the lines that explain their differences. */
#include "results/summary.h"
#include "run_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 30, WARMUP = 10 };

static struct step_record steps[STEPS];

/* Returns a run of steps of 32 images that take 0.5 s each, of which 0.125 s in communication. */
static struct run even_run(void)
{
    for (int i = 0; i < STEPS; i++)
        steps[i] = (struct step_record){
            .step = i, .images = 32, .forward_s = 0.25, .comm_s = 0.125, .total_s = 0.5};
    return (struct run){.dir = "run", .step = steps, .n_steps = STEPS};
}

/* Makes step `i` longer, in the part `part`. */
static void lengthen(int i, double *part, double seconds)
{
    *part += seconds;
    steps[i].total_s += seconds;
}

/* Sets the times at which steps ended, with `before_s` before the first one and before each step
 * whose number is a multiple of `every`. */
static void run_clock(struct run *run, double before_s, int every)
{
    run->elapsed = 0;
    for (int i = 0; i < STEPS; i++)
        steps[i].elapsed = run->elapsed += steps[i].total_s + (i % every == 0 ? before_s : 0);
}

/* Makes the summary of a run, and checks its throughputs and the lines about them. */
static void expect(const struct run *run, bool paused, double mean, double median,
                   const char *lines)
{
    char *text = NULL;
    size_t size;
    json_t *summary = json_object();
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    expect_ok(summary_add(run, summary));
    if (paused)
        json_object_set_new(summary, "paused", json_true());
    summary_explain(run, summary, out);
    fclose(out);
    const json_t *rate = json_object_get(summary, "images_per_s");
    double got = json_number_value(json_object_get(summary, "images_per_s_mean"));
    assert_true(fabs(got / mean - 1) < 1e-12);
    assert_true(json_number_value(json_object_get(rate, "median")) == median);
    assert_string_equal(text, lines);
    free(text);
    json_decref(summary);
}

/* The mean is all images over all time, not the mean of the rates; warm-up does not count. */
static void test_mean(void **state)
{
    struct run run = even_run();
    (void)state;
    run_clock(&run, 0, STEPS);
    expect(&run, false, 64, 64, "");
    steps[12].images = 16; /* an epoch's last batch */
    steps[12].total_s = 0.25;
    expect(&run, false, (19 * 32 + 16) / (19 * 0.5 + 0.25), 64, "");
    lengthen(3, &steps[3].data_s, 1000);
    expect(&run, false, 64, 64, "");
    run.n_steps = 0;
    assert_true(isnan(run_images_per_s(&run)));
}

/* The line names what most of the excess was spent on. 20 steps follow the warm-up. */
static void test_slow_steps(void **state)
{
    struct run run = even_run();
    (void)state;
    run_clock(&run, 0, STEPS);
    lengthen(15, &steps[15].data_s, 1);
    expect(&run, false, 20 * 32 / 11.0, 64, ""); /* 9 % below */
    lengthen(16, &steps[16].data_s, 9);
    lengthen(17, &steps[17].forward_s, 5);
    run_clock(&run, 0, STEPS);
    expect(&run, false, 20 * 32 / 25.0, 64,
           "mean throughput is 60 % below the median step: 2 of 20 steps waited 10.0 s for data\n");
    lengthen(18, &steps[18].comm_s, 35);
    run_clock(&run, 0, STEPS);
    expect(&run, false, 20 * 32 / 60.0, 64,
           "mean throughput is 83 % below the median step: 1 of 20 steps waited 35.0 s for "
           "communication\n");
    lengthen(17, &steps[17].forward_s, 40);
    run_clock(&run, 0, STEPS);
    expect(&run, false, 20 * 32 / 100.0, 64,
           "mean throughput is 90 % below the median step: 4 of 20 steps took 90.0 s longer than "
           "the median step\n");
    expect(&run, true, 20 * 32 / 100.0, 64,
           "mean throughput is 90 % below the median step: signals stopped and continued the "
           "process\n");
    run = even_run(); /* most steps are slow */
    for (int i = WARMUP; i < STEPS; i++)
        if (i % 10 < 6)
            lengthen(i, &steps[i].data_s, 1.5);
    run_clock(&run, 0, STEPS);
    expect(&run, false, 20 * 32 / 28.0, 16, "mean throughput is 43 % above the median step\n");
}

/* The line about the wall clock has the measured causes alone. */
static void test_wall_clock(void **state)
{
    struct run run = even_run();
    struct epoch_record epochs[2] = {{.val_s = 2, .checkpoint_s = 0.1}, {.val_s = 1}};
    (void)state;
    run.n_epochs = 2;
    run.epoch = epochs;
    run_clock(&run, 1.6, STEPS); /* 15 s of steps in 16.6 s */
    expect(&run, false, 64, 64, "");
    run.elapsed = 20;
    expect(&run, false, 64, 64,
           "wall-clock throughput is 25 % below the mean: start-up 8 %, validation 15 % of the "
           "time\n");
    run.n_epochs = 0;
    run_clock(&run, 0, STEPS);
    run.elapsed = 20; /* no cause is recorded */
    expect(&run, false, 64, 64, "wall-clock throughput is 25 % below the mean\n");
    lengthen(2, &steps[2].h2d_s, 5);
    run_clock(&run, 0, STEPS);
    expect(&run, false, 64, 64,
           "wall-clock throughput is 25 % below the mean: start-up 25 % of the time\n");
    /* checkpoints within an epoch lie between steps */
    run = even_run();
    run.info = json_pack("{s:{s:i}}", "config", "checkpoint_steps", 10);
    run_clock(&run, 2.5, 10);
    expect(&run, false, 64, 64,
           "wall-clock throughput is 33 % below the mean: start-up 11 %, checkpoints 22 % of the "
           "time\n");
    json_decref(run.info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_slow_steps),
        cmocka_unit_test(test_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
