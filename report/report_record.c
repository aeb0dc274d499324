/* Writes the sections of records that are one JSON object. */
#include "report/report_sections.h"

#include "base/json.h"
#include "base/text_new.h"
#include "base/words.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes the command <before><word><after>, with the record's `word` quoted for a shell. */
static void write_command(struct writer *w, const char *before, const char *word, const char *after)
{
    struct text_stream s;
    enum status st = text_stream_open(&s);
    if (st == STATUS_OK) {
        fputs(before, s.out);
        shell_word(s.out, word);
        fputs(after, s.out);
        st = text_stream_close(&s);
    }
    if (st == STATUS_OK)
        writer_code(w, s.text);
    else
        w->st = st;
    free(s.text);
}

static void overlap_headline(struct writer *w, const json_t *rows)
{
    double most = NAN, mb = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double hidden = json_number_at(json_object_get(row, "hidden"), "median");
        if (!(most >= hidden)) {
            most = hidden;
            mb = json_number_at(row, "bucket_mb");
        }
    }
    if (!isfinite(most))
        return;
    if (mb > 0)
        writer_headline(w, "Up to %.0f %% of the communication is hidden, with buckets of %g MiB.",
                        100 * most, mb);
    else
        writer_headline(w, "Up to %.0f %% of the communication is hidden, with one bucket.",
                        100 * most);
}

static void overlap(struct writer *w, const char *name, const json_t *record)
{
    struct table t = table_begin(
        ">bucket MiB|>buckets|>gradients complete ms|>busy ms|>exposed ms|>hidden %|>images/s");
    const json_t *rows = json_object_get(record, "sizes"),
                 *config = json_object_get(record, "config");
    size_t ranks = json_array_size(json_object_get(record, "ranks"));
    const char *net = json_text_at(config, "net");
    char before[64], after[128];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double mb = json_number_at(row, "bucket_mb");
        if (mb == 0)
            table_add(&t, "all in one");
        else
            table_add_number(&t, mb, 2);
        table_add_number(&t, json_number_at(row, "buckets"), 0);
        table_add_number(&t, 1000 * json_number_at(json_object_get(row, "gradients_s"), "median"),
                         0);
        table_add_number(&t, 1000 * json_number_at(json_object_get(row, "busy_s"), "median"), 0);
        table_add_number(&t, 1000 * json_number_at(json_object_get(row, "exposed_s"), "median"), 0);
        table_add_number(&t, 100 * json_number_at(json_object_get(row, "hidden"), "median"), 1);
        table_add_amount(&t, json_number_at(row, "images_per_s"));
    }
    writer_heading(w, 3, "Communication/backward overlap: %s", name);
    overlap_headline(w, rows);
    writer_paragraph(
        w,
        "Reduction of %.1f MiB of gradients of %s over %zu ranks, by bucket size; medians over "
        "%.0f rounds. The backward pass without communication takes %.0f ms.",
        json_number_at(record, "gradient_bytes") / (1 << 20), net, ranks,
        json_number_at(config, "rounds"),
        1000 * json_number_at(json_object_get(json_object_get(record, "alone"), "backward_s"),
                              "median"));
    snprintf(before, sizeof before, "ampscale launch --nproc %zu -- bench overlap --net ", ranks);
    snprintf(after, sizeof after, " -b %.0f --image-size %.0f --rounds %.0f --json",
             json_number_at(config, "batch_size"), json_number_at(config, "image_size"),
             json_number_at(config, "rounds"));
    write_command(w, before, net, after);
    writer_table(w, &t);
}

static void add_value(struct table *t, const json_t *value)
{
    const char *text = json_string_value(value);
    double x = json_number_value(value);
    if (json_is_number(value)) {
        table_add_number(t, x, x == floor(x) ? 0 : 4);
        return;
    }
    table_add(t, "%s", text ? text : "");
}

