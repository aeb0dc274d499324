/* What the tests of figures share. */
#include "rig.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    scratch_make(f->dir);
    snprintf(f->out, sizeof f->out, "%s/out", f->dir);
    *state = f;
    return 0;
}

int tear_down(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < f->n; i++)
        run_free(f->run[i]);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

void add_run(struct fixture *f, const char *name, struct sample sample)
{
    char dir[SCRATCH_MAX + 64];
    snprintf(dir, sizeof dir, "%s/%s", f->dir, name);
    assert_int_equal(mkdir(dir, 0700), 0);
    sample_write(dir, &sample);
    expect_ok(run_load(dir, &f->run[f->n++]));
}

enum status draw(struct fixture *f, bool svg, const char *title, double ema)
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

static char *old_path;

void hide_gnuplot(const char *path)
{
    old_path = strdup(getenv("PATH"));
    assert_int_equal(setenv("PATH", path, 1), 0);
}

void show_gnuplot(void)
{
    assert_int_equal(setenv("PATH", old_path, 1), 0);
    free(old_path);
}

enum status draw_with(struct fixture *f, const char *script)
{
    if (script) {
        scratch_write_text(f->dir, "gnuplot", script);
        assert_int_equal(chmod(scratch_path(f->dir, "gnuplot"), 0700), 0);
    }
    hide_gnuplot(script ? f->dir : "");
    enum status st = draw(f, false, NULL, 0);
    show_gnuplot();
    assert_null(strchr(status_message(), '\n'));
    return st;
}

void write_tables(struct fixture *f)
{
    assert_int_equal(draw_with(f, NULL), STATUS_UNSUPPORTED);
}

void skip_without_gnuplot(void)
{
    if (system("command -v gnuplot >/dev/null") == 0)
        return;
    print_message("skipped: gnuplot is not installed\n");
    skip();
}

void expect_figure(const char *dir, const char *figure, bool svg)
{
    char file[64], command[256];
    size_t size;
    snprintf(file, sizeof file, "%s.png", figure);
    unsigned char *png = (unsigned char *)scratch_read(dir, file, &size);
    assert_true(size > 8000);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(png[18] << 8 | png[19], 1600);
    assert_non_null(memmem(png + size - 16, 16, "IEND", 4));
    free(png);
    snprintf(command, sizeof command,
             "! command -v python3 >/dev/null || python3 -c 'import sys, xml.dom.minidom as m; "
             "m.parse(sys.argv[1])' %s/%s.svg",
             dir, figure);
    if (svg && system(command) != 0)
        fail_msg("%s.svg is no XML", figure);
}

bool file_exists(const char *dir, const char *file)
{
    return path_exists(scratch_path(dir, file));
}

static bool has_text(const char *dir, const char *file, const char *text)
{
    size_t size;
    char *content = scratch_read(dir, file, &size);
    bool found = strstr(content, text);
    free(content);
    return found;
}

void expect_text(const char *dir, const char *file, const char *text)
{
    if (!has_text(dir, file, text))
        fail_msg("'%s' says '%s' nowhere", file, text);
}

void expect_no_text(const char *dir, const char *file, const char *text)
{
    if (has_text(dir, file, text))
        fail_msg("'%s' says '%s'", file, text);
}
