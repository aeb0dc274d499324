/* Makes documents from folders of records. */
#include "report/report.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/text_new.h"
#include "plots/palette.h"
#include "report/report_draw.h"
#include "report/report_figures.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_MAX_BYTES = 16 << 20 };

/* ---- loading ---- */

static enum status runs_add(struct runs *runs, const char *dir)
{
    if (runs->n == REPORT_MAX_RUNS)
        return status_fail(STATUS_DATA, "more than %d runs in one folder", REPORT_MAX_RUNS);
    enum status st = run_load(dir, &runs->v[runs->n]);
    if (st == STATUS_OK)
        runs->n++;
    if (st == STATUS_DATA)
        table_add(&runs->damaged, "%s", status_message());
    return st == STATUS_DATA ? STATUS_OK : st;
}

enum status runs_load(const struct item *item, struct runs *runs)
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
        if (run_exists(dir))
            CHECK(runs_add(runs, dir));
    }
done:
    words_free(&names);
    if (st != STATUS_OK)
        runs_free(runs);
    return st;
}

void runs_free(struct runs *runs)
{
    for (int i = 0; i < runs->n; i++)
        run_free(runs->v[i]);
    table_free(&runs->damaged);
    *runs = (struct runs){0};
}

/* ---- writing ---- */

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
    for (int i = 0; i < runs.damaged.n; i++)
        table_add(left_out, "%s", runs.damaged.text[i]);
    left_out->failed = left_out->failed || runs.damaged.failed;
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

/* Writes one document. Sets *damaged to the number of damaged records, and prints the error of each
 * of them to `said`. */
static enum status write_document(const struct items *items, const struct format *format,
                                  const char *path, FILE *said, int *damaged)
{
    struct table left_out = {0};
    struct writer w;
    TRY(writer_begin(&w, format, path, "Results"));
    write_items(&w, items, &left_out);
    *damaged = left_out.n;
    for (int i = 0; said && i < left_out.n; i++)
        fprintf(said, "ampscale: skipped: %s\n", left_out.text[i]);
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

/* Draws all figures. If gnuplot is missing, or a record has no figure, only tables are written. */
static enum status draw_all(const struct items *items, const struct plot_size *size, FILE *said)
{
    struct palette palette = {.n = 0}; /* a series has the same colour and shape in all figures of
                                        * the report */
    for (int i = 0; i < items->n; i++) {
        enum status st = item_draw(&items->v[i], size, &palette);
        if (st != STATUS_OK && st != STATUS_UNSUPPORTED && st != STATUS_DATA)
            return st;
        /* not reported, because some kinds of records have no figure */
        bool plain = st == STATUS_DATA && items->v[i].kind == ITEM_RECORD;
        if (st != STATUS_OK && !plain && said)
            fprintf(said, "ampscale: figures not drawn: %s\n", status_message());
    }
    return STATUS_OK;
}

enum status report_make(const struct report_config *c)
{
    struct items items = {0};
    int damaged = 0;
    enum status st = STATUS_OK;
    for (int i = 0; i < c->n; i++)
        CHECK(items_scan(&items, c->dir[i]));
    if (items.n == 0) {
        st = status_fail(STATUS_DATA, "'%s' has no record", c->dir[0]);
        goto done;
    }
    if (c->draw)
        CHECK(draw_all(&items, &c->size, c->said));
    if (c->markdown)
        CHECK(write_document(&items, &format_markdown, c->markdown, c->said, &damaged));
    if (c->html)
        CHECK(
            write_document(&items, &format_html, c->html, c->markdown ? NULL : c->said, &damaged));
    if (damaged > 0)
        st = status_fail(STATUS_DATA, "%d damaged record%s skipped; the rest was written", damaged,
                         damaged > 1 ? "s were" : " was");
done:
    items_free(&items);
    return st;
}
