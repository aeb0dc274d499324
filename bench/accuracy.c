/* bench accuracy: trains at each precision and compares the accuracy with recorded runs. */
#include "bench/accuracy.h"

#include "base/array.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "bench/record.h"

#include <math.h>
#include <stdlib.h>

enum { LIMIT_SECONDS = 7200 };

struct accuracy_row {
    const char *precision;
    const struct accuracy_reference *reference; /* NULL: none */
    struct train_ladder ladder;
    double top1; /* NAN: none */
    char why[TRAIN_WHY_SIZE];
};

struct accuracy {
    const struct accuracy_config *config;
    struct train_work work;
    struct accuracy_references references;
    struct accuracy_row row[ACCURACY_ROWS_MAX];
};

/* --- training --- */

/* trainings[0] is the quickstart's training, which was recorded on CPUs (results/recorded).
 * trainings[1] is a short training, for --quick. */
static const struct {
    struct accuracy_training of;
    struct train_photos photos;
    const char *lr, *schedule, *warmup_epochs;
} trainings[] = {
    {{"resnet18", 64, 64, 12}, {10, 200, 50, 96}, "0.02", "cosine", "1"},
    {{"resnet8", 32, 8, 1}, {3, 12, 4, 48}, "0.05", "constant", "0"},
};

static enum status add_training(const struct accuracy_config *c, struct words *w)
{
    const struct accuracy_training *of = &trainings[c->quick].of;
    TRY(words_add(w, "--arch=%s", of->arch));
    TRY(words_add(w, "--image-size=%d", of->image_size));
    TRY(words_add(w, "--batch-size=%d", of->batch));
    TRY(words_add(w, "--epochs=%d", of->epochs));
    TRY(words_add(w, "--lr=%s", trainings[c->quick].lr));
    TRY(words_add(w, "--lr-schedule=%s", trainings[c->quick].schedule));
    return words_add(w, "--warmup-epochs=%s", trainings[c->quick].warmup_epochs);
}

static enum status accuracy_args(const struct accuracy *a, const char *precision, struct words *w)
{
    TRY(words_add(w, "%s/photos", a->work.scratch.path));
    TRY(add_training(a->config, w));
    TRY(words_add(w, "%s=%s", *precision == 'O' ? "--opt-level" : "--precision", precision));
    TRY(words_add(w, "--seed=0"));
    TRY(words_add(w, "--workers=%d", host_cores()));
    TRY(words_add(w, "--print-freq=1000"));
    return a->config->options.threads > 0 ? words_add(w, "--threads=%d", a->config->options.threads)
                                          : STATUS_OK;
}

static enum status train_row(struct accuracy *a, struct accuracy_row *row)
{
    char name[64];
    struct words args = {0};
    enum status st;
    CHECK(train_work_photos(&a->work, &trainings[a->config->quick].photos, row->why));
    if (!a->work.photos_made)
        goto done;
    snprintf(name, sizeof name, "accuracy %s", row->precision);
    CHECK(accuracy_args(a, row->precision, &args));
    CHECK(train_work_measure(&a->work, &args, name, "last", "val_top1", &row->ladder, &row->top1,
                             row->why));
done:
    words_free(&args);
    return st;
}

/* --- the verdict --- */

static bool is_right(const struct accuracy_row *row)
{
    const struct accuracy_reference *of = row->reference;
    return !of ||
           (row->top1 >= of->min - ACCURACY_MARGIN && row->top1 <= of->max + ACCURACY_MARGIN);
}

static const char *why_of(const struct accuracy_row *row)
{
    return *row->why ? row->why : "its training did not begin in time";
}

/* Fails if a result is wrong or missing. If some results are wrong and others are missing, the
 * message names the wrong ones. */
static enum status accuracy_verdict(const struct accuracy *a)
{
    char wrong[128] = "", missing[128] = "";
    for (int i = 0; i < a->config->n_rows; i++) {
        const struct accuracy_row *row = &a->row[i];
        if (isnan(row->top1))
            text_join(missing, sizeof missing, ", ", "%s", row->precision);
        else if (!is_right(row))
            text_join(wrong, sizeof wrong, ", ", "%s", row->precision);
    }
    if (*wrong)
        return status_fail(
            STATUS_MISMATCH,
            "accuracy is more than %g percentage point outside the range of the recorded runs: %s",
            ACCURACY_MARGIN, wrong);
    if (*missing)
        return status_fail(STATUS_DATA, "precisions without a result: %s", missing);
    return STATUS_OK;
}

/* --- printing --- */

