/* Converts verdicts to words, numbers and XML. */
#include "results/verdict.h"

#include "base/file.h"
#include "base/json.h"
#include "base/xml.h"

#include <stdlib.h>

const char *verdict_str(enum verdict v)
{
    static const char *const word[] = {"PASS", "SKIP", "WARN", "MISSING", "FAIL"};
    return word[v];
}

int verdict_exit_code(const int count[VERDICTS], bool strict)
{
    if (count[VERDICT_FAIL] > 0 || (strict && count[VERDICT_WARN] > 0))
        return status_exit_code(STATUS_MISMATCH);
    if (count[VERDICT_MISSING] > 0 || count[VERDICT_PASS] + count[VERDICT_WARN] == 0)
        return status_exit_code(STATUS_DATA);
    return 0;
}

json_t *verdict_counts_json(const int count[VERDICTS])
{
    json_t *o = json_object();
    for (int v = 0; v < VERDICTS; v++)
        json_put(o, verdict_str((enum verdict)v), json_integer(count[v]));
    return o;
}

enum status junit_begin(struct junit *j)
{
    *j = (struct junit){.seconds = 0};
    return text_stream_open(&j->cases);
}

static void attribute(FILE *out, const char *name, const char *text)
{
    if (text)
        markup(out, xml_text, " %=\"%\"", name, text);
}

static void put_properties(FILE *out, const struct junit_case *c)
{
    int n = 0;
    for (int i = 0; i < c->properties; i++) {
        const struct junit_property *p = &c->property[i];
        if (!p->text || !*p->text)
            continue;
        fputs(n++ ? "" : "      <properties>\n", out);
        fputs("        <property", out);
        attribute(out, "name", p->name);
        attribute(out, "value", p->text);
        fputs("/>\n", out);
    }
    fputs(n ? "      </properties>\n" : "", out);
}

void junit_add(struct junit *j, const struct junit_case *c)
{
    static const char *const tag[] = {NULL, "skipped", NULL, "error", "failure"};
    FILE *out = j->cases.out;
    enum verdict v = c->verdict;
    j->count[v]++;
    j->seconds += c->seconds;
    fputs("    <testcase", out);
    attribute(out, "classname", c->class);
    attribute(out, "name", c->name);
    fprintf(out, " time=\"%.3f\">\n", c->seconds);
    put_properties(out, c);
    if (tag[v]) {
        fprintf(out, "      <%s", tag[v]);
        if (v != VERDICT_SKIP) /* JUnit's schema allows no attribute `type` in the element
                                * "skipped" */
            attribute(out, "type", c->type ? c->type : verdict_str(v));
        attribute(out, "message", c->message);
        fputs("/>\n", out);
    }
    if (c->message && *c->message)
        markup(out, xml_text, "      <system-out>%</system-out>\n", c->message);
    fputs("    </testcase>\n", out);
}

enum status junit_write(struct junit *j, const char *suite, const char *host, const char *time,
                        const char *path)
{
    struct atomic_file f;
    int tests = 0;
    for (int v = 0; v < VERDICTS; v++)
        tests += j->count[v];
    TRY(text_stream_close(&j->cases));
    enum status st = j->output ? output_file_open(&f, path) : atomic_file_open(&f, path);
    if (st == STATUS_OK) {
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", f.stream);
        attribute(f.stream, "name", suite);
        attribute(f.stream, "hostname", host);
        attribute(f.stream, "timestamp", time);
        fprintf(f.stream,
                " tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%.3f\">\n",
                tests, j->count[VERDICT_FAIL], j->count[VERDICT_MISSING], j->count[VERDICT_SKIP],
                j->seconds);
        fprintf(f.stream, "%s  </testsuite>\n</testsuites>\n", j->cases.text);
        st = atomic_file_commit(&f);
    }
    free(j->cases.text);
    return st;
}
