/* Prints the results of a fleet, and writes its files. */
#include "accept/fleet.h"

#include "base/document.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* FLEET_SCHEMA: version of fleet.json; increases when a program that reads the previous version
 * would misunderstand the new one. */
enum { FLEET_SCHEMA = 1, LINE_SIZE = 256, PATH_SIZE = 4096 };

/* --- JSON --- */

static json_t *groups_json(const struct fleet_sample *s)
{
    if (!s->split)
        return json_null();
    return json_new("[{s:f, s:I}, {s:f, s:I}]", "median", s->low, "nodes", (json_int_t)s->n_low,
                    "median", s->high, "nodes", (json_int_t)s->n_high);
}

static json_t *group_json(const void *fleet, int64_t i)
{
    const struct fleet_group *g = &((const struct fleet *)fleet)->group[i];
    return json_new("{s:s, s:i}", "name", g->hardware, "nodes", g->n);
}

static json_t *metric_json(const void *fleet, int64_t i)
{
    const struct fleet_metric *m = &((const struct fleet *)fleet)->metric[i];
    const struct fleet_sample *s = &m->sample;
    bool judged = s->n >= FLEET_LEAST;
    return json_new("{s:s, s:i, s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:o}", "name", m->name,
                    "hardware", m->group, "better", accept_better_str(m->better), "n",
                    (json_int_t)s->n, "missing", m->missing, "median", judged ? s->median : NAN,
                    "spread", judged ? s->scatter : NAN, "reference", judged ? s->reference : NAN,
                    "fail", judged ? s->bounds.fail : NAN, "warn", judged ? s->bounds.warn : NAN,
                    "groups", groups_json(s));
}

static json_t *finding_json(const void *node, int64_t i)
{
    const struct fleet_finding *x = &((const struct fleet_node *)node)->finding[i];
    return json_new("{s:s, s:s, s:f, s:f, s:s}", "metric", x->metric, "verdict",
                    verdict_str(x->verdict), "value", x->value, "reference", x->reference, "reason",
                    x->reason);
}

static json_t *node_json(const void *fleet, int64_t i)
{
    const struct fleet_node *node = &((const struct fleet *)fleet)->node[i];
    return json_new("{s:s, s:o, s:s, s:o, s:o}", "name", node->name, "hardware",
                    node->group < 0 ? json_null() : json_integer(node->group), "verdict",
                    verdict_str(node->verdict), "counts", verdict_counts_json(node->count),
                    "findings", json_list(node->n, finding_json, node));
}

/* docs/schema/fleet.schema.json. NULL when memory is short. */
static json_t *fleet_json(const struct fleet *f, bool strict)
{
    json_t *remarks = json_array();
    for (int i = 0; f->remarks && i < f->remarks->n; i++)
        json_add(remarks, text_json(f->remarks->v[i]));
    return json_new("{s:s, s:i, s:b, s:o, s:o, s:o, s:o, s:o}", "record", "fleet", "schema",
                    FLEET_SCHEMA, "passed", verdict_exit_code(f->count, strict) == 0, "counts",
                    verdict_counts_json(f->count), "hardware",
                    json_list(f->n_groups, group_json, f), "metrics",
                    json_list(f->n_metrics, metric_json, f), "remarks", remarks, "nodes",
                    json_list(f->n_nodes, node_json, f));
}

static const char *hardware_of(const struct fleet *f, int group)
{
    if (group < 0)
        return "unknown hardware";
    return *f->group[group].hardware ? f->group[group].hardware : "unnamed hardware";
}

/* Writes a line such as "FAILED: 4 nodes: 2 passed, ..." without a newline. */
static void fleet_conclusion(const struct fleet *f, bool strict, char *out, size_t size)
{
    int code = verdict_exit_code(f->count, strict);
    const char *word = code == 0 ? "passed" : "incomplete";
    if (code == status_exit_code(STATUS_MISMATCH))
        word = "FAILED";
    snprintf(out, size, "%s: %d %s: %d passed, %d with warnings, %d failed, %d %s missing results",
             word, f->n_nodes, f->n_nodes == 1 ? "node" : "nodes", f->count[VERDICT_PASS],
             f->count[VERDICT_WARN], f->count[VERDICT_FAIL], f->count[VERDICT_MISSING],
             f->count[VERDICT_MISSING] == 1 ? "has" : "have");
}

