/* Records that are one JSON object. */
#include "report/sections.h"

#include "results/text.h"

#include <math.h>
#include <string.h>

static double number_at(const json_t *object, const char *key, const char *inner)
{
    const json_t *value = json_object_get(object, key);
    value = inner ? json_object_get(value, inner) : value;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void overlap(struct writer *w, const char *name, const json_t *record)
{
    static const char *const headings[] = {">bucket MiB", ">buckets",    ">gradients complete ms",
                                           ">busy ms",    ">exposed ms", ">hidden %",
                                           ">images/s"};
    struct table t = table_begin(7, headings);
    const json_t *rows = json_object_get(record, "sizes"),
                 *config = json_object_get(record, "config");
    size_t ranks = json_array_size(json_object_get(record, "ranks"));
    char net[64], command[256];
    text_clean(net, sizeof net,
               json_is_string(json_object_get(config, "net"))
                   ? json_string_value(json_object_get(config, "net"))
                   : "?");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double mb = number_at(row, "bucket_mb", NULL);
        if (mb == 0)
            table_add(&t, "all in one");
        else
            table_add_number(&t, mb, 2);
        table_add_number(&t, number_at(row, "buckets", NULL), 0);
        table_add_number(&t, 1000 * number_at(row, "gradients_s", "median"), 0);
        table_add_number(&t, 1000 * number_at(row, "busy_s", "median"), 0);
        table_add_number(&t, 1000 * number_at(row, "exposed_s", "median"), 0);
        table_add_number(&t, 100 * number_at(row, "hidden", "median"), 1);
        table_add_amount(&t, number_at(row, "images_per_s", NULL));
    }
    writer_heading(w, 3, "Communication beside the backward pass: %s", name);
    writer_paragraph(w,
                     "Reduction of the %.1f MiB of gradients of %s over %zu ranks, by the size of "
                     "buckets; medians over %.0f rounds. The backward pass without partners takes "
                     "%.0f ms.",
                     number_at(record, "gradient_bytes", NULL) / (1 << 20), net, ranks,
                     number_at(config, "rounds", NULL),
                     1000 * number_at(json_object_get(record, "alone"), "backward_s", "median"));
    snprintf(command, sizeof command,
             "ampscale launch --nproc %zu -- bench overlap --net %s -b %.0f --image-size %.0f "
             "--rounds %.0f --json",
             ranks, net, number_at(config, "batch_size", NULL),
             number_at(config, "image_size", NULL), number_at(config, "rounds", NULL));
    writer_code(w, command);
    writer_table(w, &t);
}

static void add_value(struct table *t, const json_t *value)
{
    char text[512];
    if (json_is_number(value)) {
        table_add(t, "%.6g", json_number_value(value));
        return;
    }
    text_clean(text, sizeof text, json_is_string(value) ? json_string_value(value) : "");
    table_add(t, "%s", text);
}

/* A list of objects, whose keys are the columns. */
static void rows_of(struct writer *w, const json_t *record, const char *key)
{
    enum { MOST = 16 };
    const char *columns[MOST], *name;
    const json_t *rows = json_object_get(record, key), *first = json_array_get(rows, 0);
    json_t *value;
    char names[MOST][64];
    int n = 0;
    json_object_foreach((json_t *)first, name, value)
    {
        if (n == MOST)
            break;
        text_clean(names[n], sizeof names[n], name);
        columns[n++] = name;
    }
    if (n == 0)
        return;
    struct table t = table_begin(n, NULL);
    for (int i = 0; i < n; i++)
        table_add(&t, "%s", names[i]);
    for (size_t r = 0; r < json_array_size(rows); r++)
        for (int i = 0; i < n; i++)
            add_value(&t, json_object_get(json_array_get(rows, r), columns[i]));
    writer_heading(w, 4, "%s", key);
    writer_table(w, &t);
}

static void gpu_check(struct writer *w, const char *name, const json_t *record)
{
    const char *text = json_string_value(json_object_get(record, "description"));
    char clean[512];
    text_clean(clean, sizeof clean, text ? text : "");
    writer_heading(w, 3, "Acceptance of a GPU: %s", name);
    if (*clean)
        writer_paragraph(w, "%s", clean);
    rows_of(w, record, "steps");
    rows_of(w, record, "accuracy");
    rows_of(w, record, "throughput");
}

bool section_record(struct writer *w, const char *name, const json_t *record)
{
    const char *bench = json_string_value(json_object_get(record, "bench"));
    const char *kind = json_string_value(json_object_get(record, "kind"));
    if (bench && strcmp(bench, "overlap") == 0)
        overlap(w, name, record);
    else if (kind && strcmp(kind, "gpu-check") == 0)
        gpu_check(w, name, record);
    else
        return false;
    return true;
}
