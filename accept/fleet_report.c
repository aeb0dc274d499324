/* Fleets as text, JUnit, Markdown, HTML, and lists of names. */
#include "accept/fleet_report.h"

#include "base/file.h"
#include "base/xml.h"
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 256, PATH_SIZE = 4096 };

static const char *hardware_of(const struct fleet *f, int group)
{
    if (group < 0)
        return "not known";
    return *f->group[group].hardware ? f->group[group].hardware : "not told";
}

void fleet_conclusion(const struct fleet *f, bool strict, char *out, size_t size)
{
    int code = fleet_exit_code(f, strict);
    const char *word = code == 0 ? "passed" : "incomplete";
    if (code == status_exit_code(STATUS_MISMATCH))
        word = "FAILED";
    snprintf(out, size,
             "%s: of %d %s %d passed, %d with warnings, %d failed, %d %s missing results", word,
             f->n_nodes, f->n_nodes == 1 ? "node" : "nodes", f->count[ACCEPT_PASS],
             f->count[ACCEPT_WARN], f->count[ACCEPT_FAIL], f->count[ACCEPT_MISSING],
             f->count[ACCEPT_MISSING] == 1 ? "has" : "have");
}

/* --- terminal --- */

static void print_metric(const struct fleet_metric *m, FILE *out)
{
    const struct fleet_sample *s = &m->sample;
    double spread = s->n && s->reference != 0 ? 100 * s->scatter / fabs(s->reference) : 0;
    if (s->n < FLEET_LEAST)
        fprintf(out, "  %-44s %5lld  too few to be held against each other\n", m->name,
                (long long)s->n);
    else
        fprintf(out, "  %-44s %5lld %12.6g %8.2f%% %6.1f%% %6.1f%%\n", m->name, (long long)s->n,
                s->reference, spread, 100 * s->bounds.warn, 100 * s->bounds.fail);
    if (s->split && s->n >= FLEET_LEAST)
        fprintf(out, "    two groups: %lld nodes around %.6g, %lld around %.6g\n",
                (long long)s->n_low, s->low, (long long)s->n_high, s->high);
}

static void print_node(const struct fleet_node *node, FILE *out)
{
    fprintf(out, "  %-28s %-8s %6d %6d %6d %6d\n", node->name, accept_verdict_str(node->verdict),
            node->count[ACCEPT_PASS], node->count[ACCEPT_WARN], node->count[ACCEPT_FAIL],
            node->count[ACCEPT_MISSING]);
    for (int i = 0; i < node->n; i++) {
        const struct fleet_finding *x = &node->finding[i];
        fprintf(out, "    %s %s%s%s\n", accept_verdict_str(x->verdict), x->metric,
                *x->metric ? ": " : "", x->reason);
    }
}

static void print_group(const struct fleet *f, int group, FILE *out)
{
    bool headed = false;
    if (group >= 0)
        fprintf(out, "hardware: %s, %d %s\n", hardware_of(f, group), f->group[group].n,
                f->group[group].n == 1 ? "node" : "nodes");
    for (int i = 0; i < f->n_metrics; i++) {
        if (f->metric[i].group != group)
            continue;
        if (!headed)
            fprintf(out, "  %-44s %5s %12s %9s %7s %7s\n", "metric", "nodes", "reference", "spread",
                    "warn", "fail");
        headed = true;
        print_metric(&f->metric[i], out);
    }
    headed = false;
    for (int i = 0; i < f->n_nodes; i++) {
        if (f->node[i].group != group)
            continue;
        if (!headed)
            fprintf(out, "  %-28s %-8s %6s %6s %6s %6s\n", "node", "verdict", "pass", "warn",
                    "fail", "lack");
        headed = true;
        print_node(&f->node[i], out);
    }
}

void fleet_print(const struct fleet *f, bool strict, FILE *out)
{
    char line[LINE_SIZE];
    for (int g = 0; g < f->n_groups; g++)
        print_group(f, g, out);
    print_group(f, -1, out);
    fleet_conclusion(f, strict, line, sizeof line);
    fprintf(out, "%s\n", line);
}

