/* Tests failures of drawing. */
#include "rig.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

static const struct sample little = {.arch = "alexnet",
                                     .epochs = 1,
                                     .steps_per_epoch = 2,
                                     .batch = 1,
                                     .images_per_s = 1,
                                     .dummy = true};

static void test_nothing_to_draw(void **state)
{
    struct fixture *f = *state;
    add_run(f, "empty", (struct sample){.arch = "alexnet", .steps_per_epoch = 1});
    expect_failed(draw(f, true, NULL, 0), STATUS_DATA, "nothing to draw");
}

static void test_unusable_folder(void **state)
{
    struct fixture *f = *state;
    add_run(f, "run", little);
    scratch_write(f->dir, "out", "a file", 6);
    expect_failed(draw(f, true, NULL, 0), STATUS_IO, "Not a directory");
}

/* Without gnuplot, the scripts are kept: the user can run them on another machine. */
static void test_gnuplot_fails(void **state)
{
    static const struct {
        const char *script;
        enum status st;
        const char *says;
    } rows[] = {
        {NULL, STATUS_UNSUPPORTED, "install gnuplot-nox"},
        {"#!/bin/sh\nprintf 'x\\n^\\nline 3: \\033no\\n\\n' >&2\nexit 1\n", STATUS_LIBRARY,
         "loss.gp': line 3: ?no"},
        {"#!/bin/sh\nkill -9 $$\n", STATUS_LIBRARY, "no message"},
        {"#!/bin/sh\nexit 0\n", STATUS_IO, "gnuplot did not write"},
        {"#!/bin/sh\necho 0123456789abcdefgh >../.draft-loss.png\n", STATUS_IO,
         "/loss.png' only in part; is the disk full?"},
    };
    struct fixture *f = *state;
    add_run(f, "run", little);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_failed(draw_with(f, rows[i].script), rows[i].st, rows[i].says);
        assert_true(file_exists(f->out, "data/split.gp"));
        assert_false(file_exists(f->out, ".draft-loss.png") || file_exists(f->out, "loss.png"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RUNS(test_nothing_to_draw),
        WITH_RUNS(test_unusable_folder),
        WITH_RUNS(test_gnuplot_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
