/* Makes documents from folders of records. */
#include "report/report.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "plots/palette.h"
#include "report/report_scan.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_MAX_BYTES = 16 << 20, LOCK_WAIT_S = 300 };

/* ---- loading ---- */

/* The runs of an item, sorted by name. */
struct runs {
    int n;
    struct run *v[REPORT_MAX_RUNS];  /* (n) */
    struct stat at[REPORT_MAX_RUNS]; /* the run's folder */
    struct table damaged;            /* errors of the damaged runs; `v` lacks these runs */
};

static void runs_free(struct runs *runs)
{
    for (int i = 0; i < runs->n; i++)
        run_free(runs->v[i]);
    table_free(&runs->damaged);
    *runs = (struct runs){0};
}

static enum status runs_add(struct runs *runs, const char *dir)
{
    if (runs->n == REPORT_MAX_RUNS)
        return status_fail(STATUS_DATA, "more than %d runs in one folder", REPORT_MAX_RUNS);
    bool there;
    struct stat *at = &runs->at[runs->n];
    TRY(path_stat(dir, at, &there));
    for (struct stat *s = runs->at; s < at; s++)
        if (s->st_dev == at->st_dev && s->st_ino == at->st_ino)
            return STATUS_OK; /* a link to that run */
    enum status st = run_load(dir, &runs->v[runs->n]);
    if (st == STATUS_OK)
        runs->n++;
    if (st == STATUS_DATA)
        table_add(&runs->damaged, "%s", status_message());
    return st == STATUS_DATA ? STATUS_OK : st;
}

static enum status runs_load(const struct item *item, struct runs *runs)
{
    char dir[REPORT_PATH_SIZE];
    struct words names = {0};
    enum status st;
    *runs = (struct runs){0};
    if (item->kind == ITEM_RUN)
        return runs_add(runs, item->path);
    CHECK(dir_list(item->path, "", &names));
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(dir, sizeof dir, "%s/%s", item->path, names.v[i]));
        bool is_run;
        if (dir_look(dir, "run.json", &is_run) != STATUS_OK)
            table_add(&runs->damaged, "%s", status_message());
        else if (is_run)
            CHECK(runs_add(runs, dir));
    }
done:
    words_free(&names);
    if (st != STATUS_OK)
        runs_free(runs);
    return st;
}

/* ---- drawing ---- */

static enum status draw_runs(const struct item *item, const struct plot_options *o)
{
    struct runs runs;
    TRY(runs_load(item, &runs));
    int n = runs.n < PLOT_MAX_RUNS ? runs.n : PLOT_MAX_RUNS;
    enum status st = STATUS_OK;
    if (n > 0)
        st = plot_runs((const struct run *const *)runs.v, n, item->figures, o);
    runs_free(&runs);
    return st;
}

static enum status draw_study(const struct item *item, const struct plot_options *o)
{
    struct analysis a;
    TRY(analysis_read(item->path, &a));
    enum status st = plot_study(&a, NULL, 0, item->figures, o);
    analysis_free(&a);
    return st;
}

/* Draws the figures of an item, with the colours of `palette`, into the item's folder of figures.
 * Returns STATUS_UNSUPPORTED if gnuplot is missing, and STATUS_DATA if the record has no figure. */
static enum status item_draw(const struct item *item, const struct plot_size *size,
                             struct palette *palette)
{
    const struct plot_options o = {.png = true,
                                   .svg = true,
                                   .pdf = true,
                                   .size = *size,
                                   .shown = item->kind == ITEM_RUNS ? figure_is_learning : NULL,
                                   .palette = palette};
    switch (item->kind) {
    case ITEM_STUDY:
        return draw_study(item, &o);
    case ITEM_RUN:
    case ITEM_RUNS:
        return draw_runs(item, &o);
    case ITEM_RECORD:
        return plot_record(item->path, item->figures, &o);
    }
    return STATUS_OK;
}

/* If the item is not in the document's folder, sets a folder of its pictures next to the document,
 * because the item's own folder may be another user's. */
