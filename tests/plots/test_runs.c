/* Draws every figure of runs once, and tests the tables from which figures are drawn. */
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct sample usual = {
    .arch = "resnet18", .batch = 32, .epochs = 1, .steps_per_epoch = 20, .images_per_s = 120};

/* Three runs: with records of everything; one that only trained on synthetic data; and one whose
 * loss becomes NaN. Their names could break strings of gnuplot, a shell or XML. */
static void test_figures(void **state)
{
    static const struct {
        const char *figure, *title, *x, *y;
    } figures[] = {
        {"loss", "Loss", ">Epoch<", "Loss (cross-entropy)"},
        {"top1_train", "Top-1 accuracy of training", ">Epoch<", "training (%)"},
        {"top1_val", "Top-1 accuracy of validation", ">Epoch<", "validation (%)"},
        {"top5_train", "Top-5 accuracy of training", ">Epoch<", "training (%)"},
        {"top5_val", "Top-5 accuracy of validation", ">Epoch<", "validation (%)"},
        {"time_to_accuracy", "Time to accuracy", "Time (s)", "Top-1 accuracy of validation (%)"},
        {"lr", "Learning rate", ">Epoch<", "Learning rate"},
        {"loss_scale", "Loss scale", "crosses: skipped steps", ">2^15<"},
        {"throughput", "Training throughput", "Time (s)", "Images per second"},
        {"io", "Storage and decoding", "Time (s)", "Bytes read (MB/s)"},
        {"split", "Parts of the median step", "Time of the median step (ms)", "exposed comm."},
        {"telemetry", "Power, temperature", "broad: throttled", "Power (W)"},
        {"ranks", "Parts of each rank", "straggler: rank 3 on node1, ", "data wait +"},
    };
    struct fixture *f = *state;
    struct sample s = {.arch = "resnet50",
                       .precision = "fp16",
                       .batch = 256,
                       .epochs = 6,
                       .steps_per_epoch = 20,
                       .images_per_s = 2900,
                       .val_s = 5,
                       .gpu = true,
                       .ranks = 4,
                       .slow_rank = 3,
                       .slow_data = 0.12,
                       .sensors = 2};
    char file[64];
    skip_without_gnuplot();
    add_run(f, "a<b>&'`$(touch x)`", s);
    s = (struct sample){.arch = "resnet50", .batch = 256, .epochs = 6, .steps_per_epoch = 20};
    s.images_per_s = 2000;
    s.dummy = true;
    add_run(f, "%d\\n\"@x", s);
    s.nan_from_step = 30;
    add_run(f, "third", s);
    if (draw(f, true, "It's <all>", 0.6) != STATUS_OK)
        fail_msg("%s", status_message());
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        expect_figure(f->out, figures[i].figure, true);
        snprintf(file, sizeof file, "%s.svg", figures[i].figure);
        assert_non_null(strstr(f->written, file));
        expect_text(f->out, file, figures[i].title);
        expect_text(f->out, file, figures[i].x);
        expect_text(f->out, file, figures[i].y);
        expect_text(f->out, file, "resnet50 fp16 b256 \u00b7 a&lt;b");
        expect_text(f->out, file, "&amp;'`$(touch x)`");
        expect_text(f->out, file, "It's &lt;all");
    }
    expect_text(f->out, "top1_train.svg", "moving average 0.6");
    expect_no_text(f->out, "io.svg", "@x"); /* it read nothing */
    assert_string_equal(f->left_out, "");
    assert_false(file_exists(f->out, "data/x")); /* no name was executed as a command */
}

/* The tables add the values of two devices. They have a gap where the value of a device is
 * missing. */
