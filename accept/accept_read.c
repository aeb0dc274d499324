/* Reads metrics from the JSON that a command printed; tables describe where each metric is. */
#include "accept/accept_read.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILLED_SIZE = 2 * ACCEPT_NAME_SIZE };

static const json_t *value_at(const json_t *value, const char *path)
{
    while (value && *path) {
        char key[ACCEPT_NAME_SIZE];
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
                                     : json_object_get(value, key);
        path += n + (path[n] == '.');
    }
    return value;
}

double accept_read_number(const json_t *object, const char *path)
{
    const json_t *value = value_at(object, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *accept_read_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(value_at(object, path));
    return text ? text : "";
}

/* Replaces each "{member}" in a metric's name by the row's member, and "{}" by `number`. Numbers
 * lose their decimals, and blanks become '_'. False if the row lacks a member. */
static bool fill_name(const char *name, const json_t *row, const char *number,
                      char out[FILLED_SIZE])
{
    *out = '\0';
    while (*name) {
        char key[ACCEPT_NAME_SIZE];
        size_t plain = strcspn(name, "{"), n = strcspn(name + plain, "}");
        text_append(out, FILLED_SIZE, "%.*s", (int)plain, name);
        name += plain;
        if (!*name)
            break;
        snprintf(key, sizeof key, "%.*s", (int)n - 1, name + 1);
        name += n + 1;
        const json_t *value = json_object_get(row, key);
        if (!*key)
            text_append(out, FILLED_SIZE, "%s", number);
        else if (json_is_string(value))
            text_append(out, FILLED_SIZE, "%s", json_string_value(value));
        else if (json_is_number(value))
            text_append(out, FILLED_SIZE, "%.0f", json_number_value(value));
        else
            return false;
    }
    for (char *c = out; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    return true;
}

static enum status add_value(const struct accept_column *c, double value, const char *name,
                             struct accept_result *r)
{
    return accept_result_number(r, name, c->unit, c->better,
                                value * (c->scale != 0 ? c->scale : 1));
}

enum status accept_read_row(const struct accept_column *c, const json_t *row, const char *number,
                            struct accept_result *r)
{
    for (; c->name; c++) {
        char name[FILLED_SIZE];
        const char *text = accept_read_text(row, c->path);
        if (c->over != ACCEPT_EACH || !fill_name(c->name, row, number, name))
            continue;
        if (c->unit)
            TRY(add_value(c, accept_read_number(row, c->path), name, r));
        else if (*text)
            TRY(accept_result_text(r, name, text));
    }
    return STATUS_OK;
}

static bool has_names(const struct accept_column *c, const json_t *row)
{
    char name[FILLED_SIZE];
    for (; c->name; c++)
        if (!fill_name(c->name, row, "", name))
            return false;
    return true;
}

/* Reduces a column to one number. Ignores a row that lacks a member used in a metric's name. */
static double over_rows(const struct accept_column *c, const struct accept_column *all,
                        const json_t *rows)
{
    double sum = c->over == ACCEPT_LEAST ? INFINITY : 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double x = accept_read_number(row, c->path);
        bool is_true = json_is_true(value_at(row, c->path));
        if (!has_names(all, row))
            continue;
        if (c->over == ACCEPT_LEAST)
            sum = isnan(x) || isnan(sum) ? NAN : fmin(sum, x);
        else
            sum += c->over == ACCEPT_SUM    ? x
                   : c->over == ACCEPT_ROWS ? 1
                                            : is_true == (c->over == ACCEPT_TRUE);
    }
    return sum;
}

static enum status read_table(const struct accept_reading *t, const json_t *rows,
                              struct accept_result *r)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char number[24];
        const json_t *row = json_array_get(rows, i);
        if (!has_names(t->column, row))
            continue;
        n++;
        snprintf(number, sizeof number, "%02zu", i + 1);
        TRY(accept_read_row(t->column, row, number, r));
    }
    if (n == 0 && t->needs)
        return status_fail(STATUS_DATA, "the output has no %s", t->needs);
    for (const struct accept_column *c = t->column; n > 0 && c->name; c++)
        if (c->over != ACCEPT_EACH)
            TRY(add_value(c, over_rows(c, t->column, rows), c->name, r));
    return STATUS_OK;
}

enum status accept_read(const struct accept_reading *reading, const struct accept_output *output,
                        struct accept_result *r)
{
    for (; reading->read || reading->column; reading++)
        if (reading->read)
            TRY(reading->read(output, r));
        else if (reading->rows)
            TRY(read_table(reading, value_at(output->json, reading->rows), r));
        else
            TRY(accept_read_row(reading->column, output->json, "", r));
    return STATUS_OK;
}