static enum status place_figures(struct item *item, int number, const char *document)
{
    const char *slash = strrchr(document, '/'), *path = item->path;
    size_t n = slash ? (size_t)(slash - document) : 0;
    if (n == 0 ? *path != '/' && strncmp(path, "..", 2) != 0
               : strncmp(path, document, n) == 0 && (path[n] == '/' || path[n] == '\0'))
        return STATUS_OK;
    return path_format(item->figures, sizeof item->figures, "%s-figures/%d-%s", document, number,
                       item->name);
}

/* Draws all figures. If gnuplot is missing, or a record has no figure, only tables are written, and
 * pictures that the item has already. */
static enum status draw_all(struct items *items, const struct report_config *c)
{
    const char *document = c->markdown ? c->markdown : c->html;
    char target[4096];
    bool direct;
    struct palette palette = {.n = 0}; /* a series has the same colour and shape in all figures of
                                        * the report */
    TRY(output_find(document, target, &direct));
    if (access(dirname(target), W_OK) != 0)
        return status_fail(STATUS_IO, "cannot write '%s': %s", document, strerror(errno));
    for (int i = 0; !direct && i < items->n; i++) { /* next to a pipe, there is no place for them */
        struct item *item = &items->v[i], own = *item;
        int lock; /* so that two reports do not draw the same files */
        TRY(place_figures(item, i + 1, document));
        TRY(dir_make(item->figures));
        TRY(dir_lock(item->figures, "ampscale report", LOCK_WAIT_S, &lock));
        enum status st = item_draw(item, &c->size, &palette);
        rmdir(item->figures); /* only if the record has no figure */
        close(lock);
        if (st == STATUS_OK)
            continue;
        *item = own;
        if (st != STATUS_UNSUPPORTED && st != STATUS_DATA)
            return st;
        /* not reported, because some kinds of records have no figure */
        bool plain = st == STATUS_DATA && item->kind == ITEM_RECORD;
        if (!plain && c->said)
            fprintf(c->said, "ampscale: figures not drawn: %s\n", status_message());
    }
    return STATUS_OK;
}

/* ---- writing ---- */

static void add_text(struct table *t, const char *what, const char *text)
{
    if (!*text)
        return;
    table_add(t, "%s", what);
    table_add(t, "%s", text);
}

static void add_processor(struct table *t, const json_t *host)
{
    const json_t *cpu = json_object_get(host, "cpu");
    const char *model = json_text_at(cpu, "model");
    if (*model) {
        table_add(t, "processor");
        table_add(t, "%s, %lld cores, %lld threads, %lld usable", model,
                  (long long)json_integer_value(json_object_get(cpu, "cores")),
                  (long long)json_integer_value(json_object_get(cpu, "threads")),
                  (long long)json_integer_value(json_object_get(cpu, "usable")));
    }
    double bytes = json_number_value(json_object_get(host, "memory_bytes"));
    if (bytes > 0) {
        table_add(t, "memory");
        table_add(t, "%.1f GiB", bytes / (1 << 30));
    }
}

/* Describes the machine of a run, folded, and sets the summary of its heading. `machine` is either
 * the field `machine` of struct analysis or the whole run.json. */
static void section_machine(struct writer *w, const json_t *machine)
{
    struct table t = table_begin("|");
    char libraries[512];
    const json_t *host = json_object_get(machine, "host");
    const char *version = json_text_at(machine, "version");
    const char *commit = json_text_at(machine, "commit");
    add_text(&t, "device", json_text_at(machine, "device"));
    add_processor(&t, host);
    add_text(&t, "system", json_text_at(host, "os"));
    add_text(&t, "kernel", json_text_at(host, "kernel"));
    report_versions(libraries, sizeof libraries, json_object_get(machine, "libraries"));
    add_text(&t, "libraries", libraries);
    if (*version) {
        table_add(&t, "program");
        table_add(&t, "ampscale %s%s%.12s", version, *commit ? ", commit " : "", commit);
    }
    const json_t *cpu = json_object_get(host, "cpu");
    double cores = json_number_at(cpu, "cores");
    const char *model = json_text_at(cpu, "model"), *device = json_text_at(machine, "device");
    if (*model && cores > 0)
        writer_summary(w, "%s, %.0f core%s", model, cores, cores == 1 ? "" : "s");
    else
        writer_summary(w, "%.*s", (int)strcspn(device, ","), device);
    if (t.n == t.columns) {
        table_free(&t);
        return;
    }
    writer_fold(w, "Machine and program");
    writer_table(w, &t);
    writer_fold_end(w);
}

