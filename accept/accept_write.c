/* Writes the files of an acceptance. */
#include "accept/accept_report.h"

#include "accept/accept_judge.h"
#include "accept/accept_noise.h"
#include "base/document.h"
#include "base/file.h"
#include "base/json.h"

/* --- the document --- */

static void write_summary(struct writer *w, const struct accept_report *r, bool strict)
{
    struct table t = table_begin("verdict|check|>seconds|repeats|other work|why");
    char line[NOISE_WORDS_SIZE];
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
        table_add(&t, "%s", verdict_str(c->verdict));
        table_add(&t, "%s", c->name);
        table_add_amount(&t, c->seconds);
        table_add(&t, "%d of %d", c->repeats, c->wanted);
        accept_noise_words(c, line, sizeof line);
        table_add(&t, "%s", line);
        table_add(&t, "%s", c->reason);
    }
    writer_heading(w, 2, "Checks");
    writer_table(w, &t);
}

static void write_metrics(struct writer *w, const struct accept_result *c)
{
    struct table t = table_begin("verdict|metric|>value|range|limit|why|source of the limit");
    for (int i = 0; i < c->n_metrics; i++) {
        const struct accept_metric *m = &c->metric[i];
        char text[ACCEPT_VALUE_SIZE];
        table_add(&t, "%s", *m->limit ? verdict_str(m->verdict) : "");
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
    struct writer w;
    char title[ACCEPT_NAME_SIZE + ACCEPT_TEXT_SIZE + 32];
    snprintf(title, sizeof title, "Acceptance of %s by '%s'", r->node, r->spec);
    TRY(writer_begin(&w, format, path, title));
    write_summary(&w, r, strict);
    for (int i = 0; i < r->n_checks; i++) {
        const struct accept_result *c = &r->check[i];
        if (c->ended == VERDICT_SKIP) /* not selected */
            continue;
        writer_heading(&w, 2, "%s: %s", c->name, verdict_str(c->verdict));
        write_metrics(&w, c);
        if (*c->command)
            writer_code(&w, c->command);
    }
    return writer_end(&w);
}

/* --- all of them --- */

enum status accept_write(const struct accept_report *r, bool strict, const char *dir)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/accept.md", dir));
    TRY(write_document(r, strict, &format_markdown, path));
    TRY(path_format(path, sizeof path, "%s/accept.html", dir));
    TRY(write_document(r, strict, &format_html, path));
    TRY(path_format(path, sizeof path, "%s/accept.xml", dir));
    TRY(accept_write_junit(r, strict, path));
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, dir));
    return json_write(accept_report_json(r), path, JSON_RECORD);
}
