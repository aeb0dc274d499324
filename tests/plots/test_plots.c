/* Draws runs of several shapes. */
#include "base/file.h"
#include "drawn.h"
#include "pictures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_the_check_of_svg(void **state)
{
    (void)state;
    assert_true(xml_well_formed("<?xml v=\"1\"?><a b='>'><c/>x &lt; y</a>"));
    assert_false(xml_well_formed("<a><b></a></b>"));
    assert_false(xml_well_formed("<a>x & y</a>"));
    assert_false(xml_well_formed("<a>"));
    assert_false(xml_well_formed("<a b='x></a>"));
}

static void test_one_epoch(void **state)
{
    struct fixture *f = *state;
    skip_without_gnuplot();
    add_run(f, "quick",
            (struct sample){.arch = "resnet18",
                            .batch = 32,
                            .epochs = 1,
                            .steps_per_epoch = 60,
                            .images_per_s = 120,
                            .final_top1 = 60,
                            .val_s = 6});
    if (draw(f, true, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    static const struct {
        const char *figure, *title, *x, *y;
    } figures[] = {
        {"loss", "Loss", "Training step", "Loss (cross-entropy)"},
        {"top1_train", "Top-1 accuracy of training", "Training step", "training (%)"},
        {"top1_val", "Top-1 accuracy of validation", "Training step", "validation (%)"},
        {"top5_train", "Top-5 accuracy of training", "Training step", "training (%)"},
        {"top5_val", "Top-5 accuracy of validation", "Training step", "validation (%)"},
        {"time_to_accuracy", "Time to accuracy", "Time (s)", "Top-1 accuracy of validation (%)"},
        {"lr", "Learning rate", "Epoch", "Learning rate"},
        {"throughput", "Training throughput", "Time (s)", "Images per second"},
        {"io", "Storage and decoding", "Time (s)", "Bytes read (MB/s)"},
        {"split", "Parts of the median step", "Time of the median step (ms)", "forward"},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char *svg = check_figure(f, figures[i].figure, true);
        check_says(svg, figures[i].title);
        check_says(svg, figures[i].x);
        check_says(svg, figures[i].y);
        check_says(svg, "resnet18 b32 \u00b7 quick");
        free(svg);
    }
    assert_string_equal(f->left_out, "Skipped, no data: "
                                     "loss_scale, telemetry, ranks\n");
}

/* Draws runs with names that could break strings of gnuplot, a shell or XML, a run without
 * validation, and a run whose loss becomes NaN. */
static void test_several_runs(void **state)
{
    struct fixture *f = *state;
    skip_without_gnuplot();
    struct sample s = {.arch = "resnet50",
                       .precision = "fp16",
                       .batch = 256,
                       .epochs = 6,
                       .steps_per_epoch = 20,
                       .images_per_s = 2900,
                       .final_top1 = 76,
                       .val_s = 5,
                       .gpu = true,
                       .skip_step = 70,
                       .seed = 1};
    add_run(f, "a<b>&'`$(touch x)`", s);
    s.val_s = 0;
    s.dummy = true;
    add_run(f, "%d\\n\"@x", s);
    s.nan_from_step = 30;
    s.dummy = false;
    add_run(f, "third", s);
    if (draw(f, true, "It's <all>", 0.6) != STATUS_OK)
        fail_msg("%s", status_message());
    char *svg = check_figure(f, "top1_train", true);
    check_says(svg, "a&lt;b");
    check_says(svg, "&amp;'`$(touch x)`");
    check_says(svg, "It's &lt;all");
    check_says(svg, "moving average 0.6");
    check_says(svg, "0, 114, 178");
    check_says(svg, "213,  94,   0");
    check_says(svg, ">Epoch<");
    free(svg);
    free(check_figure(f, "loss", true));
    svg = check_figure(f, "loss_scale", true);
    check_says(svg, "crosses: skipped steps");
    check_says(svg, ">2^15<");
    check_says(svg, "resnet50 fp16 b256");
    free(svg);
    svg = check_figure(f, "split", true);
    check_says(svg, "exposed comm.");
    free(svg);
    svg = check_figure(f, "io", true);
    assert_null(strstr(svg, "@x")); /* it read nothing */
    free(svg);
    char path[SCRATCH_MAX + 64];
    snprintf(path, sizeof path, "%s/data/x", f->out);
    assert_false(path_exists(path)); /* no name was executed as a command */
}

/* Draws a run of 64 ranks, a run of two ranks on a host whose name could break a table, and a run
 * without records of ranks. */
static void test_ranks(void **state)
{
    struct fixture *f = *state;
    skip_without_gnuplot();
    struct sample s = {.arch = "resnet50",
                       .batch = 4096,
                       .epochs = 2,
                       .steps_per_epoch = 5,
                       .images_per_s = 20000,
                       .final_top1 = 76,
                       .ranks = 64,
                       .slow_rank = 37};
    add_run(f, "many", s);
    s.ranks = 0;
    add_run(f, "lonely", s);
    s.ranks = 2;
    s.host = "it's \\\"#";
    s.slow_rank = 1;
    add_run(f, "pair", s);
    s.slow_data = 0.06; /* 7 % slower, which is below the threshold of a straggler */
    add_run(f, "equal", s);
    if (draw(f, true, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    char *svg = check_figure(f, "ranks", true);
    check_says(svg, "straggler: rank 37 on node18, ");
    check_says(svg, "data wait +");
    check_says(svg, "resnet50 b4096 \u00b7 many");
    check_says(svg, "resnet50 b4096 \u00b7 pair");
    check_says(svg, "exposed comm.");
    check_says(svg, "straggler: rank 1 on it's \"#0, ");
    check_says(svg, ">it?s???0<");
    check_says(svg, ">no straggler: slowest is rank 1, +");
    check_says(svg, "a straggler has at least +10.0 %<");
    assert_null(strstr(svg, ">node0<")); /* there is not enough space for its label */
    assert_null(strstr(svg, "lonely"));
    free(svg);
}

/* The figure adds the values of two devices. It has a gap where the value of a device is missing,
 * and it shows throttling. */
static void test_telemetry(void **state)
{
    struct fixture *f = *state;
    size_t size;
    struct sample s = {.arch = "resnet50",
                       .batch = 256,
                       .epochs = 1,
                       .steps_per_epoch = 300,
                       .images_per_s = 2000,
                       .gpu = true,
                       .sensors = 2};
    skip_without_gnuplot();
    add_run(f, "hot", s);
    s.sensors = 0;
    add_run(f, "blind", s);
    if (draw(f, true, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    char *svg = check_figure(f, "telemetry", true);
    check_says(svg, "Power (W)");
    check_says(svg, "broad: throttled");
    check_says(svg, "resnet50 b256 \u00b7 hot");
    assert_null(strstr(svg, "blind"));
    free(svg);
    char *table = scratch_read(f->out, "data/telemetry-01.dat", &size);
    assert_memory_equal(table, "0 1200 41 1980 nan\n", 18);
    assert_non_null(strstr(table, "\n3 nan "));
    assert_non_null(strstr(table, "\n30 1300 "));
    assert_non_null(strstr(table, " 1500 1500\n"));
    free(table);
}

static void test_most_runs(void **state)
{
    struct fixture *f = *state;
    skip_without_gnuplot();
    for (int i = 0; i < PLOT_MAX_RUNS; i++) {
        char name[16];
        snprintf(name, sizeof name, "run-%02d", i);
        add_run(f, name,
                (struct sample){.arch = "vgg16_bn",
                                .batch = 16,
                                .epochs = 5,
                                .steps_per_epoch = 4,
                                .images_per_s = 50 + i,
                                .final_top1 = 70,
                                .val_s = 1,
                                .seed = (unsigned)i});
    }
    if (draw(f, false, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    check_figure(f, "loss", false);
    check_figure(f, "split", false);
    assert_null(strstr(f->written, ".svg"));
}

/* Draws a run of a single step. The loss of this step is NaN, so there is no figure of the loss. */
static void test_one_step(void **state)
{
    struct fixture *f = *state;
    skip_without_gnuplot();
    add_run(f, "one",
            (struct sample){.arch = "alexnet",
                            .batch = 8,
                            .epochs = 2,
                            .steps_per_epoch = 10,
                            .steps = 1,
                            .images_per_s = 8,
                            .final_top1 = 50,
                            .dummy = true});
    f->run[0]->step[0].loss = NAN;
    if (draw(f, true, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    free(check_figure(f, "top1_train", true));
    free(check_figure(f, "throughput", true));
    free(check_figure(f, "split", true));
    char *svg = check_figure(f, "lr", true);
    check_says(svg, "Training step");
    free(svg);
    assert_null(strstr(f->written, "loss"));
    assert_non_null(strstr(f->left_out, "no data: loss, "));
    assert_non_null(strstr(f->left_out, ", io, "));
}

/* Only two of four steps are after warm-up. No step lies between their quartiles, but the figure
 * has a median step. */
static void test_two_steps_count(void **state)
{
    struct fixture *f = *state;
    size_t size;
    skip_without_gnuplot();
    add_run(f, "short",
            (struct sample){.arch = "resnet18",
                            .batch = 32,
                            .epochs = 1,
                            .steps_per_epoch = 4,
                            .images_per_s = 120,
                            .final_top1 = 60});
    if (draw(f, false, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    char *table = scratch_read(f->out, "data/split-01.dat", &size);
    assert_null(strstr(table, "nan"));
    free(table);
}

static void test_given_names(void **state)
{
    struct fixture *f = *state;
    const char *const names[] = {"what it is <called>"};
    const struct plot_options o = {.svg = true, .names = names};
    size_t size;
    skip_without_gnuplot();
    add_run(f, "r1",
            (struct sample){.arch = "resnet18",
                            .batch = 32,
                            .epochs = 1,
                            .steps_per_epoch = 20,
                            .images_per_s = 120,
                            .final_top1 = 60});
    assert_int_equal(plot_runs((const struct run *const *)f->run, 1, f->out, &o), STATUS_OK);
    char *svg = scratch_read(f->out, "lr.svg", &size);
    check_says(svg, ">what it is &lt;called><");
    free(svg);
}

static void expect_line(const char *script, const char *line)
{
    if (!strstr(script, line))
        fail_msg("the script lacks '%s'", line);
}

/* Plots n runs, which have these precisions and the seeds 0, 1, ... The caller frees the returned
 * script. */
static char *script_of_seeds(struct fixture *f, const char *const *precisions, unsigned n)
{
    char name[8];
    size_t size;
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "r%u", i);
        add_run(f, name,
                (struct sample){.arch = "resnet18",
                                .precision = precisions[i],
                                .batch = 32,
                                .epochs = 1,
                                .steps_per_epoch = 20,
                                .images_per_s = 120,
                                .final_top1 = 60,
                                .seed = i});
    }
    if (draw(f, false, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    return scratch_read(f->out, "data/loss.gp", &size);
}

/* Three runs: two that differ only in the seed share a colour, and the third, of another precision,
 * has another colour. Each run has its own shape. */
static void test_seeds_share_a_colour(void **state)
{
    static const char *const precisions[] = {"fp32", "fp32", "bf16"};
    skip_without_gnuplot();
    char *script = script_of_seeds(*state, precisions, 3);
    expect_line(script, "\nlook[1] = 1\nmark[1] = 1\n");
    expect_line(script, "\nlook[2] = 1\nmark[2] = 2\n");
    expect_line(script, "\nlook[3] = 2\nmark[3] = 2\n");
    free(script);
}

/* If runs differ only in the seed, each seed has a colour of its own. */
static void test_seeds_alone(void **state)
{
    static const char *const precisions[] = {"fp32", "fp32"};
    skip_without_gnuplot();
    char *script = script_of_seeds(*state, precisions, 2);
    expect_line(script, "\nlook[1] = 1\nmark[1] = 1\n");
    expect_line(script, "\nlook[2] = 2\nmark[2] = 2\n");
    free(script);
}

/* If all files have the same size, the two curves would have the same shape. The curve of files is
 * drawn lower, so it does not cover the curve of bytes. */
static void test_files_apart_from_bytes(void **state)
{
    struct fixture *f = *state;
    double bytes = 0, files = 0, high_bytes = 0, high_files = 0;
    size_t size;
    skip_without_gnuplot();
    add_run(f, "r1",
            (struct sample){.arch = "resnet18",
                            .batch = 32,
                            .epochs = 1,
                            .steps_per_epoch = 20,
                            .images_per_s = 120,
                            .final_top1 = 60});
    assert_int_equal(draw(f, false, NULL, 0), STATUS_OK);
    char *script = scratch_read(f->out, "data/io.gp", &size);
    assert_int_equal(sscanf(strstr(script, "bytes_max = "), "bytes_max = %lf", &bytes), 1);
    assert_int_equal(sscanf(strstr(script, "files_max = "), "files_max = %lf", &files), 1);
    free(script);
    char *table = scratch_read(f->out, "data/io-01.dat", &size);
    for (char *line = strtok(table, "\n"); line; line = strtok(NULL, "\n")) {
        double x, b, n;
        if (sscanf(line, "%lf %lf %lf", &x, &b, &n) != 3)
            continue;
        high_bytes = b > high_bytes ? b : high_bytes;
        high_files = n > high_files ? n : high_files;
    }
    free(table);
    assert_true(high_files > 0 && high_files / files < 0.8 * high_bytes / bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_check_of_svg),
        WITH_FOLDER(test_one_epoch),
        WITH_FOLDER(test_several_runs),
        WITH_FOLDER(test_ranks),
        WITH_FOLDER(test_telemetry),
        WITH_FOLDER(test_most_runs),
        WITH_FOLDER(test_one_step),
        WITH_FOLDER(test_two_steps_count),
        WITH_FOLDER(test_given_names),
        WITH_FOLDER(test_seeds_share_a_colour),
        WITH_FOLDER(test_seeds_alone),
        WITH_FOLDER(test_files_apart_from_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
