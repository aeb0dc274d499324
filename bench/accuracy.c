/* bench accuracy: a training at each precision, and the verdict on its accuracy. */
#include "bench/accuracy.h"

#include "base/file.h"
#include "base/host.h"
#include "bench/micro.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    bool photos_made;
};

/* --- training --- */

/* The quickstart's, which results/recorded has of a CPU; and one that ends in seconds. */
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
    TRY(words_add(w, "%s/photos", a->work.scratch));
    TRY(add_training(a->config, w));
    TRY(words_add(w, "%s=%s", *precision == 'O' ? "--opt-level" : "--precision", precision));
    TRY(words_add(w, "--seed=0"));
    TRY(words_add(w, "--workers=%d", host_cores()));
    TRY(words_add(w, "--print-freq=1000"));
    return a->config->threads > 0 ? words_add(w, "--threads=%d", a->config->threads) : STATUS_OK;
}

/* Once for all rows. */
static enum status make_photos(struct accuracy *a, char why[TRAIN_WHY_SIZE])
{
    char dir[TRAIN_PATH_SIZE];
    if (a->photos_made)
        return STATUS_OK;
    TRY(path_format(dir, sizeof dir, "%s/photos", a->work.scratch));
    return train_child_photos(&a->work, &trainings[a->config->quick].photos, dir, &a->photos_made,
                              why);
}

static enum status train_row(struct accuracy *a, struct accuracy_row *row)
{
    char name[64], dir[TRAIN_PATH_SIZE];
    struct words args = {0};
    struct run *run = NULL;
    enum status st;
    CHECK(make_photos(a, row->why));
    if (!a->photos_made)
        goto done;
    snprintf(name, sizeof name, "accuracy %s", row->precision);
    CHECK(train_work_path(&a->work, name, dir));
    CHECK(accuracy_args(a, row->precision, &args));
    CHECK(train_child_run(&a->work, &args, dir, &row->ladder, &run));
    const json_t *last = run ? json_object_get(run->summary, "last") : NULL;
    const json_t *top1 = json_object_get(last, "val_top1");
    if (json_is_number(top1))
        row->top1 = json_number_value(top1);
    snprintf(row->why, sizeof row->why, "%s",
             run && !top1 ? "the run's summary has no validation top-1" : row->ladder.why);
done:
    words_free(&args);
    run_free(run);
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

/* Wrong numbers are worse than missing ones. */
static enum status judge_rows(const struct accuracy *a)
{
    char wrong[128] = "", missing[128] = "";
    for (int i = 0; i < a->config->n_rows; i++) {
        const struct accuracy_row *row = &a->row[i];
        char *list = isnan(row->top1) ? missing : is_right(row) ? NULL : wrong;
        size_t used = list ? strlen(list) : 0;
        if (list)
            snprintf(list + used, sizeof missing - used, "%s%s", used ? ", " : "", row->precision);
    }
    if (*wrong)
        return status_fail(STATUS_MISMATCH,
                           "accuracy is more than %g point out of the range of recorded runs: %s",
                           ACCURACY_MARGIN, wrong);
    if (*missing)
        return status_fail(STATUS_DATA, "precisions without a result: %s", missing);
    return STATUS_OK;
}

/* --- what is printed --- */

static const char *rung_of(const struct accuracy *a, const struct accuracy_row *row)
{
    bool gpu = strncmp(a->config->devices, "cuda", 4) == 0;
    return gpu && !isnan(row->top1) ? train_rung_str(row->ladder.rung) : NULL;
}

static json_t *row_json(const struct accuracy *a, const struct accuracy_row *row)
{
    const struct accuracy_reference *of = row->reference;
    const char *rung = rung_of(a, row);
    json_t *o = json_pack("{s:s, s:s, s:o}", "precision", row->precision, "unit", "%", "falls",
                          train_falls_json(&row->ladder));
    if (!isnan(row->top1))
        json_object_set_new(o, "val_top1", json_real(row->top1));
    if (!isnan(row->top1) && of)
        json_object_set_new(o, "right", json_boolean(is_right(row)));
    if (of)
        json_object_set_new(o, "cpu",
                            json_pack("{s:f, s:f, s:f, s:i, s:s}", "mean", of->mean, "min", of->min,
                                      "max", of->max, "seeds", of->seeds, "source",
                                      a->references.source));
    if (rung)
        json_object_set_new(o, "rung", json_string(rung));
    if (isnan(row->top1))
        json_object_set_new(o, "why", json_string(why_of(row)));
    return o;
}

static enum status accuracy_json(const struct accuracy *a, json_t **record)
{
    json_t *rows = json_array();
    TRY(bench_record("accuracy", ACCURACY_SCHEMA, train_work_device(&a->work), a->config->threads,
                     record));
    json_object_set_new(*record, "quick", json_boolean(a->config->quick));
    json_object_set_new(*record, "margin", json_real(ACCURACY_MARGIN));
    json_object_set_new(*record, "rows", rows);
    for (int i = 0; i < a->config->n_rows; i++)
        if (json_array_append_new(rows, row_json(a, &a->row[i])) != 0)
            return status_fail(STATUS_OOM, "no memory for the record");
    return STATUS_OK;
}

static void print_row(const struct accuracy *a, const struct accuracy_row *row)
{
    FILE *out = a->config->stream;
    const struct accuracy_reference *of = row->reference;
    const char *rung = rung_of(a, row);
    if (isnan(row->top1))
        fprintf(out, "%-10s %8s  %s\n", row->precision, "n/a", why_of(row));
    else if (!of)
        fprintf(out, "%-10s %8.2f  %s\n", row->precision, row->top1, rung ? rung : "");
    else
        fprintf(out, "%-10s %8.2f %8.2f %8.2f %8.2f %6d  %-8s %s\n", row->precision, row->top1,
                of->mean, of->min, of->max, of->seeds, is_right(row) ? "right" : "WRONG",
                rung ? rung : "");
    for (int i = 0; i < row->ladder.n_falls; i++)
        if (strcmp(row->ladder.fall[i].why, row->why) != 0)
            fprintf(out, "    '%s' failed: %s\n", train_rung_str(row->ladder.fall[i].rung),
                    row->ladder.fall[i].why);
}

static enum status print_rows(const struct accuracy *a)
{
    const struct accuracy_config *c = a->config;
    json_t *record;
    if (c->json) {
        TRY(accuracy_json(a, &record));
        micro_print(record, c->stream);
        return STATUS_OK;
    }
    fprintf(c->stream,
            "%s\nvalidation top-1 in percent, compared with %s\n%-10s %8s %8s %8s %8s %6s\n",
            train_work_device(&a->work), a->references.n ? a->references.source : "nothing",
            "precision", "here", "cpu", "min", "max", "seeds");
    for (int i = 0; i < c->n_rows; i++)
        print_row(a, &a->row[i]);
    return STATUS_OK;
}

/* --- all --- */

/* What is built in is of the full training. */
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
    micro_print(accuracy_references_json(&r), c->stream);
    return STATUS_OK;
}