/* Writes a heading for the folder `place`, and describes the folder's machine. The caller passes
 * the folder before its first record. Before later records it passes NULL: nothing is written. */
static void begin_place(struct writer *w, const char *place, const json_t *machine)
{
    if (!place)
        return;
    const char *name = strrchr(place, '/');
    writer_heading(w, 2, "%s", name ? name + 1 : place);
    section_machine(w, machine);
}

static enum status write_study(struct writer *w, const struct item *item, const char *place)
{
    struct analysis a;
    TRY(analysis_read(item->path, &a));
    begin_place(w, place, a.machine);
    section_study(w, &a, item);
    analysis_free(&a);
    return STATUS_OK;
}

/* Adds the messages that are not yet in the list. */
static void leave_out(struct table *left_out, const struct table *messages)
{
    for (int i = 0; i < messages->n; i++) {
        int k = 0;
        while (k < left_out->n && strcmp(left_out->text[k], messages->text[i]) != 0)
            k++;
        if (k == left_out->n)
            table_add(left_out, "%s", messages->text[i]);
    }
    left_out->failed = left_out->failed || messages->failed;
}

static enum status write_runs(struct writer *w, const struct item *item, const char *place,
                              struct table *left_out, bool *written)
{
    struct runs runs;
    enum status st = STATUS_OK;
    TRY(runs_load(item, &runs));
    *written = runs.n > 0;
    if (*written) {
        begin_place(w, place, runs.v[0]->info);
        writer_heading(w, 3, item->kind == ITEM_RUN ? "Run %s" : "Runs: %s", item->name);
        st = section_runs(w, runs.v, runs.n, item);
    }
    leave_out(left_out, &runs.damaged);
    runs_free(&runs);
    return st;
}

static enum status write_record(struct writer *w, const struct item *item, const char *place,
                                bool *written)
{
    json_t *record;
    TRY(json_read(item->path, RECORD_MAX_BYTES, &record));
    record_section *section = section_of_record(record);
    enum status st = json_is_object(record)
                         ? STATUS_OK
                         : status_fail(STATUS_DATA, "'%s' is no JSON object", item->path);
    *written = section != NULL;
    if (section) {
        begin_place(w, place, record);
        section(w, item->name, record);
        figures_first(w, item);
        figures_rest(w, item);
    }
    json_decref(record);
    return st;
}

/* Writes a record. Sets *written to true if the record is undamaged and of a known kind, else to
 * false. */
static enum status write_item(struct writer *w, const struct item *item, const char *place,
                              struct table *left_out, bool *written)
{
    enum status st = STATUS_OK;
    *written = true;
    switch (item->kind) {
    case ITEM_STUDY:
        st = write_study(w, item, place);
        break;
    case ITEM_RUN:
    case ITEM_RUNS:
        st = write_runs(w, item, place, left_out, written);
        break;
    case ITEM_RECORD:
        st = write_record(w, item, place, written);
        break;
    }
    if (st == STATUS_DATA) {
        table_add(left_out, "%s", status_message());
        *written = false;
        return STATUS_OK;
    }
    return st;
}

/* Writes the list of damaged records to the document. */
static void write_left_out(struct writer *w, struct table *left_out)
{
    if (left_out->n == 0)
        return;
    writer_heading(w, 2, "Skipped records");
    writer_summary(w, "%d damaged", left_out->n);
    writer_paragraph(w, "These records are damaged. No statement above uses them:");
    writer_list(w, left_out);
}

/* Writes all records. The caller passes `left_out` as an empty list. The error of each damaged
 * record is added to this list. */
static void write_items(struct writer *w, const struct items *items, struct table *left_out)
{
    const char *place = "";
    for (int i = 0; w->st == STATUS_OK && i < items->n; i++) {
        const struct item *item = &items->v[i];
        bool written, same = strcmp(item->place, place) == 0;
        enum status st = write_item(w, item, same ? NULL : item->place, left_out, &written);
        w->st = w->st == STATUS_OK ? st : w->st;
        place = written ? item->place : place;
    }
}