/* --- JUnit --- */

static void junit_reasons(const struct fleet_node *node, FILE *out)
{
    for (int i = 0; i < node->n; i++) {
        const struct fleet_finding *x = &node->finding[i];
        if (i > 0)
            fputs("; ", out);
        xml_text(out, x->metric);
        fputs(*x->metric ? ": " : "", out);
        xml_text(out, x->reason);
    }
}

static bool fails(const struct fleet_node *node, bool strict)
{
    return node->verdict == ACCEPT_FAIL || (strict && node->verdict == ACCEPT_WARN);
}

static void junit_node(const struct fleet *f, const struct fleet_node *node, bool strict, FILE *out)
{
    const char *tag = fails(node, strict) ? "failure" : "error";
    fprintf(out, "    <testcase classname=\"");
    xml_text(out, hardware_of(f, node->group));
    fprintf(out, "\" name=\"%s\" time=\"0\"", node->name);
    if (!fails(node, strict) && node->verdict != ACCEPT_MISSING) {
        fputs("/>\n", out);
        return;
    }
    fprintf(out, ">\n      <%s type=\"%s\" message=\"", tag, accept_verdict_str(node->verdict));
    junit_reasons(node, out);
    fprintf(out, "\"/>\n    </testcase>\n");
}

void fleet_print_junit(const struct fleet *f, bool strict, FILE *out)
{
    int failures = 0;
    for (int i = 0; i < f->n_nodes; i++)
        failures += fails(&f->node[i], strict);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    fprintf(out,
            "  <testsuite name=\"ampscale accept\" tests=\"%d\" failures=\"%d\" errors=\"%d\" "
            "skipped=\"0\" time=\"0\">\n",
            f->n_nodes, failures, f->count[ACCEPT_MISSING]);
    for (int i = 0; i < f->n_nodes; i++)
        junit_node(f, &f->node[i], strict, out);
    fprintf(out, "  </testsuite>\n</testsuites>\n");
}

/* --- Markdown and HTML --- */

static void tell_nodes(const struct fleet *f, struct writer *w)
{
    static const char *const headings[] = {"node",  "hardware", "verdict", ">pass",
                                           ">warn", ">fail",    ">missing"};
    struct table t = table_begin(7, headings);
    for (int i = 0; i < f->n_nodes; i++) {
        const struct fleet_node *node = &f->node[i];
        table_add(&t, "%s", node->name);
        table_add(&t, "%s", hardware_of(f, node->group));
        table_add(&t, "%s", accept_verdict_str(node->verdict));
        table_add(&t, "%d", node->count[ACCEPT_PASS]);
        table_add(&t, "%d", node->count[ACCEPT_WARN]);
        table_add(&t, "%d", node->count[ACCEPT_FAIL]);
        table_add(&t, "%d", node->count[ACCEPT_MISSING]);
    }
    writer_heading(w, 2, "Nodes");
    writer_table(w, &t);
}

static void tell_findings(const struct fleet *f, struct writer *w)
{
    static const char *const headings[] = {"node",   "metric",     "verdict",
                                           ">value", ">reference", "reason"};
    struct table t = table_begin(6, headings);
    for (int i = 0; i < f->n_nodes; i++) {
        for (int k = 0; k < f->node[i].n; k++) {
            const struct fleet_finding *x = &f->node[i].finding[k];
            table_add(&t, "%s", f->node[i].name);
            table_add(&t, "%s", x->metric);
            table_add(&t, "%s", accept_verdict_str(x->verdict));
            table_add_amount(&t, x->value);
            table_add_amount(&t, x->reference);
            table_add(&t, "%s", x->reason);
        }
    }
    if (t.n > t.columns)
        writer_heading(w, 2, "What did not pass");
    writer_table(w, &t);
}

