/* Records that are one JSON object. */
#include "report/sections.h"

#include "results/text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

double section_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void text_at(const json_t *object, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    text_clean(out, size, text ? text : "");
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
    text_at(config, "net", net, sizeof net);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double mb = section_number(row, "bucket_mb");
        if (mb == 0)
            table_add(&t, "all in one");
        else
            table_add_number(&t, mb, 2);
        table_add_number(&t, section_number(row, "buckets"), 0);
        table_add_number(&t, 1000 * section_number(json_object_get(row, "gradients_s"), "median"),
                         0);
        table_add_number(&t, 1000 * section_number(json_object_get(row, "busy_s"), "median"), 0);
        table_add_number(&t, 1000 * section_number(json_object_get(row, "exposed_s"), "median"), 0);
        table_add_number(&t, 100 * section_number(json_object_get(row, "hidden"), "median"), 1);
        table_add_amount(&t, section_number(row, "images_per_s"));
    }
    writer_heading(w, 3, "Communication/backward overlap: %s", name);
    writer_paragraph(
        w,
        "Reduction of the %.1f MiB of gradients of %s over %zu ranks, by the size of "
        "buckets; medians over %.0f rounds. The backward pass without partners takes "
        "%.0f ms.",
        section_number(record, "gradient_bytes") / (1 << 20), net, ranks,
        section_number(config, "rounds"),
        1000 * section_number(json_object_get(json_object_get(record, "alone"), "backward_s"),
                              "median"));
    snprintf(command, sizeof command,
             "ampscale launch --nproc %zu -- bench overlap --net %s -b %.0f --image-size %.0f "
             "--rounds %.0f --json",
             ranks, net, section_number(config, "batch_size"), section_number(config, "image_size"),
             section_number(config, "rounds"));
    writer_code(w, command);
    writer_table(w, &t);
}

static void add_value(struct table *t, const json_t *value)
{
    char text[512];
    double x = json_number_value(value);
    if (json_is_number(value)) {
        table_add_number(t, x, x == floor(x) ? 0 : 4);
        return;
    }
    text_clean(text, sizeof text, json_is_string(value) ? json_string_value(value) : "");
    table_add(t, "%s", text);
}

void section_rows(struct writer *w, const json_t *record, const char *key)
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
    writer_paragraph(w, "%c%s:", toupper((unsigned char)*key), key + 1);
    writer_table(w, &t);
}

static void peak(struct writer *w, const char *name, const json_t *record)
{
    char text[512];
    writer_heading(w, 3, "Peaks of a device: %s", name);
    text_at(record, "device", text, sizeof text);
    writer_paragraph(w, "%s", text);
    writer_code(w, "ampscale bench peak --json");
    section_rows(w, record, "copy");
    section_rows(w, record, "flops");
}

/* What a record of peers has in turns: ours, and whose. */
static const struct peer_sides {
    const char *bench, *ours, *theirs;
} peer_sides[] = {
    {"memory", "'bench memory'", "STREAM's loops compiled by themselves"},
    {"conv", "'bench conv'", "the fastest way of calling oneDNN directly"},
    {"gemm", "'bench gemm'", "the fastest way of calling oneDNN directly"},
    {"step", "Training steps of ampscale",
     "those of PyTorch, eager or by torch.compile, whichever is faster, channels last and with "
     "memory that it keeps from step to step"},
};

/* Something in turns with the library, the loops or the framework that does the same. */
static void peers(struct writer *w, const char *name, const json_t *record)
{
    char bench[64], device[512], peer[512], command[128];
    text_at(record, "bench", bench, sizeof bench);
    text_at(record, "device", device, sizeof device);
    text_at(record, "peer", peer, sizeof peer);
    struct peer_sides sides = {bench, bench, "its peer"};
    for (size_t i = 0; i < sizeof peer_sides / sizeof *peer_sides; i++)
        if (strcmp(bench, peer_sides[i].bench) == 0)
            sides = peer_sides[i];
    writer_heading(w, 3, "Beside what it measures: %s", name);
    writer_paragraph(w, "%s", device);
    writer_paragraph(
        w,
        "%s and %s%s%s%s, in turns: medians of %.0f rounds on %.0f threads, and the "
        "ratio in time, with its least and most of any round; above 1 is slower. A row "
        "is slower when every round of it is above %.2f: %s.",
        sides.ours, sides.theirs, *peer ? " (" : "", peer, *peer ? ")" : "",
        section_number(record, "rounds"), section_number(record, "threads"),
        section_number(record, "limit"),
        json_is_true(json_object_get(record, "passed")) ? "none is" : "some are");
    snprintf(command, sizeof command, "tests/peers/bench_peers.py %s build/release", bench);
    writer_code(w, command);
    section_rows(w, record, "rows");
}

static const struct {
    const char *key, *value; /* that a record of the kind has */
    void (*tell)(struct writer *w, const char *name, const json_t *record);
} kinds[] = {
    {"bench", "overlap", overlap},
    {"bench", "peak", peak},
    {"record", "accept", section_accept},
    {"kind", "gate-quality", section_gate_quality},
    {"kind", "peers", peers},
};

record_section *section_of_record(const json_t *record)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *value = json_string_value(json_object_get(record, kinds[i].key));
        if (value && strcmp(value, kinds[i].value) == 0)
            return kinds[i].tell;
    }
    return NULL;
}