static enum status train_rows(struct accuracy *a)
{
    for (int i = 0; i < a->config->n_rows; i++) {
        json_t *record;
        TRY(train_child_interrupted(process_signals_received(&a->work.signals)));
        TRY(train_row(a, &a->row[i]));
        TRY(accuracy_json(a, &record));
        TRY(train_work_keep(&a->work, "accuracy.json", record));
    }
    return STATUS_OK;
}

/* Whatever ended the trainings, what they gave is printed. */
static enum status measure(struct accuracy *a)
{
    struct first_failure first = {0};
    first_failure_keep(&first, train_rows(a));
    first_failure_keep(&first, print_rows(a));
    first_failure_keep(&first, judge_rows(a));
    return first_failure_tell(&first);
}

enum status bench_accuracy(const struct accuracy_config *c)
{
    struct accuracy *a = calloc(1, sizeof *a);
    enum status st;
    if (!a)
        return status_fail(STATUS_OOM, "no memory for rows of accuracy");
    a->config = c;
    a->work = (struct train_work){.program = c->program,
                                  .devices = c->devices,
                                  .limit_s = LIMIT_SECONDS,
                                  .budget = time_budget_begin(c->budget_s)};
    CHECK(train_work_open(&a->work, c->out));
    CHECK(read_references(c, &a->references));
    for (int i = 0; i < c->n_rows; i++)
        a->row[i] = (struct accuracy_row){
            .precision = c->precision[i],
            .top1 = NAN,
            .reference = accuracy_reference_find(&a->references, c->precision[i])};
    CHECK(measure(a));
done:
    st = train_work_close(&a->work, st);
    free(a);
    return st;
}