static void test_telemetry(void **state)
{
    struct fixture *f = *state;
    struct sample s = usual;
    s.steps_per_epoch = 200;
    s.sensors = 2;
    add_run(f, "hot", s);
    write_tables(f);
    expect_text(f->out, "data/telemetry-01.dat", "0 1200 41 1980 nan\n");
    expect_text(f->out, "data/telemetry-01.dat", "\n3 nan ");
    expect_text(f->out, "data/telemetry-01.dat", "\n40 1300 ");
    expect_text(f->out, "data/telemetry-01.dat", " 1500 1500\n");
}

/* The table of ranks omits some of many ranks, but not the slowest one. The table of hosts is
 * complete. */
static void test_many_ranks(void **state)
{
    struct fixture *f = *state;
    struct sample s = usual;
    size_t size;
    s.batch = 3000;
    s.ranks = 1500;
    s.slow_rank = 1001;
    s.slow_data = 0.12;
    add_run(f, "run", s);
    write_tables(f);
    char *table = scratch_read(f->out, "data/ranks-01.dat", &size);
    char *hosts = strstr(table, "\n\n\n");
    assert_non_null(hosts);
    assert_non_null(strstr(hosts, "\n1000 1001 node500\n"));
    *hosts = '\0';
    assert_non_null(strstr(table, "\n1000 0 "));
    assert_non_null(strstr(table, "\n1001 0 "));
    assert_null(strstr(table, "\n1003 0 "));
    free(table);
}

/* A rank that is 7 % slower is no straggler. A host's name could break a table. */
static void test_no_straggler(void **state)
{
    struct fixture *f = *state;
    struct sample s = usual;
    s.ranks = 2;
    s.host = "it's \"#";
    s.slow_rank = 1;
    s.slow_data = 0.06;
    add_run(f, "equal", s);
    write_tables(f);
    expect_text(f->out, "data/ranks.gp", "is_straggler[1] = 0\n");
    expect_text(f->out, "data/ranks-01.dat", "it?s???0\n");
}

/* Runs that differ only in the seed share a colour, unless all runs do: then each has its own. Each
 * run has its own shape. Two of four steps are after warm-up, and suffice for a median. */
static void test_colours(void **state)
{
    static const char *const looks[] = {
        "\nlook[1] = 1\nmark[1] = 1\n", "\nlook[2] = 2\nmark[2] = 2\n",
        "\nlook[2] = 1\nmark[2] = 2\n", "\nlook[3] = 2\nmark[3] = 2\n"};
    struct fixture *f = *state;
    struct sample s = usual;
    s.steps_per_epoch = 4;
    add_run(f, "a", s);
    s.seed = 1;
    add_run(f, "b", s);
    write_tables(f);
    expect_text(f->out, "data/loss.gp", looks[0]);
    expect_text(f->out, "data/loss.gp", looks[1]);
    expect_no_text(f->out, "data/split-01.dat", "nan");
    s.precision = "bf16";
    add_run(f, "c", s);
    write_tables(f);
    expect_text(f->out, "data/loss.gp", looks[2]);
    expect_text(f->out, "data/loss.gp", looks[3]);
}

/* A run of a single step, whose loss is NaN, has no figure of the loss. */
static void test_one_step(void **state)
{
    struct fixture *f = *state;
    struct sample s = usual;
    s.steps = 1;
    s.dummy = true;
    skip_without_gnuplot();
    add_run(f, "one", s);
    f->run[0]->step[0].loss = NAN;
    if (draw(f, false, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    expect_figure(f->out, "top1_train", false);
    expect_figure(f->out, "throughput", false);
    expect_figure(f->out, "split", false);
    expect_text(f->out, "data/lr.gp", "Training step");
    assert_null(strstr(f->written, "loss"));
    assert_non_null(strstr(f->left_out, "no data: loss, "));
    assert_non_null(strstr(f->left_out, ", io, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RUNS(test_figures),  WITH_RUNS(test_telemetry),    WITH_RUNS(test_many_ranks),
        WITH_RUNS(test_one_step), WITH_RUNS(test_no_straggler), WITH_RUNS(test_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