void section_rows(struct writer *w, const json_t *record, const char *key)
{
    enum { MOST = 16 };
    const char *columns[MOST], *name;
    const json_t *rows = json_object_get(record, key), *first = json_array_get(rows, 0);
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)first, name, value)
    {
        if (n == MOST)
            break;
        columns[n++] = name;
    }
    if (n == 0)
        return;
    struct table t = {.columns = n};
    for (int i = 0; i < n; i++)
        table_add(&t, "%s", columns[i]);
    for (size_t r = 0; r < json_array_size(rows); r++)
        for (int i = 0; i < n; i++)
            add_value(&t, json_object_get(json_array_get(rows, r), columns[i]));
    writer_paragraph(w, "%c%s:", toupper((unsigned char)*key), key + 1);
    writer_table(w, &t);
}

static void peak(struct writer *w, const char *name, const json_t *record)
{
    writer_heading(w, 3, "Peaks of a device: %s", name);
    writer_summary(w, "%s", json_text_at(record, "device"));
    writer_paragraph(w, "%s", json_text_at(record, "device"));
    writer_code(w, "ampscale bench peak --json");
    section_rows(w, record, "copy");
    section_rows(w, record, "flops");
}

/* The names, in a report, of a benchmark and of its reference program. */
static const struct peer_sides {
    const char *bench, *ours, *theirs;
} peer_sides[] = {
    {"memory", "'bench memory'", "a separate program with STREAM's loops"},
    {"conv", "'bench conv'", "oneDNN called directly in its fastest way"},
    {"gemm", "'bench gemm'", "oneDNN called directly in its fastest way"},
};

static void peers_headline(struct writer *w, const json_t *record, const struct peer_sides *sides)
{
    const json_t *rows = json_object_get(record, "rows");
    double least = INFINITY, most = -INFINITY, limit = json_number_at(record, "limit");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        least = fmin(least, json_number_at(json_array_get(rows, i), "ratio"));
        most = fmax(most, json_number_at(json_array_get(rows, i), "ratio"));
    }
    if (least <= most)
        writer_headline(w,
                        "%s takes %.2f to %.2f times the time of %s; %s row is above %.2f in every "
                        "round.",
                        sides->ours, least, most, sides->theirs,
                        json_is_true(json_object_get(record, "passed")) ? "no" : "some", limit);
}

/* Writes the section of a benchmark that took turns with a reference: a library or a program that
 * does the same work. */
static void peers(struct writer *w, const char *name, const json_t *record)
{
    const char *bench = json_text_at(record, "bench"), *peer = json_text_at(record, "peer");
    struct peer_sides sides = {bench, bench, "the reference program"};
    for (size_t i = 0; i < sizeof peer_sides / sizeof *peer_sides; i++)
        if (strcmp(bench, peer_sides[i].bench) == 0)
            sides = peer_sides[i];
    writer_heading(w, 3, "Comparison with a reference program: %s", name);
    peers_headline(w, record, &sides);
    writer_paragraph(w, "%s", json_text_at(record, "device"));
    writer_paragraph(
        w,
        "%s and %s%s%s%s, in turns: medians of %.0f rounds on %.0f threads, and the "
        "ratio of times with its minimum and maximum over the rounds; a ratio "
        "above 1 means slower. A row counts as slower if its ratio is above %.2f in every "
        "round: %s.",
        sides.ours, sides.theirs, *peer ? " (" : "", peer, *peer ? ")" : "",
        json_number_at(record, "rounds"), json_number_at(record, "threads"),
        json_number_at(record, "limit"),
        json_is_true(json_object_get(record, "passed")) ? "no row does" : "some rows do");
    write_command(w, "tests/peers/bench_peers.py ", bench, " build/release");
    section_rows(w, record, "rows");
}

static const struct {
    const char *key, *value; /* a record of this kind has `key` with this value */
    void (*write)(struct writer *w, const char *name, const json_t *record);
} kinds[] = {
    {"bench", "overlap", overlap},
    {"bench", "peak", peak},
    {"record", "accept", section_accept},
    {"kind", "gate-quality", section_gate_quality},
    {"kind", "peers", peers},
    {"kind", "peer-pairs", section_peer_pairs},
    {"kind", "peer-accuracy", section_peer_accuracy},
};

record_section *section_of_record(const json_t *record)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *value = json_string_value(json_object_get(record, kinds[i].key));
        if (value && strcmp(value, kinds[i].value) == 0)
            return kinds[i].write;
    }
    return NULL;
}
