/* Writes scripts, tables and settings for gnuplot, and checks the pictures that it draws. */
#include "plots/figure.h"

#include "base/text.h"
#include "plots/gnuplot.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* plots/templates/style.gp, compiled in. */
extern const unsigned char plot_style[];

enum { N_FORMATS = 3 };
static const char *const formats[N_FORMATS] = {"png", "svg", "pdf"};

static double width_of(const struct plot_size *s)
{
    return s->width_in > 0 ? s->width_in : PLOT_WIDTH_IN;
}

static double dpi_of(const struct plot_size *s)
{
    return s->dpi > 0 ? s->dpi : PLOT_DPI;
}

enum status plot_size_check(const struct plot_size *s)
{
    double pixels = width_of(s) * dpi_of(s);
    if (pixels <= PLOT_MAX_PIXELS)
        return STATUS_OK;
    return status_fail(
        STATUS_USAGE,
        "--width %g at --dpi %g makes a picture %.0f pixels wide, but the limit is %d pixels; "
        "reduce one of them, or take the PDF, which is sharp at any size",
        width_of(s), dpi_of(s), pixels, PLOT_MAX_PIXELS);
}

static bool wanted(const struct plot_options *o, int format)
{
    return format == 0 ? o->png : format == 1 ? o->svg : o->pdf;
}

enum status figure_table(const struct drawing *d, const struct figure *f, int i,
                         struct atomic_file *table)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/%s-%02d.dat", d->data, f->name, i + 1));
    return atomic_file_open(table, path);
}

void figure_set_text(FILE *vars, const char *name, const char *text)
{
    char clean[512];
    text_clean(clean, sizeof clean, text);
    fprintf(vars, "%s = '", name);
    for (const char *c = clean; *c; c++)
        fputs((char[3]){*c, *c == '\'' ? '\'' : '\0'}, vars);
    fputs("'\n", vars);
}

void figure_set(FILE *vars, const char *name, double value)
{
    if (isnan(value))
        fprintf(vars, "%s = NaN\n", name);
    else
        fprintf(vars, "%s = %.9g\n", name, value);
}

void figure_number(FILE *table, double x)
{
    if (isfinite(x))
        fprintf(table, " %.9g", x);
    else
        fputs(" nan", table); /* printf writes some NaNs as "-nan" on x86 */
}

void figure_set_runs(FILE *vars, const char *name, const bool has[], int n)
{
    fprintf(vars, "%s = '", name);
    const char *space = "";
    for (int i = 0; i < n; i++) {
        if (!has[i])
            continue;
        fprintf(vars, "%s%d", space, i + 1);
        space = " ";
    }
    fputs("'\n", vars);
}

double figure_set_time(FILE *vars, const struct drawing *d)
{
    double longest = 0;
    for (int i = 0; i < d->n; i++)
        longest = fmax(longest, d->run[i]->elapsed);
    bool seconds = longest < 180, minutes = longest < 10 * 3600;
    figure_set_text(vars, "time_label",
                    seconds   ? "Time (s)"
                    : minutes ? "Time (minutes)"
                              : "Time (hours)");
    return seconds ? 1 : minutes ? 60 : 3600;
}

/* Writes the settings common to all scripts: figure, title, formats, and the runs' labels. */
static void write_common(const struct drawing *d, const struct figure *f, FILE *script)
{
    char title[512];
    snprintf(title, sizeof title, "%s%s%s", d->title ? d->title : "", d->title ? " \u2013 " : "",
             f->title);
    fprintf(script, "# %s. To draw the figure again: gnuplot %s.gp in this folder.\n", f->title,
            f->name);
    fputs("if (!exists('draft')) draft = '' # prefix of the name of an unfinished picture\n",
          script);
    figure_set_text(script, "figure", f->name);
    figure_set_text(script, "figure_title", title);
    figure_set_text(script, "quantity", f->title);
    figure_set_text(script, "unit", f->unit ? f->unit : "");
    fputs("formats = '", script);
    for (int k = 0; k < N_FORMATS; k++)
        if (wanted(d->options, k))
            fprintf(script, "%s ", formats[k]);
    fputs("'\n", script);
    figure_set(script, "width_in", width_of(&d->options->size));
    figure_set(script, "dpi", dpi_of(&d->options->size));
    figure_set(script, "is_half", f->fits_half && d->options->size.large_text);
    figure_set(script, "ema", d->options->ema);
    fprintf(script, "array legend[%d]\n", d->n);
    fprintf(script, "array look[%d]\narray mark[%d]\n", d->n, d->n);
    for (int i = 0; i < d->n; i++) {
        char name[32];
        snprintf(name, sizeof name, "legend[%d]", i + 1);
        figure_set_text(script, name, d->label[i]);
        fprintf(script, "look[%d] = %d\nmark[%d] = %d\n", i + 1, d->look[i] + 1, i + 1,
                (d->look[i] + d->nth[i]) % PALETTE_SHAPES + 1);
    }
}

enum status figure_write(const struct drawing *d, const struct figure *f, bool *some)
{
    enum status st;
    char path[4096];
    struct atomic_file script = {0};
    bool has[FIGURE_BARS_MAX] = {false};
    *some = false;
    CHECK(path_format(path, sizeof path, "%s/%s.gp", d->data, f->name));
    CHECK(atomic_file_open(&script, path));
    write_common(d, f, script.stream);
    CHECK(f->prepare(d, f, script.stream, has));
    figure_set_runs(script.stream, "all_runs", has, d->n);
    for (int i = 0; i < d->n; i++)
        *some = *some || has[i];
    fprintf(script.stream, "\n%s\n%s", (const char *)plot_style, (const char *)f->script);
    if (*some)
        CHECK(atomic_file_commit(&script));
done:
    atomic_file_abandon(&script);
    return st;
}

enum status figure_remove(const struct figure *f, const char *out)
{
    for (int k = 0; k < N_FORMATS; k++) {
        char path[4096];
        TRY(path_format(path, sizeof path, "%s/%s.%s", out, f->name, formats[k]));
        if (unlink(path) != 0 && errno != ENOENT)
            return status_fail(STATUS_IO, "cannot replace '%s': %s", path, strerror(errno));
    }
    return STATUS_OK;
}

/* If the picture is complete, renames it to its final name; otherwise removes it. */
static enum status finish_picture(const struct drawing *d, const struct figure *f, const char *out,
                                  const char *format, enum status st)
{
    char draft[4096], path[4096];
    TRY(path_format(draft, sizeof draft, "%s/" GNUPLOT_DRAFT "%s.%s", out, f->name, format));
    TRY(path_format(path, sizeof path, "%s/%s.%s", out, f->name, format));
    if (st == STATUS_OK)
        st = gnuplot_check_picture(draft, path);
    if (st == STATUS_OK && strcmp(format, "svg") == 0)
        st = svg_suit_dark(draft);
    if (st == STATUS_OK && rename(draft, path) != 0)
        st = status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(errno));
    if (st != STATUS_OK)
        unlink(draft);
    else if (d->options->written)
        text_print(d->options->written, "%s", path);
    return st;
}

enum status figure_draw(const struct drawing *d, const struct figure *f, const char *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.gp", f->name);
    enum status st = gnuplot_run(d->data, path);
    for (int k = 0; k < N_FORMATS; k++)
        if (wanted(d->options, k))
            st = finish_picture(d, f, out, formats[k], st);
    return st;
}
