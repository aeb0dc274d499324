/* Writes the sections of the records of scripts/peers. */
#include "report/report_sections.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Adds a cell such as "1.19 (1.18 to 1.20)", without the interval if there is none. */
static void add_with_interval(struct table *t, const json_t *of, const char *key)
{
    table_add_interval(t, json_number_at(of, key), json_number_at(of, "low"),
                       json_number_at(of, "high"));
}

void report_versions(char *out, size_t size, const json_t *versions)
{
    const char *name;
    json_t *version;
    *out = '\0';
    json_object_foreach((json_t *)versions, name, version)
    {
        const char *text = json_string_value(version);
        text_join(out, size, ", ", "%.64s %.64s", name, text ? text : "");
    }
}

/* Writes the machine, the program and the peers, and a list of the peers and pairs that are
 * absent, with the reason for each. */
static void add_programs(struct writer *w, const json_t *record)
{
    char versions[512];
    const char *name;
    json_t *why;
    struct table items = {0};
    report_versions(versions, sizeof versions, json_object_get(record, "peers"));
    writer_paragraph(w, "%s; ampscale %s (%s); %s.", json_text_at(record, "device"),
                     json_text_at(record, "version"), json_text_at(record, "build"),
                     *versions ? versions : "no peers");
    json_object_foreach(json_object_get(record, "absent"), name, why)
    {
        const char *text = json_string_value(why);
        table_add(&items, "Not measured: %s: %s.", name, text ? text : "");
    }
    if (items.n > 0)
        writer_list(w, &items);
    else
        table_free(&items);
}

static void pair_rows(struct table *t, const json_t *pair)
{
    const json_t *rows = json_object_get(pair, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        table_add(t, "%s", i == 0 ? json_text_at(pair, "pair") : "");
        table_add(t, "%s", json_text_at(row, "side"));
        table_add_amount(t, json_number_at(row, "median"));
        table_add_amount(t, json_number_at(row, "min"));
        table_add_amount(t, json_number_at(row, "max"));
        table_add(t, "%s", json_text_at(pair, "unit"));
        add_with_interval(t, row, "ratio");
    }
}

/* Appends the range of the ratios to other programs, of the pairs in which `better` ("higher" or
 * "lower") is better. */
static void say_ratios(char *text, size_t size, const json_t *pairs, const char *better)
{
    double least = INFINITY, most = -INFINITY;
    int n = 0;
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i), *rows = json_object_get(pair, "rows");
        if (strcmp(json_text_at(pair, "better"), better) != 0)
            continue;
        n++;
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *row = json_array_get(rows, k);
            bool own = strncmp(json_text_at(row, "side"), "ampscale", strlen("ampscale")) == 0;
            least = own ? least : fmin(least, json_number_at(row, "ratio"));
            most = own ? most : fmax(most, json_number_at(row, "ratio"));
        }
    }
    if (least <= most)
        text_join(text, size, "; ", "%d pair%s where %s is better: ampscale / side %.2f to %.2f", n,
                  n == 1 ? "" : "s", better, least, most);
}

static void headline(struct writer *w, const json_t *pairs)
{
    char text[256] = "";
    say_ratios(text, sizeof text, pairs, "higher");
    say_ratios(text, sizeof text, pairs, "lower");
    writer_headline(w, "%s.", *text ? text : "No pair was measured");
}

