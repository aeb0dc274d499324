/* Writes scripts, tables and settings for gnuplot, runs it, and checks the pictures that it draws.
 */
#include "plots/figure.h"

#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* plots/templates/style.gp and dark.css, compiled in. */
extern const unsigned char plot_style[], plot_dark[];

/* The prefix of the names of pictures that are being drawn. Its dot hides these files from users,
 * who could take an incomplete picture for a complete one. */
#define DRAFT ".draft-"

enum { N_FORMATS = 3, SVG_MAX_BYTES = 64 << 20 };
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
    for (const char *c = clean; *c; c++) /* gnuplot does not read '' in all places as a quote */
        fputs(*c == '\'' ? "'.\"'\".'" : (char[2]){*c}, vars);
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
    for (int k = 0; k < 2 * N_FORMATS; k++) { /* gnuplot would follow a link at a draft's name */
        char path[4096];
        TRY(path_format(path, sizeof path, "%s/%s%s.%s", out, k < N_FORMATS ? "" : DRAFT, f->name,
                        formats[k % N_FORMATS]));
        if (unlink(path) != 0 && errno != ENOENT)
            return status_fail(STATUS_IO, "cannot replace '%s': %s", path, strerror(errno));
    }
    return STATUS_OK;
}

/* Runs "gnuplot <script>" in the folder `dir`, without a shell and without the user's gnuplot
 * settings. Sets gnuplot's variable `draft` to DRAFT. STATUS_UNSUPPORTED if gnuplot is not
 * installed; STATUS_LIBRARY, with the last line of gnuplot's error output, if gnuplot fails. */
static enum status gnuplot_run(const char *dir, const char *script)
{
    char *argv[] = {"gnuplot",           "--default-settings", "-e",
                    "draft='" DRAFT "'", (char *)script,       NULL};
    char log[32];
    struct process_signals signals;
    struct process_end end;
    int file = memfd_create("gnuplot", MFD_CLOEXEC); /* gnuplot's output */
    if (file < 0)
        return status_fail(STATUS_IO, "cannot make a file for gnuplot: %s", strerror(errno));
    snprintf(log, sizeof log, "/proc/self/fd/%d", file);
    enum status st = process_signals_open(&signals);
    if (st == STATUS_OK)
        st = process_run(
            &(struct process_config){.argv = argv, .dir = dir, .log = log, .signals = &signals},
            &end);
    process_signals_close(&signals);
    close(file);
    TRY(st);
    TRY(stop_check());
    if (end.code == PROCESS_NOT_STARTED)
        return status_fail(STATUS_UNSUPPORTED,
                           "gnuplot was not found: install gnuplot-nox (apt-get install "
                           "gnuplot-nox) and repeat the command; scripts and tables are in '%s'",
                           dir);
    if (end.code == 0)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "gnuplot failed on '%s/%s': %s", dir, script,
                       *end.message ? end.message : "no message");
}

/* Checks that `draft` is a complete PNG, SVG or PDF file, because gnuplot does not report a full
 * disk. The message names `path`, the final name of the picture. */
static enum status check_picture(const char *draft, const char *path)
{
    static const char *const ends[] = {"</svg>", "IEND", "%%EOF"};
    char tail[17] = "";
    FILE *in = fopen(draft, "rb");
    if (!in)
        return status_fail(STATUS_IO, "gnuplot did not write '%s': %s", path, strerror(errno));
    bool whole = false;
    if (fseek(in, -16, SEEK_END) == 0 && fread(tail, 1, 16, in) == 16)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            whole = whole || memmem(tail, 16, ends[i], strlen(ends[i])) != NULL;
    fclose(in);
    if (!whole)
        return status_fail(STATUS_IO, "gnuplot wrote '%s' only in part; is the disk full?", path);
    return STATUS_OK;
}

/* Adds a style sheet for dark displays to the SVG `path`: gnuplot draws on white paper, and the
 * sheet replaces the colours of paper, text and axes where the reader prefers dark pages. Escapes
 * "]]>" in texts, which gnuplot leaves, and which is not allowed in XML. */
static enum status svg_finish(const char *path)
{
    static const char place[] = "<g id=\"gnuplot_canvas\">";
    char *bytes;
    size_t size;
    struct atomic_file out = {0};
    TRY(file_read(path, SVG_MAX_BYTES, &bytes, &size));
    enum status st = STATUS_OK;
    const char *canvas = memmem(bytes, size, place, strlen(place));
    if (!canvas) /* another version of gnuplot: the picture stays light */
        goto done;
    size_t before = (size_t)(canvas - bytes);
    CHECK(atomic_file_open(&out, path));
    fwrite(bytes, 1, before, out.stream);
    fprintf(out.stream, "<style>\n%s</style>\n", (const char *)plot_dark);
    for (const char *at = canvas, *end = bytes + size, *cut; at < end;
         at = cut < end ? cut + 3 : end) {
        cut = memmem(at, (size_t)(end - at), "]]>", 3);
        cut = cut ? cut : end;
        fwrite(at, 1, (size_t)(cut - at), out.stream);
        fputs(cut < end ? "]]&gt;" : "", out.stream);
    }
    st = atomic_file_publish(&out); /* the picture is renamed next */
done:
    atomic_file_abandon(&out);
    free(bytes);
    return st;
}

/* If the picture is complete, renames it to its final name; otherwise removes it. */
static enum status finish_picture(const struct drawing *d, const struct figure *f, const char *out,
                                  const char *format, enum status st)
{
    char draft[4096], path[4096];
    TRY(path_format(draft, sizeof draft, "%s/" DRAFT "%s.%s", out, f->name, format));
    TRY(path_format(path, sizeof path, "%s/%s.%s", out, f->name, format));
    st = st == STATUS_OK ? check_picture(draft, path) : st;
    if (st == STATUS_OK && strcmp(format, "svg") == 0)
        st = svg_finish(draft);
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