static void tell_metrics(const struct fleet *f, struct writer *w)
{
    static const char *const headings[] = {"metric",  "hardware", ">nodes",   ">reference",
                                           ">spread", ">warn, %", ">fail, %", "groups"};
    struct table t = table_begin(8, headings);
    for (int i = 0; i < f->n_metrics; i++) {
        const struct fleet_metric *m = &f->metric[i];
        const struct fleet_sample *s = &m->sample;
        bool judged = s->n >= FLEET_LEAST;
        table_add(&t, "%s", m->name);
        table_add(&t, "%s", hardware_of(f, m->group));
        table_add(&t, "%lld", (long long)s->n);
        table_add_amount(&t, judged ? s->reference : NAN);
        table_add_amount(&t, judged ? s->scatter : NAN);
        table_add_number(&t, judged ? 100 * s->bounds.warn : NAN, 1);
        table_add_number(&t, judged ? 100 * s->bounds.fail : NAN, 1);
        if (judged && s->split)
            table_add(&t, "%lld around %.6g, %lld around %.6g", (long long)s->n_low, s->low,
                      (long long)s->n_high, s->high);
        else
            table_add(&t, "%s", judged ? "one" : "too few nodes");
    }
    writer_heading(w, 2, "Metrics");
    writer_table(w, &t);
}

static enum status write_document(const struct fleet *f, bool strict, const char *path,
                                  const struct format *format)
{
    char line[LINE_SIZE];
    struct atomic_file file;
    TRY(atomic_file_open(&file, path));
    struct writer w = {.format = format, .out = file.stream, .path = path};
    format->begin(w.out, "Acceptance of a fleet");
    fleet_conclusion(f, strict, line, sizeof line);
    writer_paragraph(&w, "%s", line);
    tell_nodes(f, &w);
    tell_findings(f, &w);
    tell_metrics(f, &w);
    format->end(w.out);
    if (w.st == STATUS_OK)
        return atomic_file_commit(&file);
    atomic_file_abandon(&file);
    return w.st;
}

/* --- files --- */

static enum status write_json(const struct fleet *f, bool strict, const char *path)
{
    struct atomic_file file;
    json_t *o = fleet_json(f, strict);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!text)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    enum status st = atomic_file_open(&file, path);
    if (st == STATUS_OK) {
        fprintf(file.stream, "%s\n", text);
        st = atomic_file_commit(&file);
    }
    free(text);
    return st;
}

static enum status write_junit(const struct fleet *f, bool strict, const char *path)
{
    struct atomic_file file;
    TRY(atomic_file_open(&file, path));
    fleet_print_junit(f, strict, file.stream);
    return atomic_file_commit(&file);
}

static const char *list_of(const struct fleet_node *node, bool strict)
{
    if (fails(node, strict))
        return "failed.txt";
    return node->verdict == ACCEPT_MISSING ? "missing.txt" : "good.txt";
}

static enum status write_list(const struct fleet *f, bool strict, const char *dir, const char *name)
{
    char path[PATH_SIZE];
    struct atomic_file file;
    TRY(path_format(path, sizeof path, "%s/%s", dir, name));
    TRY(atomic_file_open(&file, path));
    for (int i = 0; i < f->n_nodes; i++)
        if (strcmp(list_of(&f->node[i], strict), name) == 0)
            fprintf(file.stream, "%s\n", f->node[i].name);
    return atomic_file_commit(&file);
}

enum status fleet_write(const struct fleet *f, bool strict, const char *dir)
{
    static const char *const lists[] = {"good.txt", "failed.txt", "missing.txt"};
    char path[PATH_SIZE];
    TRY(dir_make(dir));
    TRY(path_format(path, sizeof path, "%s/fleet.json", dir));
    TRY(write_json(f, strict, path));
    TRY(path_format(path, sizeof path, "%s/fleet.xml", dir));
    TRY(write_junit(f, strict, path));
    TRY(path_format(path, sizeof path, "%s/fleet.md", dir));
    TRY(write_document(f, strict, path, &format_markdown));
    TRY(path_format(path, sizeof path, "%s/fleet.html", dir));
    TRY(write_document(f, strict, path, &format_html));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        TRY(write_list(f, strict, dir, lists[i]));
    return STATUS_OK;
}
