/* Tests failures of drawing, wrong calls, and figures that are left from an earlier drawing. */
#include "base/file.h"
#include "drawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    assert_true(
        path_exists(path)); /* the last script is kept; the user can run it on another machine */

    assert_int_equal(
        draw_with(f, "#!/bin/sh\nprintf 'x\\n^\\nline 3: \\033no\\n\\n' >&2\nexit 1\n"),
        STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "loss.gp': line 3: ?no"));
    assert_int_equal(draw_with(f, "#!/bin/sh\nkill -9 $$\n"), STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "no message"));
    assert_int_equal(draw_with(f, "#!/bin/sh\nexit 0\n"), STATUS_IO);
    assert_non_null(strstr(status_message(), "gnuplot did not write"));
    assert_int_equal(draw_with(f, "#!/bin/sh\necho 0123456789abcdefgh >../.draft-loss.png\n"),
                     STATUS_IO);
    assert_non_null(strstr(status_message(), "/loss.png' only in part; is the disk full?"));
    snprintf(path, sizeof path, "%s/.draft-loss.png", f->out);
    assert_false(path_exists(path));
    snprintf(path, sizeof path, "%s/loss.png", f->out);
    assert_false(path_exists(path));
}

/* The table of ranks omits some ranks, but not the slowest one. The table of hosts is complete. */
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

/* A figure of an earlier drawing is removed, because a user would mistake it for a new one. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_nothing_to_draw), WITH_FOLDER(test_unusable_folder),
        WITH_FOLDER(test_gnuplot_fails),   WITH_FOLDER(test_table_of_ranks),
        WITH_FOLDER(test_old_pictures_go), WITH_FOLDER(test_wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
