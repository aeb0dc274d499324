/* From folders of records to a document. */
#include "report/report.h"

#include "base/file.h"
#include "report/draw.h"

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
    char **names = NULL;
    int n = 0;
    *runs = (struct runs){.damaged = table_begin(1, NULL)};
    if (item->kind == ITEM_RUN)
        return runs_add(runs, item->path);
    enum status st = names_in(item->path, "", &names, &n);
    for (int i = 0; st == STATUS_OK && i < n; i++) {
        char dir[REPORT_PATH_SIZE], file[REPORT_PATH_SIZE];
        st = path_format(dir, sizeof dir, "%s/%s", item->path, names[i]);
        if (st == STATUS_OK)
            st = path_format(file, sizeof file, "%s/run.json", dir);
        if (st == STATUS_OK && path_exists(file))
            st = runs_add(runs, dir);
    }
    names_free(names, n);
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

static enum status record_load(const char *path, json_t **record)
{
    char *bytes;
    size_t size;
    TRY(file_read(path, RECORD_MAX_BYTES, &bytes, &size));
    *record = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    free(bytes);
    if (json_is_object(*record))
        return STATUS_OK;
    json_decref(*record);
    return status_fail(STATUS_DATA, "'%s' is no JSON object", path);
}

/* ---- writing ---- */

/* A file below the document's own folder is named from there, others as they are. */
static const char *link_from(const char *document, const char *path)
{
    const char *slash = strrchr(document, '/');
    size_t n = slash ? (size_t)(slash - document) + 1 : 0;
    return strncmp(path, document, n) == 0 ? path + n : path;
}

static enum status write_figures(struct writer *w, const struct item *item)
{
    char **names;
    int n;
    if (!path_is_dir(item->figures))
        return STATUS_OK;
    TRY(names_in(item->figures, ".svg", &names, &n));
    enum status st = STATUS_OK;
    figures_order(names, n);
    for (int i = 0; st == STATUS_OK && i < n; i++) {
        char path[REPORT_PATH_SIZE], caption[256];
        snprintf(caption, sizeof caption, "%.*s", (int)(strlen(names[i]) - 4), names[i]);
        for (char *c = caption; *c; c++)
            *c = *c == '_' ? ' ' : *c;
        st = path_format(path, sizeof path, "%s/%s", item->figures, names[i]);
        if (st == STATUS_OK && figure_is_shown(item->kind, names[i]))
            st = w->format->figure(w->out, path, link_from(w->path, path), caption);
    }
    names_free(names, n);
    return st;
}

/* What a place has in common goes in front of its first record. */
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
    section_study(w, &a);
    analysis_free(&a);
    return STATUS_OK;
}

static enum status write_runs(struct writer *w, const struct item *item, const char *place,
                              struct table *left_out, bool *told)
{
    struct runs runs;
    TRY(runs_load(item, &runs));
    *told = runs.n > 0;
    if (*told) {
        begin_place(w, place, runs.v[0]->info);
        writer_heading(w, 3, item->kind == ITEM_RUN ? "Run %s" : "Runs: %s", item->name);
        section_runs(w, runs.v, runs.n);
    }
    for (int i = 0; i < runs.damaged.n; i++)
        table_add(left_out, "%s", runs.damaged.text[i]);
    left_out->failed = left_out->failed || runs.damaged.failed;
    runs_free(&runs);
    return STATUS_OK;
}

static enum status write_record(struct writer *w, const struct item *item, const char *place,
                                bool *told)
{
    json_t *record;
    TRY(record_load(item->path, &record));
    record_section *section = section_of_record(record);
    *told = section != NULL;
    if (section) {
        begin_place(w, place, record);
        section(w, item->name, record);
    }
    json_decref(record);
    return STATUS_OK;
}

