/* Tables of steps, epochs, ranks and telemetry, as RFC 4180 says: lines end in CRLF, a field with a
 * quote, a comma or a line end stands in quotes, and quotes in it are doubled. A text that a
 * spreadsheet would take for a formula has an apostrophe before it. */
#include "base/file.h"
#include "export/formats.h"

#include <string.h>

/* One of the record files: its rows in a run. */
struct table {
    const char *file;
    const struct schema *schema;
    size_t size; /* of a row */
    const void *(*rows)(const struct run *run, int64_t *n);
};

static const void *step_rows(const struct run *run, int64_t *n)
{
    *n = run->n_steps;
    return run->step;
}

static const void *epoch_rows(const struct run *run, int64_t *n)
{
    *n = run->n_epochs;
    return run->epoch;
}

static const void *rank_rows(const struct run *run, int64_t *n)
{
    *n = run->n_ranks;
    return run->rank;
}

static const void *telemetry_rows(const struct run *run, int64_t *n)
{
    *n = run->n_telemetry;
    return run->telemetry;
}

static void put_text(FILE *out, const char *text)
{
    bool quoted = strpbrk(text, "\",\r\n") != NULL;
    if (quoted)
        fputc('"', out);
    if (*text && strchr("=+-@\t", *text))
        fputc('\'', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    if (quoted)
        fputc('"', out);
}

static void put_rows(FILE *out, const struct table *t, const struct run *run)
{
    int64_t n;
    const char *row = t->rows(run, &n);
    for (int64_t i = 0; i < n; i++, row += t->size) {
        put_text(out, run->name);
        for (int k = 0; k < t->schema->n; k++) {
            char number[SCHEMA_NUMBER_MAX];
            schema_number(&t->schema->field[k], row, number);
            fprintf(out, ",%s", number);
        }
        fputs("\r\n", out);
    }
}

static enum status put_table(const struct table *t, const struct run *const *run, int n,
                             const struct export_options *o)
{
    char path[4096];
    struct atomic_file f;
    TRY(path_format(path, sizeof path, "%s/%s", o->out, t->file));
    TRY(atomic_file_open(&f, path));
    fputs("run", f.stream);
    for (int k = 0; k < t->schema->n; k++)
        fprintf(f.stream, ",%s", t->schema->field[k].name);
    fputs("\r\n", f.stream);
    for (int i = 0; i < n; i++)
        put_rows(f.stream, t, run[i]);
    return export_put(o, &f);
}

enum status export_csv(const struct run *const *run, int n, const struct export_options *o)
{
    static const struct table tables[] = {
        {"steps.csv", &step_schema, sizeof(struct step_record), step_rows},
        {"epochs.csv", &epoch_schema, sizeof(struct epoch_record), epoch_rows},
        {"ranks.csv", &rank_schema, sizeof(struct rank_record), rank_rows},
        {"telemetry.csv", &telemetry_schema, sizeof(struct telemetry_record), telemetry_rows},
    };
    TRY(dir_make(o->out));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        TRY(put_table(&tables[i], run, n, o));
    return STATUS_OK;
}
