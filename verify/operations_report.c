/* Reads the logs of workers, and prints the results as lines or as JSON. */
#include "verify/operations_result.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- a log --- */

enum { LOG_MAX_BYTES = 256 << 20 };

void operations_add_failure(struct operations_result *r, const struct operations_kind *k,
                            int number, const char *reason)
{
    int of_kind = 0;
    for (int i = 0; i < r->n_failures; i++)
        of_kind += r->failure[i].kind == k->name;
    if (of_kind == OPERATIONS_FAILURES_OF_KIND || r->n_failures == OPERATIONS_FAILURES_MAX)
        return;
    struct operations_failure *f = &r->failure[r->n_failures++];
    f->kind = k->name;
    f->number = number;
    text_clean(f->reason, sizeof f->reason, reason);
}

/* The text after "=========" if the line is the first line of a sanitizer's finding, else NULL. The
 * finding's other lines are indented. Summaries, warnings and the tool's own errors ("Error: ") are
 * not findings; racecheck's errors, which name a race or a hazard, are findings. */
static const char *finding_of(const char *line)
{
    static const char *const other[] = {"COMPUTE-SANITIZER", "SUMMARY",   "Warning",
                                        "Target ",           "Internal ", "Device not supported"};
    size_t marks = strspn(line, "=");
    if (marks < 3 || line[marks] != ' ' || !isupper((unsigned char)line[marks + 1]))
        return NULL;
    const char *text = line + marks + 1;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strstr(text, other[i]))
            return NULL;
    bool error = strncmp(text, "Error: ", strlen("Error: ")) == 0;
    return !error || strstr(text, "Race") || strstr(text, "hazard") ? text : NULL;
}

static void read_line(struct operations_result *r, struct operations_kind *k, const char *line,
                      struct operations_progress *progress)
{
    char word[8] = "";
    int number = 0, used = 0;
    const char *finding = finding_of(line);
    if (finding && !*r->first_finding)
        text_clean(r->first_finding, sizeof r->first_finding, finding);
    if (finding && k->findings == 0)
        operations_add_failure(r, k, progress->at, finding);
    k->findings += finding != NULL;
    r->unsupported = r->unsupported || strstr(line, "Device not supported");
    progress->done = progress->done || strcmp(line, "done") == 0;
    if (sscanf(line, "%7s %d %n", word, &number, &used) != 2 || number < 0 || number >= r->list->n)
        return;
    const char *form = line + used, *colon = strstr(form, ": "), *why = colon ? colon + 2 : "";
    if (strcmp(word, "at") == 0) {
        progress->at = number;
    } else if (strcmp(word, "pass") == 0) {
        k->passed++;
    } else if (strcmp(word, "skip") == 0) {
        k->skipped++;
        if (!*k->skip)
            text_clean(k->skip, sizeof k->skip, why);
    } else if (strcmp(word, "FAIL") == 0 || strcmp(word, "OOM") == 0) {
        k->failed++;
        k->oom += *word == 'O';
        operations_add_failure(r, k, number, why);
    }
}

enum status operations_read_log(struct operations_result *r, struct operations_kind *k,
                                const char *path, struct operations_progress *progress)
{
    char *bytes, *rest, *line;
    size_t size;
    *progress = (struct operations_progress){.at = -1};
    TRY(file_read(path, LOG_MAX_BYTES, &bytes, &size));
    rest = bytes;
    while ((line = strsep(&rest, "\n")))
        read_line(r, k, line, progress);
    free(bytes);
    return STATUS_OK;
}

/* --- the report --- */

enum { OPERATIONS_SCHEMA = 1, COMMAND_SIZE = 256 };

/* Writes the command that runs only the case that failed. */
static void reproduce(const struct operations_config *c, const struct operations_failure *f,
                      char out[COMMAND_SIZE])
{
    const struct worker_config *w = &c->worker;
    char only[64];
    if (f->number >= 0)
        snprintf(only, sizeof only, "--case %d", f->number);
    else
        snprintf(only, sizeof only, "--only '%s '", f->kind);
    snprintf(out, COMMAND_SIZE,
             "ampscale selftest --operations --devices %s --threads %d%s%s%s%s%s%s %s", w->devices,
             w->threads, w->isa ? " --isa " : "", w->isa ? w->isa : "",
             w->conv_algorithm ? " --conv-algorithm " : "",
             w->conv_algorithm ? conv_algorithm_str(w->conv_algorithm) : "",
             c->sanitizer ? " --sanitizer " : "", c->sanitizer ? c->sanitizer : "", only);
}

