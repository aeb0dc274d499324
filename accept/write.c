/* The files of an acceptance. */
#include "accept/report.h"

#include "accept/judge.h"
#include "base/file.h"
#include "report/writer.h"

#include <stdlib.h>

/* --- the document --- */

static void write_summary(struct writer *w, const struct accept_report *r, bool strict)
{
    static const char *const headings[] = {"verdict", "check", ">seconds", "repeats", "why"};
    struct table t = table_begin(5, headings);
    char line[256];
    accept_conclusion(r, strict, line, sizeof line);
    writer_paragraph(w, "%s.", line);
    accept_note(r, line, sizeof line);
    if (*line)
        writer_paragraph(w, "%s.", line);
    writer_paragraph(w, "Node %s, %s; level %d, %s to %s, ampscale %s.", r->node,
                     *r->device ? r->device : "no device", r->level, r->begun, r->ended,
                     r->version);
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        table_add(&t, "%s", accept_verdict_str(c->verdict));
        table_add(&t, "%s", c->name);
        table_add_amount(&t, c->seconds);
        table_add(&t, "%d of %d", c->repeats, c->wanted);
        table_add(&t, "%s", c->reason);
    }
    writer_heading(w, 2, "Checks");
    writer_table(w, &t);
}

static void write_metrics(struct writer *w, const struct accept_result *c)
{
    static const char *const headings[] = {
        "verdict", "metric", ">value", "range", "limit", "why", "source of the limit"};
    struct table t = table_begin(7, headings);
    for (int i = 0; i < c->n_metrics; i++) {
        const struct accept_metric *m = &c->metric[i];
        char text[ACCEPT_SOURCE_SIZE];
        table_add(&t, "%s", *m->limit ? accept_verdict_str(m->verdict) : "");
        table_add(&t, "%s", m->name);
        accept_value_words(m, text, sizeof text);
        table_add(&t, "%s", text);
        accept_spread_words(m, text, sizeof text);
        table_add(&t, "%s", text);
        table_add(&t, "%s", *m->limit ? m->limit : "none");
        table_add(&t, "%s", m->reason);
        table_add(&t, "%s", m->source);
    }
    writer_table(w, &t);
}

static enum status write_document(const struct accept_report *r, bool strict,
                                  const struct format *format, const char *path)
{
    struct atomic_file f;
    char title[ACCEPT_NAME_SIZE + ACCEPT_TEXT_SIZE + 32];
    TRY(atomic_file_open(&f, path));
    struct writer w = {.format = format, .out = f.stream, .path = path};
    snprintf(title, sizeof title, "Acceptance of %s by '%s'", r->node, r->spec);
    format->begin(f.stream, title);
    write_summary(&w, r, strict);
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        if (c->ended == ACCEPT_SKIP) /* not asked for */
            continue;
        writer_heading(&w, 2, "%s: %s", c->name, accept_verdict_str(c->verdict));
        write_metrics(&w, c);
        if (*c->command)
            writer_code(&w, c->command);
    }
    format->end(f.stream);
    if (w.st == STATUS_OK)
        return atomic_file_commit(&f);
    atomic_file_abandon(&f);
    return w.st;
}

/* --- all of them --- */

static enum status write_json(const struct accept_report *r, const char *path)
{
    json_t *o = accept_report_json(r);
    struct atomic_file f;
    if (!o)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    enum status st = atomic_file_open(&f, path);
    if (st == STATUS_OK) {
        json_dumpf(o, f.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
        fputc('\n', f.stream);
        st = atomic_file_commit(&f);
    }
    json_decref(o);
    return st;
}

static enum status write_junit(const struct accept_report *r, bool strict, const char *path)
{
    struct atomic_file f;
    TRY(atomic_file_open(&f, path));
    accept_print_junit(r, strict, f.stream);
    return atomic_file_commit(&f);
}

enum status accept_write(const struct accept_report *r, bool strict, const char *dir)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/accept.md", dir));
    TRY(write_document(r, strict, &format_markdown, path));
    TRY(path_format(path, sizeof path, "%s/accept.html", dir));
    TRY(write_document(r, strict, &format_html, path));
    TRY(path_format(path, sizeof path, "%s/accept.xml", dir));
    TRY(write_junit(r, strict, path));
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, dir));
    return write_json(r, path);
}
