/* Pictures of runs of several shapes, and what becomes of a drawing that fails. */
#include "base/file.h"
#include "pictures.h"
#include "plots/plot.h"
#include "sample.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { MAX_SAMPLES = PLOT_MAX_RUNS };

/* Runs in a scratch folder, and the folder "out" beside them for the pictures. */
struct fixture {
    char dir[SCRATCH_MAX];
    char out[SCRATCH_MAX + 16];
    struct run *run[MAX_SAMPLES];
    int n;
    char written[8192], left_out[1024];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    snprintf(f->out, sizeof f->out, "%s/out", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < f->n; i++)
        run_free(f->run[i]);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

static void add_run(struct fixture *f, const char *name, struct sample sample)
{
    char dir[SCRATCH_MAX + 64];
    snprintf(dir, sizeof dir, "%s/%s", f->dir, name);
    assert_int_equal(mkdir(dir, 0700), 0);
    sample_write(dir, &sample);
    if (run_load(dir, &f->run[f->n]) != STATUS_OK)
        fail_msg("%s", status_message());
    f->n++;
}

static enum status draw(struct fixture *f, bool svg, const char *title, double ema)
{
    FILE *written = fmemopen(f->written, sizeof f->written, "w");
    FILE *left_out = fmemopen(f->left_out, sizeof f->left_out, "w");
    struct plot_options o = {.png = true,
                             .svg = svg,
                             .title = title,
                             .ema = ema,
                             .written = written,
                             .left_out = left_out};
    enum status st = plot_runs((const struct run *const *)f->run, f->n, f->out, &o);
    fclose(written);
    fclose(left_out);
    return st;
}

/* Checks the figure's PNG and, if it was asked for, its SVG, which the caller frees. */
static char *check_figure(const struct fixture *f, const char *figure, bool svg)
{
    char file[64];
    size_t size;
    snprintf(file, sizeof file, "%s.png", figure);
    expect_png(f->out, file);
    assert_non_null(strstr(f->written, file));
    if (!svg)
        return NULL;
    snprintf(file, sizeof file, "%s.svg", figure);
    char *text = scratch_read(f->out, file, &size);
    assert_true(size > 3000);
    assert_true(xml_well_formed(text));
    assert_non_null(strstr(text, "viewBox=\"0 0 1600 "));
    assert_non_null(strstr(f->written, file));
    return text;
}

static void check_says(const char *svg, const char *text)
{
    if (!strstr(svg, text))
        fail_msg("the picture does not say '%s'", text);
}

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
        {"top1", "Top-1 accuracy", "Training step", "Top-1 accuracy (%)"},
        {"top5", "Top-5 accuracy", "Training step", "Top-5 accuracy (%)"},
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
    assert_string_equal(f->left_out, "loss_scale: left out, no run has anything to show\n"
                                     "telemetry: left out, no run has anything to show\n"
                                     "ranks: left out, no run has anything to show\n");
}

/* Names that would break gnuplot's strings, a shell or XML; one run without validation, one whose
 * loss is lost on the way. */
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
    char *svg = check_figure(f, "top1", true);
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
    assert_false(path_exists(path)); /* no name was taken for a command */
}

/* A run of 64 ranks, one of two on a host whose name would break a table, and one that has none to
 * tell of. */
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
    if (draw(f, true, NULL, 0) != STATUS_OK)
        fail_msg("%s", status_message());
    char *svg = check_figure(f, "ranks", true);
    check_says(svg, "slowest: rank 37 on node18, ");
    check_says(svg, "data wait +");
    check_says(svg, "resnet50 b4096 \u00b7 many");
    check_says(svg, "resnet50 b4096 \u00b7 pair");
    check_says(svg, "exposed comm.");
    check_says(svg, "slowest: rank 1 on it's \"#0, ");
    check_says(svg, ">it?s???0<");
    assert_null(strstr(svg, ">node0<")); /* there is no room for it */
    assert_null(strstr(svg, "lonely"));
    free(svg);
}

/* Two devices are summed up; a moment at which one is not known is a hole, and throttling shows. */
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

/* What a run of a single step holds, and one that diverged at once. */
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
    free(check_figure(f, "top1", true));
    free(check_figure(f, "throughput", true));
    free(check_figure(f, "split", true));
    char *svg = check_figure(f, "lr", true);
    check_says(svg, "Training step");
    free(svg);
    assert_null(strstr(f->written, "loss"));
    assert_non_null(strstr(f->left_out, "loss: left out"));
    assert_non_null(strstr(f->left_out, "io: left out"));
}

static void test_nothing_to_draw(void **state)
{
    struct fixture *f = *state;
    add_run(f, "empty", (struct sample){.arch = "alexnet", .steps_per_epoch = 1});
    assert_int_equal(draw(f, true, NULL, 0), STATUS_DATA);
    assert_non_null(strstr(status_message(), "nothing to draw"));
}