/* *told: it is whole, and of a kind that there are words for. */
static enum status write_item(struct writer *w, const struct item *item, const char *place,
                              struct table *left_out, bool *told)
{
    enum status st = STATUS_OK;
    *told = true;
    switch (item->kind) {
    case ITEM_STUDY:
        st = write_study(w, item, place);
        break;
    case ITEM_RUN:
    case ITEM_RUNS:
        st = write_runs(w, item, place, left_out, told);
        break;
    case ITEM_RECORD:
        st = write_record(w, item, place, told);
        break;
    }
    if (st == STATUS_DATA) {
        table_add(left_out, "%s", status_message());
        *told = false;
        return STATUS_OK;
    }
    return st == STATUS_OK && *told ? write_figures(w, item) : st;
}

/* Damaged records are named where the reader of the document sees them. */
static void write_left_out(struct writer *w, struct table *left_out)
{
    if (left_out->n == 0)
        return;
    writer_heading(w, 2, "Left out");
    writer_paragraph(w, "These records are damaged, and nothing above is of them:");
    writer_list(w, left_out);
}

/* `left_out`, an empty list, gets what is wrong with each damaged record. */
static void write_items(struct writer *w, const struct items *items, struct table *left_out)
{
    const char *place = "";
    for (int i = 0; w->st == STATUS_OK && i < items->n; i++) {
        const struct item *item = &items->v[i];
        bool told, same = strcmp(item->place, place) == 0;
        enum status st = write_item(w, item, same ? NULL : item->place, left_out, &told);
        w->st = w->st == STATUS_OK ? st : w->st;
        place = told ? item->place : place;
    }
}

/* *damaged: records that are, and were left out; each is named on `said`. */
static enum status write_document(const struct items *items, const struct format *format,
                                  const char *path, FILE *said, int *damaged)
{
    struct table left_out = table_begin(1, NULL);
    char *text = NULL;
    size_t size = 0;
    struct writer w = {.format = format, .path = path, .out = open_memstream(&text, &size)};
    if (!w.out)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    format->begin(w.out, "Results");
    writer_paragraph(&w, "Written by 'ampscale report' from the records; every number and every "
                         "finding comes from them.");
    write_items(&w, items, &left_out);
    *damaged = left_out.n;
    for (int i = 0; said && i < left_out.n; i++)
        fprintf(said, "ampscale: left out: %s\n", left_out.text[i]);
    write_left_out(&w, &left_out);
    format->end(w.out);
    if (fclose(w.out) != 0 && w.st == STATUS_OK)
        w.st = status_fail(STATUS_OOM, "no memory to write '%s'", path);
    if (w.st == STATUS_OK)
        w.st = file_replace(path, text, size);
    free(text);
    return w.st;
}

/* A record without a figure, and a machine without gnuplot, still have their tables. */
static enum status draw_all(const struct items *items, FILE *said)
{
    for (int i = 0; i < items->n; i++) {
        enum status st = item_draw(&items->v[i]);
        if (st != STATUS_OK && st != STATUS_UNSUPPORTED && st != STATUS_DATA)
            return st;
        bool plain = st == STATUS_DATA && items->v[i].kind == ITEM_RECORD; /* has no figure */
        if (st != STATUS_OK && !plain && said)
            fprintf(said, "ampscale: not drawn: %s\n", status_message());
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
        st = status_fail(STATUS_DATA, "'%s' holds no record", c->dir[0]);
        goto done;
    }
    if (c->draw)
        CHECK(draw_all(&items, c->said));
    if (c->markdown)
        CHECK(write_document(&items, &format_markdown, c->markdown, c->said, &damaged));
    if (c->html)
        CHECK(
            write_document(&items, &format_html, c->html, c->markdown ? NULL : c->said, &damaged));
    if (damaged > 0)
        st = status_fail(STATUS_DATA, "%d damaged record%s left out; all else was written", damaged,
                         damaged > 1 ? "s were" : " was");
done:
    items_free(&items);
    return st;
}
