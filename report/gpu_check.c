/* A check of a GPU: what scripts/gpu-check recorded. */
#include "report/sections.h"

#include "results/text.h"

#include <math.h>
#include <string.h>

/* The text at a key; "" where there is none. */
static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void paragraph_of(struct writer *w, const char *before, const json_t *record,
                         const char *key)
{
    char text[1024];
    text_clean(text, sizeof text, text_at(record, key));
    if (*text)
        writer_paragraph(w, "%s%s", before, text);
}

/* ---- throughput ---- */

static bool same_work(const json_t *a, const json_t *b)
{
    return strcmp(text_at(a, "precision"), text_at(b, "precision")) == 0 &&
           section_number(a, "batch") == section_number(b, "batch");
}

static bool is_peer(const json_t *row)
{
    return strncmp(text_at(row, "who"), "PyTorch", strlen("PyTorch")) == 0;
}

/* Images/s of the fastest of PyTorch's ways to do the same; NAN where none was timed. */
static double fastest_peer(const json_t *rows, const json_t *row)
{
    double best = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);
        if (is_peer(other) && same_work(other, row))
            best = fmax(best, section_number(other, "images_per_s"));
    }
    return best;
}

/* Seconds that a step of the same takes at the peaks; NAN where its operations were not timed. */
static double bound_of(const json_t *record, const json_t *row)
{
    const json_t *list = json_object_get(record, "roofline");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *operations;
        operations = json_object_get(one, "operations");
        if (!same_work(one, row) || strcmp(text_at(one, "net"), text_at(record, "net")) != 0)
            continue;
        for (size_t k = 0; k < json_array_size(operations); k++)
            if (strcmp(text_at(json_array_get(operations, k), "op"), "all") == 0)
                return 1e-3 * section_number(json_array_get(operations, k), "bound_ms");
    }
    return NAN;
}

static void add_throughput(struct table *t, const json_t *record, const json_t *rows,
                           const json_t *row)
{
    char text[64];
    double rate = section_number(row, "images_per_s"), batch = section_number(row, "batch");
    text_clean(text, sizeof text, text_at(row, "precision"));
    table_add(t, "%s", text);
    table_add_number(t, batch, 0);
    text_clean(text, sizeof text, text_at(row, "who"));
    table_add(t, "%s", text);
    table_add_amount(t, rate);
    table_add_amount(t, section_number(row, "lowest"));
    table_add_amount(t, section_number(row, "highest"));
    table_add_number(t, section_number(row, "rounds"), 0);
    table_add_number(t, is_peer(row) ? NAN : rate / fastest_peer(rows, row), 2);
    table_add_number(t, is_peer(row) ? NAN : 100 * bound_of(record, row) * rate / batch, 1);
}

static void throughput(struct writer *w, const json_t *record)
{
    static const char *const headings[] = {"precision", ">batch",         "",
                                           ">images/s", ">lowest",        ">highest",
                                           ">rounds",   ">times PyTorch", ">% of roofline"};
    const json_t *rows = json_object_get(record, "throughput");
    struct table t = table_begin(9, headings);
    char net[64];
    if (json_array_size(rows) == 0) {
        table_free(&t);
        return;
    }
    for (size_t i = 0; i < json_array_size(rows); i++)
        add_throughput(&t, record, rows, json_array_get(rows, i));
    text_clean(net, sizeof net, text_at(record, "net"));
    writer_paragraph(w,
                     "Training %s on images of %.0f px, in turns with PyTorch, which has its "
                     "images on the device already: images per second, medians of the rounds. "
                     "'Times PyTorch' is the ratio to the fastest of its ways at the same "
                     "precision and batch. The share of the roofline is the least time that the "
                     "measured peaks allow the step's operations, over the time of a step.",
                     net, section_number(record, "image_size"));
    writer_table(w, &t);
}

/* ---- the whole ---- */

static void rooflines(struct writer *w, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        char net[64], precision[64];
        text_clean(net, sizeof net, text_at(one, "net"));
        text_clean(precision, sizeof precision, text_at(one, "precision"));
        writer_paragraph(w, "A step of %s in %s, batch %.0f, against this device's peaks:", net,
                         precision, section_number(one, "batch"));
        section_rows(w, one, "operations");
    }
}

void section_gpu_check(struct writer *w, const char *name, const json_t *record)
{
    char command[512];
    writer_heading(w, 3, "Check of a GPU: %s", name);
    paragraph_of(w, "", record, "description");
    paragraph_of(w, "The driver's tool says: ", record, "facts");
    paragraph_of(w, "Beside it: ", record, "peer");
    text_clean(command, sizeof command, text_at(record, "command"));
    if (*command)
        writer_code(w, command);
    section_rows(w, record, "steps");
    throughput(w, record);
    rooflines(w, json_object_get(record, "roofline"));
    section_rows(w, record, "accuracy");
}
