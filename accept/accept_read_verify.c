/* Reads metrics of correctness: from the self-test, from tests of single operations, and from the
 * accuracy of training. */
#include "accept/accept_read.h"

#include "base/text.h"

#include <string.h>

/* Reads the number of cases, and the number of wrong cases. */
#define CASES                                                                                      \
    {                                                                                              \
        .rows = "cases", .needs = "case of the self-test",                                         \
        .column = COLUMNS({"", "cases", "", ACCEPT_HIGHER, .over = ACCEPT_ROWS},                   \
                          {"ok", "wrong", "", ACCEPT_LOWER, .over = ACCEPT_FALSE})                 \
    }

const struct accept_reading accept_read_selftest[] = {CASES, {0}};

const struct accept_reading accept_read_determinism[] = {
    CASES,
    {.rows = "cases",
     .column = COLUMNS({"bits", "bits_{arch}_{image_size}_{precision}", NULL},
                       {"difference", "difference_{arch}_{image_size}_{precision}", NULL})},
    {0}};

/* Adds the first failure as "KIND: NAME: REASON", such as "conv_fwd: 3x3, batch 2: 7 is 8". */
static enum status read_failure(const struct accept_output *o, struct accept_result *r)
{
    static const char *const part[] = {"failures.0.kind", "failures.0.name", "failures.0.reason"};
    char text[ACCEPT_VALUE_SIZE] = "";
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (*accept_read_text(o->json, part[i]))
            text_join(text, sizeof text, ": ", "%s", accept_read_text(o->json, part[i]));
    return *text ? accept_result_text(r, "first_failure", text) : STATUS_OK;
}

/* For each kind of operation whose process did not complete, adds how that process ended. */
static enum status read_ends(const struct accept_output *o, struct accept_result *r)
{
    const json_t *kinds = json_object_get(o->json, "kinds");
    for (size_t i = 0; i < json_array_size(kinds); i++)
        if (strcmp(accept_read_text(json_array_get(kinds, i), "ended"), "completed") != 0)
            TRY(accept_read_row(COLUMNS({"ended", "ended_{kind}", NULL}), json_array_get(kinds, i),
                                "", r));
    return STATUS_OK;
}

const struct accept_reading accept_read_operations[] = {
    {.column = COLUMNS(
         {"cases", "cases", "cases", ACCEPT_HIGHER}, {"passed", "passed", "cases", ACCEPT_HIGHER},
         {"skipped", "skipped", "cases", ACCEPT_LOWER}, {"failed", "wrong", "cases", ACCEPT_LOWER},
         {"crashed", "crashed", "kinds", ACCEPT_LOWER}, {"late", "late", "kinds", ACCEPT_LOWER})},
    {.read = read_failure},
    {.rows = "kinds", .column = COLUMNS({"passed", "passed_{kind}", "cases", ACCEPT_HIGHER})},
    {.read = read_ends},
    {0}};

const struct accept_reading accept_read_sanitizer[] = {
    {.column =
         COLUMNS({"tool", "tool", NULL}, {"cases", "cases", "cases", ACCEPT_HIGHER},
                 {"findings", "findings", "", ACCEPT_LOWER}, {"first", "first_finding", NULL})},
    {0}};

enum status accept_read_rung(const json_t *row, const char *of, struct accept_result *r)
{
    const json_t *falls = json_object_get(row, "falls");
    char name[ACCEPT_NAME_SIZE * 2];
    snprintf(name, sizeof name, "falls_%s", of);
    TRY(accept_read_row(COLUMNS({"rung", "rung_{}", NULL}), row, of, r));
    if (*accept_read_text(row, "rung"))
        TRY(accept_result_number(r, name, "", ACCEPT_LOWER, (double)json_array_size(falls)));
    return accept_read_row(COLUMNS({"why", "why_{}", NULL}),
                           *accept_read_text(row, "why") ? row : json_array_get(falls, 0), of, r);
}

/* Adds for each precision its validation top-1, the reference top-1 (the mean over seeds on a CPU),
 * their difference, and the rung (fallback level) that the precision ran on. */
static enum status read_precisions(const struct accept_output *o, struct accept_result *r)
{
    const json_t *rows = json_object_get(o->json, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *precision = accept_read_text(row, "precision");
        double off = accept_read_number(row, "val_top1") - accept_read_number(row, "cpu.mean");
        char name[ACCEPT_NAME_SIZE];
        if (!*precision)
            continue;
        snprintf(name, sizeof name, "off_cpu_%.16s", precision);
        TRY(accept_read_row(COLUMNS({"val_top1", "top1_{}", "%", ACCEPT_HIGHER},
                                    {"cpu.mean", "cpu_top1_{}", "%", ACCEPT_EVEN}),
                            row, precision, r));
        TRY(accept_result_number(r, name, "points", ACCEPT_EVEN, off));
        TRY(accept_read_rung(row, precision, r));
    }
    return json_array_size(rows) > 0 ? STATUS_OK
                                     : status_fail(STATUS_DATA, "no precision was measured");
}

const struct accept_reading accept_read_accuracy[] = {{.read = read_precisions}, {0}};
