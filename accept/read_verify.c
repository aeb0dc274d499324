/* Metrics of checks that look at numbers: single operations, and what training reaches. */
#include "accept/read.h"

#include <math.h>
#include <string.h>

/* "conv_fwd: 3x3, batch 2: 7 is 8": the first of what failed. */
static enum status add_failure(const json_t *output, struct accept_result *r)
{
    static const char *const part[] = {"kind", "name", "reason"};
    const json_t *first = json_array_get(json_object_get(output, "failures"), 0);
    char text[ACCEPT_TEXT_SIZE] = "";
    for (size_t i = 0; first && i < sizeof part / sizeof *part; i++) {
        const char *word = json_string_value(json_object_get(first, part[i]));
        size_t used = strlen(text);
        if (word)
            snprintf(text + used, sizeof text - used, "%s%s", used ? ": " : "", word);
    }
    return *text ? accept_result_text(r, "first_failure", text) : STATUS_OK;
}

/* Of each kind of operation: cases that passed, and how its process ended where it did not end
 * well. */
static enum status add_kinds(const json_t *kinds, struct accept_result *r)
{
    size_t i;
    json_t *kind;
    json_array_foreach((json_t *)kinds, i, kind)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *op = json_string_value(json_object_get(kind, "kind"));
        const char *ended = json_string_value(json_object_get(kind, "ended"));
        if (!op)
            continue;
        snprintf(name, sizeof name, "passed_%.40s", op);
        TRY(accept_result_number(r, name, "cases", ACCEPT_HIGHER,
                                 accept_read_number(kind, "passed")));
        if (!ended || strcmp(ended, "completed") == 0)
            continue;
        snprintf(name, sizeof name, "ended_%.40s", op);
        TRY(accept_result_text(r, name, ended));
    }
    return STATUS_OK;
}

enum status accept_read_operations(const struct accept_spec *spec, const struct accept_check *check,
                                   const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    static const struct {
        const char *key, *name, *unit;
        enum accept_better better;
    } counts[] = {
        {"cases", "cases", "cases", ACCEPT_HIGHER},    {"passed", "passed", "cases", ACCEPT_HIGHER},
        {"skipped", "skipped", "cases", ACCEPT_LOWER}, {"failed", "wrong", "cases", ACCEPT_LOWER},
        {"crashed", "crashed", "kinds", ACCEPT_LOWER}, {"late", "late", "kinds", ACCEPT_LOWER}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        TRY(accept_result_number(r, counts[i].name, counts[i].unit, counts[i].better,
                                 accept_read_number(output, counts[i].key)));
    TRY(add_failure(output, r));
    return add_kinds(json_object_get(output, "kinds"), r);
}

enum status accept_read_sanitizer(const struct accept_spec *spec, const struct accept_check *check,
                                  const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    const char *tool = json_string_value(json_object_get(output, "tool"));
    const char *first = json_string_value(json_object_get(output, "first"));
    if (tool)
        TRY(accept_result_text(r, "tool", tool));
    TRY(accept_result_number(r, "cases", "cases", ACCEPT_HIGHER,
                             accept_read_number(output, "cases")));
    TRY(accept_result_number(r, "findings", "", ACCEPT_LOWER,
                             accept_read_number(output, "findings")));
    return first && *first ? accept_result_text(r, "first_finding", first) : STATUS_OK;
}

/* Validation top-1 of each precision, how far it is from the mean that a CPU reached, and what it
 * ran on. */
enum status accept_read_accuracy(const struct accept_spec *spec, const struct accept_check *check,
                                 const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(output, "rows"), i, row)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *precision = json_string_value(json_object_get(row, "precision"));
        const char *rung = json_string_value(json_object_get(row, "rung"));
        const char *why = json_string_value(json_object_get(row, "why"));
        const json_t *falls = json_object_get(row, "falls");
        double top1 = accept_read_number(row, "val_top1");
        double cpu = accept_read_number(json_object_get(row, "cpu"), "mean");
        if (!precision)
            continue;
        snprintf(name, sizeof name, "top1_%.16s", precision);
        TRY(accept_result_number(r, name, "%", ACCEPT_HIGHER, top1));
        snprintf(name, sizeof name, "cpu_top1_%.16s", precision);
        TRY(accept_result_number(r, name, "%", ACCEPT_EVEN, cpu));
        snprintf(name, sizeof name, "off_cpu_%.16s", precision);
        TRY(accept_result_number(r, name, "points", ACCEPT_EVEN, top1 - cpu));
        snprintf(name, sizeof name, "rung_%.16s", precision);
        TRY(rung ? accept_result_text(r, name, rung) : STATUS_OK);
        snprintf(name, sizeof name, "falls_%.16s", precision);
        TRY(rung ? accept_result_number(r, name, "", ACCEPT_LOWER, (double)json_array_size(falls))
                 : STATUS_OK);
        snprintf(name, sizeof name, "why_%.16s", precision);
        TRY(why && *why ? accept_result_text(r, name, why) : STATUS_OK);
    }
    return i > 0 ? STATUS_OK : status_fail(STATUS_DATA, "no precision was measured");
}
