/* The fixture of drawn.h. */
#include "drawn.h"

#include "pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
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
    if (run_load(dir, &f->run[f->n]) != STATUS_OK)
        fail_msg("%s", status_message());
    f->n++;
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

char *check_figure(const struct fixture *f, const char *figure, bool svg)
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

void check_says(const char *svg, const char *text)
{
    if (!strstr(svg, text))
        fail_msg("the picture does not say '%s'", text);
}

enum status draw_with(struct fixture *f, const char *script)
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