static void test_unusable_folder(void **state)
{
    struct fixture *f = *state;
    add_run(
        f, "run",
        (struct sample){
            .arch = "alexnet", .epochs = 1, .steps_per_epoch = 2, .batch = 1, .images_per_s = 1});
    scratch_write(f->dir, "out", "a file", 6);
    assert_int_equal(draw(f, true, NULL, 0), STATUS_IO);
    assert_non_null(strstr(status_message(), "Not a directory"));
}

/* Draws with this script in place of gnuplot; NULL: with none to be found. */
static enum status draw_with(struct fixture *f, const char *script)
{
    char *path = strdup(getenv("PATH"));
    char file[SCRATCH_MAX + 16];
    if (script) {
        scratch_write(f->dir, "gnuplot", script, strlen(script));
        snprintf(file, sizeof file, "%s/gnuplot", f->dir);
        assert_int_equal(chmod(file, 0700), 0);
    }
    assert_int_equal(setenv("PATH", script ? f->dir : "", 1), 0);
    enum status st = draw(f, false, NULL, 0);
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
    assert_null(strchr(status_message(), '\n'));
    return st;
}

static void test_gnuplot_fails(void **state)
{
    struct fixture *f = *state;
    add_run(
        f, "run",
        (struct sample){
            .arch = "alexnet", .epochs = 1, .steps_per_epoch = 2, .batch = 1, .images_per_s = 1});
    assert_int_equal(draw_with(f, NULL), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "install gnuplot-nox"));
    char path[SCRATCH_MAX + 64];
    snprintf(path, sizeof path, "%s/data/split.gp", f->out);
    assert_true(path_exists(path)); /* the last of the scripts is there to be run elsewhere */

    assert_int_equal(
        draw_with(f, "#!/bin/sh\nprintf 'x\\n^\\nline 3: \\033no\\n\\n' >&2\nexit 1\n"),
        STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "loss.gp': line 3: ?no"));
    assert_int_equal(draw_with(f, "#!/bin/sh\nkill -9 $$\n"), STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "it said nothing"));
    assert_int_equal(draw_with(f, "#!/bin/sh\nexit 0\n"), STATUS_IO);
    assert_non_null(strstr(status_message(), "gnuplot left no"));
    assert_int_equal(draw_with(f, "#!/bin/sh\necho 0123456789abcdefgh >../.draft-loss.png\n"),
                     STATUS_IO);
    assert_non_null(strstr(status_message(), "/loss.png' incomplete; is the disk full?"));
    snprintf(path, sizeof path, "%s/.draft-loss.png", f->out);
    assert_false(path_exists(path));
    snprintf(path, sizeof path, "%s/loss.png", f->out);
    assert_false(path_exists(path));
}

/* Ranks are thinned out, all but the slowest; hosts are not. */
static void test_table_of_ranks(void **state)
{
    struct fixture *f = *state;
    add_run(f, "run",
            (struct sample){.arch = "alexnet",
                            .epochs = 1,
                            .steps_per_epoch = 2,
                            .batch = 3000,
                            .images_per_s = 1,
                            .ranks = 1500,
                            .slow_rank = 1001});
    assert_int_equal(draw_with(f, NULL), STATUS_UNSUPPORTED);
    size_t size;
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

/* A picture of an earlier drawing must not pass for one of this drawing. */
static void test_old_pictures_go(void **state)
{
    struct fixture *f = *state;
    add_run(f, "run",
            (struct sample){.arch = "alexnet",
                            .epochs = 1,
                            .steps_per_epoch = 2,
                            .batch = 1,
                            .images_per_s = 1,
                            .dummy = true});
    assert_int_equal(dir_make(f->out), STATUS_OK);
    scratch_write(f->out, "io.svg", "old", 3);
    assert_int_equal(draw_with(f, NULL), STATUS_UNSUPPORTED);
    char path[SCRATCH_MAX + 64];
    snprintf(path, sizeof path, "%s/io.svg", f->out);
    assert_false(path_exists(path));
}

static void test_wrong_calls(void **state)
{
    struct fixture *f = *state;
    struct plot_options none = {.png = false}, past = {.png = true, .ema = 1};
    const struct run *run[1] = {NULL};
    assert_int_equal(plot_runs(run, 0, f->out, &past), STATUS_USAGE);
    assert_int_equal(plot_runs(run, PLOT_MAX_RUNS + 1, f->out, &past), STATUS_USAGE);
    assert_int_equal(plot_runs(run, 1, f->out, &none), STATUS_INVALID);
    assert_int_equal(plot_runs(run, 1, f->out, &past), STATUS_INVALID);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* Of four steps two are no warm-up; their quartiles lie between them, yet they have a median step.
 */
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
        WITH_FOLDER(test_nothing_to_draw),
        WITH_FOLDER(test_unusable_folder),
        WITH_FOLDER(test_gnuplot_fails),
        WITH_FOLDER(test_table_of_ranks),
        WITH_FOLDER(test_old_pictures_go),
        WITH_FOLDER(test_two_steps_count),
        WITH_FOLDER(test_given_names),
        WITH_FOLDER(test_wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