/* Writes what the terms in sections of studies mean. */
static void section_terms(struct writer *w)
{
    static const char *const terms[] = {
        "Cell: a configuration that the study ran several times. Its name has the mode, precision, "
        "network, data, scaling, and devices x images per device.",
        "nd: one device. dp: several devices in one process, as PyTorch's DataParallel. ddp: a "
        "process for each device, as DistributedDataParallel. ddp2: several processes, each with "
        "several devices.",
        "fp32, tf32, bf16, amp: train's --precision. O0 to O3: Apex's optimization levels. "
        "Emulated: the processor lacks the type, which is computed in fp32 and rounded: the "
        "accuracy is that of the type, the speed is not.",
        "Synthetic data: random tensors, which are not read or decoded.",
        "Weak scaling: a fixed batch per device. Strong scaling: a fixed batch in total.",
        "Speed-up: images/s divided by those of the first cell of the series, on one device. "
        "Efficiency: the speed-up divided by the number of devices.",
        "Interval: the 95 % bootstrap interval of a median, or of a ratio of two medians, over "
        "the runs of the cells.",
        "A verdict names the largest part of a loss. compute-bound: no loss, and computing takes "
        "most of a step. loader-bound: slower than the same cell on synthetic data. "
        "communication-bound: slower per device than one device, because communication is "
        "exposed. shared hardware: because the devices share cores, memory or power. too noisy to "
        "say: the interval includes no loss and a large one. disturbed: other work took the "
        "processors in at least half of the runs; repeat on an idle machine.",
    };
    struct table items = {0};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        table_add(&items, "%s", terms[i]);
    writer_fold(w, "Terms");
    writer_list(w, &items);
    writer_fold_end(w);
}

/* Writes one document. Adds the errors of damaged records to `damaged`, and prints to `said` those
 * that the earlier document did not have. */
static enum status write_document(const struct items *items, const struct format *format,
                                  const char *path, bool output, FILE *said, struct table *damaged)
{
    struct table left_out = {0};
    struct writer w;
    TRY(writer_begin(&w, format, path, "Results"));
    w.output = output;
    leave_out(&left_out, &items->unread);
    write_items(&w, items, &left_out);
    int earlier = damaged->n;
    leave_out(damaged, &left_out);
    for (int i = earlier; said && i < damaged->n; i++)
        fprintf(said, "ampscale: skipped: %s\n", damaged->text[i]);
    write_left_out(&w, &left_out);
    for (int i = 0; i < items->n; i++)
        if (items->v[i].kind == ITEM_STUDY) {
            section_terms(&w);
            break;
        }
    writer_paragraph(
        &w, "Written by 'ampscale report'. Every number and every finding comes from the records.");
    return writer_end(&w);
}

/* Removes the earlier document after something before the new one could not be written. */
static void remove_earlier(const char *path)
{
    char target[4096];
    bool direct;
    if (path && output_find(path, target, &direct) == STATUS_OK && !direct)
        unlink(target);
}

enum status report_make(const struct report_config *c)
{
    struct items items = {0};
    struct table damaged = {0};
    enum status st = STATUS_OK;
    for (int i = 0; i < c->n; i++)
        CHECK(items_scan(&items, c->dir[i]));
    if (items.n == 0 && items.unread.n > 0)
        CHECK(status_fail(STATUS_IO, "%s", items.unread.text[0]));
    if (items.n == 0)
        CHECK(status_fail(STATUS_DATA, "'%s' has no record", c->dir[0]));
    st = c->draw ? draw_all(&items, c) : STATUS_OK;
    if (st == STATUS_OK && c->markdown)
        st = write_document(&items, &format_markdown, c->markdown, c->output, c->said, &damaged);
    if (st == STATUS_IO) {
        remove_earlier(c->markdown);
        remove_earlier(c->html);
    }
    CHECK(st);
    if (c->html)
        CHECK(write_document(&items, &format_html, c->html, c->output, c->said, &damaged));
    if (damaged.n > 0)
        st = status_fail(STATUS_DATA, "%d damaged record%s skipped; the rest was written",
                         damaged.n, damaged.n > 1 ? "s were" : " was");
done:
    table_free(&damaged);
    items_free(&items);
    return st;
}
