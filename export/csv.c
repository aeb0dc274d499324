/* Writes tables of steps, epochs, ranks and telemetry by RFC 4180: lines end in CRLF. */
#include "base/file.h"
#include "base/text.h"
#include "export/formats.h"

#include <string.h>

/* An output file, and the members of struct run that contain its rows. */
struct table {
    const char *file;
    const struct schema *schema;
    size_t size;        /* size of a row, bytes */
    size_t rows, count; /* offsets in struct run of two members: the pointer to the rows, and the
                         * number of rows */
};

#define TABLE(file, name, n)                                                                       \
    {                                                                                              \
        file, &name##_schema, sizeof(struct name##_record), offsetof(struct run, name),            \
            offsetof(struct run, n)                                                                \
    }

static void put_rows(FILE *out, const struct table *t, const struct run *run, const char *name)
{
    int64_t n;
    const char *row;
    memcpy(&row, (const char *)run + t->rows, sizeof row);
    memcpy(&n, (const char *)run + t->count, sizeof n);
    for (int64_t i = 0; i < n; i++, row += t->size) {
        text_print_csv(out, name);
        for (int k = 0; k < t->schema->n; k++) {
            const struct field *f = &t->schema->field[k];
            char number[SCHEMA_NUMBER_MAX] = "";
            if (!f->unmeasured || !schema_is_absent(f, row))
                schema_number(f, row, number);
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
        put_rows(f.stream, t, run[i], export_name(o, run[i]));
    return export_put(o, &f);
}

enum status export_csv(const struct run *const *run, int n, const struct export_options *o)
{
    static const struct table tables[] = {
        TABLE("steps.csv", step, n_steps),
        TABLE("epochs.csv", epoch, n_epochs),
        TABLE("ranks.csv", rank, n_ranks),
        TABLE("telemetry.csv", telemetry, n_telemetry),
    };
    TRY(dir_make(o->out));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        TRY(put_table(&tables[i], run, n, o));
    return STATUS_OK;
}