/* --- terminal --- */

static void print_metric(const struct fleet_metric *m, FILE *out)
{
    const struct fleet_sample *s = &m->sample;
    double spread = s->n && s->reference != 0 ? 100 * s->scatter / fabs(s->reference) : 0;
    if (s->n < FLEET_LEAST)
        fprintf(out, "  %-44s %5lld  too few nodes to compare\n", m->name, (long long)s->n);
    else
        fprintf(out, "  %-44s %5lld %12.6g %8.2f%% %6.1f%% %6.1f%%\n", m->name, (long long)s->n,
                s->reference, spread, 100 * s->bounds.warn, 100 * s->bounds.fail);
    if (s->split && s->n >= FLEET_LEAST)
        fprintf(out, "    two groups: %lld nodes around %.6g, %lld around %.6g\n",
                (long long)s->n_low, s->low, (long long)s->n_high, s->high);
}

static void print_node(const struct fleet_node *node, FILE *out)
{
    fprintf(out, "  %-28s %-8s %6d %6d %6d %6d\n", node->name, verdict_str(node->verdict),
            node->count[VERDICT_PASS], node->count[VERDICT_WARN], node->count[VERDICT_FAIL],
            node->count[VERDICT_MISSING]);
    for (int i = 0; i < node->n; i++) {
        const struct fleet_finding *x = &node->finding[i];
        fprintf(out, "    %s %s%s%s\n", verdict_str(x->verdict), x->metric, *x->metric ? ": " : "",
                x->reason);
    }
}

static void print_group(const struct fleet *f, int group, FILE *out)
{
    int metrics = 0, nodes = 0;
    if (group >= 0)
        fprintf(out, "hardware: %s, %d %s\n", hardware_of(f, group), f->group[group].n,
                f->group[group].n == 1 ? "node" : "nodes");
    for (int i = 0; i < f->n_metrics; i++) {
        if (f->metric[i].group != group)
            continue;
        if (metrics++ == 0)
            fprintf(out, "  %-44s %5s %12s %9s %7s %7s\n", "metric", "nodes", "reference", "spread",
                    "warn", "fail");
        print_metric(&f->metric[i], out);
    }
    for (int i = 0; i < f->n_nodes; i++) {
        if (f->node[i].group != group)
            continue;
        if (nodes++ == 0)
            fprintf(out, "  %-28s %-8s %6s %6s %6s %6s\n", "node", "verdict", "pass", "warn",
                    "fail", "lack");
        print_node(&f->node[i], out);
    }
}

void fleet_print(const struct fleet *f, bool strict, FILE *out)
{
    char line[LINE_SIZE];
    for (int g = 0; g < f->n_groups; g++)
        print_group(f, g, out);
    print_group(f, -1, out);
    for (int i = 0; f->remarks && i < f->remarks->n; i++)
        fprintf(out, "remark: %s\n", f->remarks->v[i]);
    fleet_conclusion(f, strict, line, sizeof line);
    fprintf(out, "%s\n", line);
}

/* --- JUnit --- */

static bool fails(const struct fleet_node *node, bool strict)
{
    return node->verdict == VERDICT_FAIL || (strict && node->verdict == VERDICT_WARN);
}

static enum status add_node_case(struct junit *j, const struct fleet *f,
                                 const struct fleet_node *node, bool strict)
{
    char metrics[16];
    struct text_stream reasons;
    TRY(text_stream_open(&reasons));
    for (int i = 0; i < node->n; i++) {
        const struct fleet_finding *x = &node->finding[i];
        fprintf(reasons.out, "%s%s%s%s", i > 0 ? "; " : "", x->metric, *x->metric ? ": " : "",
                x->reason);
    }
    TRY(text_stream_close(&reasons));
    snprintf(metrics, sizeof metrics, "%d", node->count[VERDICT_PASS]);
    const struct junit_property property = {"metrics_passed", metrics};
    junit_add(j, &(struct junit_case){
                     .class = hardware_of(f, node->group),
                     .name = node->name,
                     .verdict = fails(node, strict) ? VERDICT_FAIL : node->verdict,
                     .type = verdict_str(node->verdict),
                     .message = reasons.text,
                     .property = &property,
                     .properties = 1,
                 });
    free(reasons.text);
    return STATUS_OK;
}

