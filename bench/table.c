/* Prints tables as text, CSV and Markdown, and keeps them as JSON. */
#include "bench/table.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void run_columns(struct bench_table *t, const void *row)
{
    t->absent = false;
    t->cells = 0;
    t->columns(t, row);
}

static void print_line(struct bench_table *t, const void *row)
{
    bar_erase(t->bar);
    run_columns(t, row);
    fputs(t->format == BENCH_MARKDOWN ? " |\n" : "\n", t->out);
    for (int i = 0; t->heading && t->format == BENCH_MARKDOWN && i < t->cells; i++)
        fputs(i + 1 < t->cells ? "|---" : "|---|\n", t->out);
    fflush(t->out);
}

void bench_table_open(struct bench_table *t, const void *blank)
{
    if (t->format == BENCH_JSON) {
        t->rows = json_array();
        return;
    }
    t->heading = true;
    print_line(t, blank);
    t->heading = false;
}

void bench_table_row(struct bench_table *t, const void *row)
{
    if (t->format != BENCH_JSON) {
        print_line(t, row);
        return;
    }
    t->object = t->row = json_object();
    run_columns(t, row);
    json_add(t->rows, t->row);
}

void bench_table_rows(struct bench_table *t, const void *rows, int n, size_t size)
{
    if (n > 0 || t->format == BENCH_JSON)
        bench_table_open(t, rows);
    for (int i = 0; i < n; i++)
        bench_table_row(t, (const char *)rows + (size_t)i * size);
}

json_t *bench_table_take(struct bench_table *t)
{
    json_t *rows = t->rows;
    t->rows = NULL;
    return rows;
}

void bench_table_close(struct bench_table *t)
{
    json_decref(t->rows);
    t->rows = NULL;
}

/* --- cells --- */

/* Prints a cell as text or Markdown; `title` is the heading of its column. */
static void print_cell(struct bench_table *t, const char *title, int width, const char *value)
{
    int needed = (int)strlen(title), least = abs(width) > needed ? abs(width) : needed;
    const char *cell = t->heading ? title : t->absent ? "n/a" : *value ? value : "-";
    if (t->format == BENCH_MARKDOWN)
        fprintf(t->out, "%s| %s", t->cells ? " " : "", cell);
    else if (width == 0)
        fprintf(t->out, "%s%s", t->cells ? "  " : "", cell);
    else
        fprintf(t->out, "%s%*s", t->cells ? " " : "", width < 0 ? -least : least, cell);
    t->cells++;
}

/* Prints a cell as CSV. Does not print numbers with text_print_csv, which would mark a number such
 * as `-1` as a formula. */
static void print_csv(struct bench_table *t, const char *name, const char *value, bool is_text)
{
    if (t->cells++ > 0)
        fputc(',', t->out);
    if (t->heading)
        fputs(name, t->out);
    else if (is_text && !t->absent)
        text_print_csv(t->out, value);
    else if (!t->absent)
        fputs(value, t->out);
}

/* Prints a cell or, if the format is JSON, keeps it. `json` is the cell's value, NULL in other
 * formats. */
static void put(struct bench_table *t, const char *name, const char *heading, int width,
                const char *value, bool is_text, json_t *json)
{
    if (t->format == BENCH_JSON)
        column_json(t, name, json);
    else if (t->format == BENCH_CSV && name)
        print_csv(t, name, value, is_text);
    else if (t->format != BENCH_CSV && heading)
        print_cell(t, heading, width, value);
}

void column_text(struct bench_table *t, const char *name, const char *heading, int width,
                 const char *value)
{
    char clean[TEXT_LINE_MAX];
    text_clean(clean, sizeof clean, value ? value : ""); /* NULL: not shown in this table */
    put(t, name, heading, width, clean, true, t->format == BENCH_JSON ? json_utf8(value) : NULL);
}

void column_int(struct bench_table *t, const char *name, const char *heading, int width,
                int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    put(t, name, heading, width, text, false, t->format == BENCH_JSON ? json_integer(value) : NULL);
}

void column_real(struct bench_table *t, const char *name, const char *heading, int width,
                 int digits, double scale, double value)
{
    char text[64];
    if (t->format == BENCH_JSON)
        text[0] = '\0';
    else if (isnan(value))
        snprintf(text, sizeof text, "%s", t->format == BENCH_CSV ? "" : "n/a");
    else if (t->format != BENCH_CSV)
        snprintf(text, sizeof text, "%.*f", digits, value * scale);
    else
        snprintf(text, sizeof text, "%.9g", value);
    put(t, name, heading, width, text, false, t->format == BENCH_JSON ? json_finite(value) : NULL);
}

void bench_table_remarks(struct bench_table *t, const struct host_noise *noise, double share,
                         char text[BENCH_REMARKS_MAX])
{
    char why[NOISE_TEXT_MAX];
    bool disturbed = host_noise_judge(noise, why), shown = disturbed && noise != t->noise;
    bool above = share > BENCH_SHARE_MAX;
    t->judged++;
    t->disturbed += disturbed;
    t->above += above;
    snprintf(text, BENCH_REMARKS_MAX, "%s%s%s%s", shown ? "disturbed: " : "", shown ? why : "",
             shown && above ? "; " : "", above ? "above the measured peak" : "");
}

void column_noise(struct bench_table *t, const struct host_noise *noise, double share)
{
    static const struct host_noise unknown = {.others = NAN, .steal = NAN};
    const struct host_noise *n = noise ? noise : t->noise ? t->noise : &unknown;
    char remarks[BENCH_REMARKS_MAX] = "", why[NOISE_TEXT_MAX];
    if (!t->heading && (n != &unknown || !isnan(share)))
        bench_table_remarks(t, n, share, remarks);
    if (t->format == BENCH_CSV) {
        column_real(t, "others", NULL, 0, 0, 1, n->others);
        column_real(t, "steal", NULL, 0, 0, 1, n->steal);
        column_bool(t, "disturbed", host_noise_judge(n, why));
    }
    if (t->format == BENCH_MARKDOWN)
        column_text(t, NULL, "remarks", 0, remarks);
    else if (t->format == BENCH_TEXT && *remarks)
        fprintf(t->out, "  %s", remarks);
    if (t->format == BENCH_JSON && noise)
        column_json(t, "noise", host_noise_json(noise));
    if (!isnan(share))
        column_json(t, "above_peak", json_boolean(share > BENCH_SHARE_MAX));
}

void column_bool(struct bench_table *t, const char *name, bool value)
{
    put(t, name, NULL, 0, value ? "1" : "0", false,
        t->format == BENCH_JSON ? json_boolean(value) : NULL);
}

void column_json(struct bench_table *t, const char *name, json_t *value)
{
    if (t->format != BENCH_JSON || t->absent || !name)
        json_decref(value);
    else
        json_put(t->object, name, value);
}

void column_group_begin(struct bench_table *t, const char *name)
{
    if (t->format != BENCH_JSON)
        return;
    t->object = json_object();
    json_put(t->row, name, t->object);
}

void column_group_end(struct bench_table *t)
{
    t->object = t->row;
}