static json_t *failure_json(const struct operations_config *c, const struct operations_result *r,
                            const struct operations_failure *f)
{
    char command[COMMAND_SIZE];
    reproduce(c, f, command);
    json_t *o =
        json_new("{s:s, s:s, s:s}", "kind", f->kind, "reason", f->reason, "reproduce", command);
    if (f->number >= 0) {
        json_put(o, "case", json_integer(f->number));
        json_put(o, "name", json_utf8(r->list->item[f->number].name));
    }
    return o;
}

static void report_json(const struct operations_config *c, const struct operations_result *r)
{
    const struct operations_kind *t = &r->total;
    json_t *kinds = json_array(), *failures = json_array();
    for (const struct operations_kind *k = r->kind; k < r->kind + r->n_kinds; k++)
        json_add(kinds, json_new("{s:s, s:i, s:i, s:i, s:i, s:f, s:s, s:s*}", "kind", k->name,
                                 "cases", k->cases, "passed", k->passed, "skipped", k->skipped,
                                 "failed", k->failed, "seconds", k->seconds, "ended", k->ended,
                                 "skip_reason", *k->skip ? k->skip : NULL));
    for (int i = 0; i < r->n_failures; i++)
        json_add(failures, failure_json(c, r, &r->failure[i]));
    json_t *o = json_new("{s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "record",
                         c->sanitizer ? "sanitizer" : "operations", "schema", OPERATIONS_SCHEMA,
                         "device", r->device, "cases", t->cases, "passed", t->passed, "skipped",
                         t->skipped, "failed", t->failed, "late", t->late, "crashed", t->crashed,
                         "every", c->worker.selection.every);
    if (c->sanitizer) {
        json_put(o, "tool", json_utf8(c->sanitizer));
        json_put(o, "findings", json_integer(t->findings));
        json_put(o, "first", json_utf8(r->first_finding));
    }
    json_put(o, "kinds", kinds);
    json_put(o, "failures", failures);
    json_print(o, c->out, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
}

static void report_lines(const struct operations_config *c, const struct operations_result *r)
{
    const struct operations_kind *t = &r->total;
    fprintf(c->out, "%s: %d kinds of operations, %d cases: %d passed, %d skipped, %d failed",
            r->device, r->n_kinds, t->cases, t->passed, t->skipped, t->failed);
    if (t->crashed || t->late)
        fprintf(c->out, "; kinds that crashed: %d, not done in time: %d", t->crashed, t->late);
    if (c->sanitizer)
        fprintf(c->out, "; %s: %d findings", c->sanitizer, t->findings);
    fputc('\n', c->out);
    for (int i = 0; i < r->n_kinds; i++) {
        const struct operations_kind *k = &r->kind[i];
        if (!c->verbose && strcmp(k->ended, "completed") == 0)
            continue;
        fprintf(c->out, "  %-22s %5d passed %5d skipped %5d failed %7.1f s  %s\n", k->name,
                k->passed, k->skipped, k->failed, k->seconds, k->ended);
        if (*k->skip)
            fprintf(c->out, "    first skipped: %s\n", k->skip);
    }
    for (int i = 0; i < r->n_failures; i++) {
        const struct operations_failure *f = &r->failure[i];
        char command[COMMAND_SIZE];
        reproduce(c, f, command);
        fprintf(c->out, "FAIL %s: %s\n     %s\n",
                f->number >= 0 ? r->list->item[f->number].name : f->kind, f->reason, command);
    }
    if (t->failed > r->n_failures)
        fprintf(c->out, "further failures are not printed: at most %d of each kind\n",
                OPERATIONS_FAILURES_OF_KIND);
}

void operations_report(const struct operations_config *c, const struct operations_result *r)
{
    if (c->json)
        report_json(c, r);
    else
        report_lines(c, r);
    fflush(c->out); /* before the verdict on stderr */
}