static enum status write_junit(const struct fleet *f, bool strict, const char *path)
{
    struct junit j;
    enum status st = junit_begin(&j);
    for (int i = 0; i < f->n_nodes && st == STATUS_OK; i++)
        st = add_node_case(&j, f, &f->node[i], strict);
    return st == STATUS_OK ? junit_write(&j, "ampscale accept", NULL, NULL, path) : st;
}

/* --- Markdown and HTML --- */

static void write_nodes(const struct fleet *f, struct writer *w)
{
    struct table t = table_begin("node|hardware|verdict|>pass|>warn|>fail|>missing");
    for (int i = 0; i < f->n_nodes; i++) {
        const struct fleet_node *node = &f->node[i];
        table_add(&t, "%s", node->name);
        table_add(&t, "%s", hardware_of(f, node->group));
        table_add(&t, "%s", verdict_str(node->verdict));
        table_add(&t, "%d", node->count[VERDICT_PASS]);
        table_add(&t, "%d", node->count[VERDICT_WARN]);
        table_add(&t, "%d", node->count[VERDICT_FAIL]);
        table_add(&t, "%d", node->count[VERDICT_MISSING]);
    }
    writer_heading(w, 2, "Nodes");
    writer_table(w, &t);
}

static void write_findings(const struct fleet *f, struct writer *w)
{
    struct table t = table_begin("node|metric|verdict|>value|>reference|reason");
    for (int i = 0; i < f->n_nodes; i++) {
        for (int k = 0; k < f->node[i].n; k++) {
            const struct fleet_finding *x = &f->node[i].finding[k];
            table_add(&t, "%s", f->node[i].name);
            table_add(&t, "%s", x->metric);
            table_add(&t, "%s", verdict_str(x->verdict));
            table_add_amount(&t, x->value);
            table_add_amount(&t, x->reference);
            table_add(&t, "%s", x->reason);
        }
    }
    if (t.n > t.columns)
        writer_heading(w, 2, "Metrics that did not pass");
    writer_table(w, &t);
}

static void write_metrics(const struct fleet *f, struct writer *w)
{
    struct table t =
        table_begin("metric|hardware|>nodes|>reference|>spread|>warn, %|>fail, %|groups");
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
    struct writer w;
    TRY(writer_begin(&w, format, path, "Acceptance of a fleet"));
    fleet_conclusion(f, strict, line, sizeof line);
    writer_paragraph(&w, "%s", line);
    for (int i = 0; f->remarks && i < f->remarks->n; i++)
        writer_paragraph(&w, "Remark: %s.", f->remarks->v[i]);
    write_nodes(f, &w);
    write_findings(f, &w);
    write_metrics(f, &w);
    return writer_end(&w);
}

/* --- files --- */

static enum status write_list(const struct fleet *f, bool strict, const char *dir, const char *name)
{
    char path[PATH_SIZE];
    struct atomic_file file;
    TRY(path_format(path, sizeof path, "%s/%s", dir, name));
    TRY(atomic_file_open(&file, path));
    for (int i = 0; i < f->n_nodes; i++) {
        const struct fleet_node *node = &f->node[i];
        const char *list = fails(node, strict)                ? "failed.txt"
                           : node->verdict == VERDICT_MISSING ? "missing.txt"
                                                              : "good.txt";
        if (strcmp(list, name) == 0)
            fprintf(file.stream, "%s\n", node->name);
    }
    return atomic_file_commit(&file);
}

enum status fleet_write(const struct fleet *f, bool strict, const char *dir)
{
    static const char *const lists[] = {"good.txt", "failed.txt", "missing.txt"};
    static const char *const old[] = {"fleet.json", "fleet.xml",  "fleet.md",   "fleet.html",
                                      "good.txt",   "failed.txt", "missing.txt"};
    char path[PATH_SIZE];
    TRY(dir_make(dir));
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) { /* so that no old verdict remains */
        TRY(path_format(path, sizeof path, "%s/%s", dir, old[i]));
        TRY(file_remove(path));
    }
    TRY(json_write(fleet_json(f, strict), JSON_RECORD, "%s/fleet.json", dir));
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