void section_peer_pairs(struct writer *w, const char *name, const json_t *record)
{
    const json_t *pairs = json_object_get(record, "pairs");
    struct table t = table_begin("pair|side|>median|>min|>max|unit|>ampscale / side");
    struct table items = {0};
    writer_heading(w, 3, "Beside other programs: %s", name);
    headline(w, pairs);
    add_programs(w, record);
    writer_paragraph(
        w,
        "The sides of a pair take turns at the same work. A ratio is ampscale's value divided by "
        "the side's: the median over the turns, with its 95 %% interval by order statistics. This "
        "interval needs six turns. A turn is thrown away if other processes or the hypervisor took "
        "more than %.0f %% of the machine's time.",
        100 * json_number_at(record, "limit"));
    writer_code(w, json_is_true(json_object_get(record, "quick")) ? "scripts/peers --quick -o FILE"
                                                                  : "scripts/peers -o FILE");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i);
        table_add(&items,
                  "%s: %s; %s, %s is better; %.0f turns, %.0f thrown away; largest share of other "
                  "processes %.1f %%, of the hypervisor %.1f %%; load %.1f.",
                  json_text_at(pair, "pair"), json_text_at(pair, "work"),
                  json_text_at(pair, "unit"), json_text_at(pair, "better"),
                  json_number_at(pair, "turns"), json_number_at(pair, "thrown_away"),
                  100 * json_number_at(pair, "others"), 100 * json_number_at(pair, "steal"),
                  json_number_at(pair, "load"));
        pair_rows(&t, pair);
    }
    writer_table(w, &t);
    writer_fold(w, "Each pair");
    writer_list(w, &items);
    writer_fold_end(w);
}

static void accuracy_headline(struct writer *w, const json_t *record)
{
    const json_t *sides = json_object_get(record, "sides");
    int n = 0, equivalent = 0;
    for (size_t i = 0; i < json_array_size(sides); i++) {
        const json_t *apart = json_object_get(json_array_get(sides, i), "apart");
        n += apart != NULL;
        equivalent += json_is_true(json_object_get(apart, "equivalent"));
    }
    writer_headline(w, "Top-1: %d of %d sides are equivalent to %s within %g points.", equivalent,
                    n, json_text_at(record, "reference"), json_number_at(record, "margin"));
}

static void accuracy_row(struct table *t, const json_t *side)
{
    const json_t *apart = json_object_get(side, "apart");
    table_add(t, "%s", json_text_at(side, "side"));
    table_add(t, "%zu", json_array_size(json_object_get(side, "runs")));
    add_with_interval(t, side, "mean");
    table_add_number(t, json_number_at(side, "deviation"), 2);
    add_with_interval(t, apart, "difference");
    if (!apart)
        table_add(t, "–");
    else
        table_add(t, json_is_true(json_object_get(apart, "equivalent")) ? "yes" : "not shown");
}

void section_peer_accuracy(struct writer *w, const char *name, const json_t *record)
{
    const json_t *sides = json_object_get(record, "sides");
    const json_t *r = json_object_get(record, "recipe"), *data = json_object_get(record, "data");
    struct table t = table_begin("side|>seeds|>top-1 %|>deviation|>minus reference|equivalent");
    writer_heading(w, 3, "Accuracy beside PyTorch: %s", name);
    accuracy_headline(w, record);
    add_programs(w, record);
    writer_paragraph(
        w,
        "%s: %.0f images for training and %.0f for validation; %s. The same recipe on every side: "
        "%s at %.0f px, %.0f images a step, %.0f epochs, learning rate %g (%s; epochs of warm-up: "
        "%g), momentum %g, weight decay %g, RandomResizedCrop and a flip. Validation top-1 after "
        "the last epoch, with 95 %% intervals by Student's and Welch's t. A side is equivalent to "
        "%s if two one-sided tests, each at 5 %%, find the difference of means within %g points.",
        json_text_at(data, "name"), json_number_at(data, "train"), json_number_at(data, "val"),
        json_text_at(data, "about"), json_text_at(r, "net"), json_number_at(r, "image_size"),
        json_number_at(r, "batch"), json_number_at(r, "epochs"), json_number_at(r, "lr"),
        json_text_at(r, "lr_schedule"), json_number_at(r, "warmup_epochs"),
        json_number_at(r, "momentum"), json_number_at(r, "weight_decay"),
        json_text_at(record, "reference"), json_number_at(record, "margin"));
    writer_code(w, "scripts/peers --only accuracy -o FILE");
    for (size_t i = 0; i < json_array_size(sides); i++)
        accuracy_row(&t, json_array_get(sides, i));
    writer_table(w, &t);
}