static void accuracy_columns(struct bench_table *t, const void *row)
{
    const struct accuracy_row *r = row;
    const struct accuracy *a = t->context;
    const struct accuracy_reference *of = r->reference;
    bool missing = isnan(r->top1), known = !missing && of;
    const char *rung = missing ? NULL : train_work_rung(&a->work, &r->ladder);
    column_text(t, "precision", "precision", -10, r->precision);
    column_json(t, "unit", json_string("%"));
    column_json(t, "falls", train_falls_json(&r->ladder));
    if (of)
        column_json(t, "cpu",
                    json_pack("{s:f, s:f, s:f, s:i, s:s}", "mean", of->mean, "min", of->min, "max",
                              of->max, "seeds", of->seeds, "source", a->references.source));
    t->absent = missing;
    column_real(t, "val_top1", "here", 8, 2, 1, r->top1);
    t->absent = !known;
    column_json(t, "right", json_boolean(is_right(r)));
    column_real(t, NULL, "cpu", 8, 2, 1, known ? of->mean : NAN);
    column_real(t, NULL, "min", 8, 2, 1, known ? of->min : NAN);
    column_real(t, NULL, "max", 8, 2, 1, known ? of->max : NAN);
    column_int(t, NULL, "seeds", 6, known ? of->seeds : 0);
    column_text(t, NULL, "verdict", -8, is_right(r) ? "right" : "WRONG");
    t->absent = false;
    if (rung)
        column_json(t, "rung", json_string(rung));
    if (missing)
        column_json(t, "why", json_string(why_of(r)));
    column_text(t, NULL, "rung", 0, missing ? why_of(r) : rung ? rung : "");
}

static enum status accuracy_json(const struct accuracy *a, json_t **record)
{
    const struct bench_head head = {"accuracy", ACCURACY_SCHEMA, train_work_device(&a->work),
                                    a->config->options.threads};
    struct bench_table t = bench_table_of(&a->config->options, accuracy_columns, a);
    json_t *rows;
    t.format = BENCH_JSON;
    bench_table_rows(&t, a->row, a->config->n_rows, sizeof *a->row);
    TRY(bench_table_take(&t, &rows));
    return bench_record(&head,
                        json_pack("{s:b, s:f, s:o}", "quick", a->config->quick, "margin",
                                  ACCURACY_MARGIN, "rows", rows),
                        record);
}

static enum status accuracy_print(const struct accuracy *a)
{
    const struct bench_options *o = &a->config->options;
    struct bench_table t = bench_table_of(o, accuracy_columns, a);
    json_t *record;
    if (o->format == BENCH_JSON) {
        TRY(accuracy_json(a, &record));
        return json_print(record, o->out, JSON_RECORD);
    }
    fprintf(o->out, "%s\nvalidation top-1 in percent, compared with %s\n",
            train_work_device(&a->work), a->references.n ? a->references.source : "nothing");
    bench_table_open(&t, a->row);
    for (int i = 0; i < a->config->n_rows; i++) {
        bench_table_row(&t, &a->row[i]);
        train_falls_print(&a->row[i].ladder, a->row[i].why, o->out);
    }
    return STATUS_OK;
}

/* --- the benchmark --- */

/* There are built-in references only for the full training, not for the short one. */
static enum status read_references(const struct accuracy_config *c, struct accuracy_references *r)
{
    *r = (struct accuracy_references){.n = 0};
    if (c->recorded)
        return accuracy_references_read(c->recorded, &trainings[c->quick].of, r);
    return c->quick ? STATUS_OK : accuracy_references_built_in(r);
}

enum status accuracy_print_reference(const struct accuracy_config *c)
{
    struct accuracy_references r;
    TRY(read_references(c, &r));
    return json_print(accuracy_references_json(&r), c->options.out, JSON_RECORD);
}

/* Trains each row. Then, if time is left, trains those again that were cut off: the first training
 * of a precision on a GPU also plans. */
static enum status train_rows(struct accuracy *a)
{
    struct bar *bar = a->config->options.timing.bar;
    int n = a->config->n_rows;
    bar_begin(bar, n);
    for (int i = 0; i < 2 * n; i++) {
        struct accuracy_row *row = &a->row[i % n];
        json_t *record;
        if (i >= n && (!row->ladder.cut || !isnan(row->top1)))
            continue;
        TRY(train_child_interrupted(process_signals_received(&a->work.signals)));
        a->work.budget.after = i < n ? n - 1 - i : 0;
        TRY(train_row(a, row));
        TRY(accuracy_json(a, &record));
        TRY(train_work_keep(&a->work, "accuracy.json", record));
        if (i < n)
            bar_step(bar);
    }
    return STATUS_OK;
}

/* Runs the trainings and prints their results. If a training fails, prints the results measured
 * before the failure. */
static enum status measure_accuracy(struct accuracy *a)
{
    struct first_failure first = {0};
    first_failure_keep(&first, train_rows(a));
    bar_erase(a->config->options.timing.bar);
    first_failure_keep(&first, accuracy_print(a));
    first_failure_keep(&first, accuracy_verdict(a));
    return first_failure_return(&first);
}

enum status bench_accuracy(const struct accuracy_config *c)
{
    struct accuracy *a;
    enum status st;
    TRY(array_new(&a, 1));
    a->config = c;
    a->work.limit_s = LIMIT_SECONDS;
    CHECK(train_work_open(&a->work, &c->options));
    CHECK(read_references(c, &a->references));
    for (int i = 0; i < c->n_rows; i++)
        a->row[i] = (struct accuracy_row){
            .precision = c->precision[i],
            .top1 = NAN,
            .reference = accuracy_reference_find(&a->references, c->precision[i])};
    CHECK(measure_accuracy(a));
done:
    st = train_work_close(&a->work, st);
    for (int i = 0; i < c->n_rows; i++)
        train_ladder_close(&a->row[i].ladder);
    free(a);
    return st;
}
