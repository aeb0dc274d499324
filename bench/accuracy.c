/* bench accuracy: trains at each precision and compares the accuracy with recorded runs. */
#include "bench/accuracy.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "bench/record.h"
#include "bench/train_child.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_SECONDS = 7200, REFERENCES_MAX = 16, ACCURACY_SCHEMA = 1 };

/* The largest accepted distance from the references' range, in percentage points. It allows for the
 * sampling error: at an accuracy of 99 % over 500 images, one standard deviation is 0.44. */
#define ACCURACY_MARGIN 1.0

/* --- references: the accuracy of recorded runs, by precision --- */

struct accuracy_reference {
    char precision[ACCURACY_NAME_SIZE];
    int seeds;             /* number of runs */
    double mean, min, max; /* validation top-1 after the last epoch, percent */
};

struct accuracy_references {
    char source[256]; /* the folder of the runs */
    int n;
    struct accuracy_reference of[REFERENCES_MAX]; /* (n) in the order of the runs' names */
};

/* The settings of a training. Only runs with the same settings are compared with it. */
struct accuracy_training {
    const char *arch;
    int image_size, batch, epochs;
    const char *lr, *schedule, *warmup_epochs;
    struct train_photos photos;
};

extern const unsigned char accuracy_cpu_json[];
extern const size_t accuracy_cpu_json_size;

static enum status add_value(struct accuracy_references *r, const char *precision, double top1)
{
    struct accuracy_reference *of = r->of, *end = r->of + r->n;
    while (of < end && strcmp(of->precision, precision) != 0)
        of++;
    if (of == end) {
        if (r->n == REFERENCES_MAX || strlen(precision) >= sizeof of->precision)
            return status_fail(STATUS_DATA,
                               "there are too many precisions, or the name '%s' is too long",
                               precision);
        r->n++;
        *of = (struct accuracy_reference){.min = INFINITY, .max = -INFINITY};
        snprintf(of->precision, sizeof of->precision, "%s", precision);
    }
    of->mean = (of->mean * of->seeds + top1) / (of->seeds + 1);
    of->min = fmin(of->min, top1);
    of->max = fmax(of->max, top1);
    of->seeds++;
    return STATUS_OK;
}

/* Fails if another setting than those of the commands below is not that of the training. */
static enum status check_rest(const struct run *run, const struct accuracy_training *t)
{
    const struct {
        const char *key;
        double value;
    } want[] = {{"warmup_epochs", strtod(t->warmup_epochs, NULL)},
                {"epoch_steps", ceil((double)t->photos.classes * t->photos.train / t->batch)},
                {"momentum", 0.9},
                {"weight_decay", 1e-4},
                {"label_smoothing", 0},
                {"mixup", 0},
                {"accumulate", 1},
                {"world_size", 1}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const json_t *have = run_config(run, want[i].key);
        if (have && fabs(json_number_value(have) - want[i].value) > 1e-9)
            return status_fail(STATUS_DATA, "'%s' is a run with '%s' %g, not %g", run->dir,
                               want[i].key, json_number_value(have), want[i].value);
    }
    if (json_is_true(run_config(run, "dummy")) || json_array_size(run->infos) > 1)
        return status_fail(STATUS_DATA, "'%s' is a run on synthetic tensors, or was resumed",
                           run->dir);
    return STATUS_OK;
}

static enum status add_run(const struct run *run, const struct accuracy_training *t,
                           struct accuracy_references *r)
{
    double top1 = json_number_at(json_object_get(run->summary, "last"), "val_top1");
    if (strcmp(run_config_text(run, "arch", ""), t->arch) != 0 ||
        run_config_count(run, "image_size", 0) != t->image_size ||
        run_config_count(run, "batch_size", 0) != t->batch ||
        run_config_count(run, "epochs", 0) != t->epochs ||
        run_config_count(run, "classes", 0) != t->photos.classes ||
        json_number_value(run_config(run, "lr")) != strtod(t->lr, NULL) ||
        strcmp(run_config_text(run, "lr_schedule", ""), t->schedule) != 0)
        return status_fail(STATUS_DATA,
                           "'%s' is a run with another network, image size, batch size, number of "
                           "epochs or classes, or learning rate",
                           run->dir);
    TRY(check_rest(run, t));
    if (isnan(top1))
        return status_fail(STATUS_DATA, "'%s' has no validation top-1", run->dir);
    return add_value(r, run_config_text(run, "precision", ""), top1);
}

/* Reads the runs in the subfolders of `dir`. STATUS_DATA if there are no runs, or if a run cannot
 * be read or its settings differ from `t`. */
static enum status accuracy_references_read(const char *dir, const struct accuracy_training *t,
                                            struct accuracy_references *r)
{
    struct words names = {0};
    enum status st;
    *r = (struct accuracy_references){.n = 0};
    snprintf(r->source, sizeof r->source, "%s", dir);
    CHECK(dir_list(dir, "", &names));
    for (int i = 0; i < names.n; i++) {
        char path[4096];
        struct run *run;
        bool is_run;
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        CHECK(dir_look(path, "run.json", &is_run));
        if (!is_run)
            continue;
        CHECK(run_load_whole(path, &run));
        st = add_run(run, t, r);
        run_free(run);
        if (st != STATUS_OK)
            goto done;
    }
    if (r->n == 0)
        st = status_fail(STATUS_DATA, "there are no runs in '%s'", dir);
done:
    words_free(&names);
    return st;
}

static enum status accuracy_references_built_in(struct accuracy_references *r)
{
    const char *precision;
    json_t *o, *all;
    *r = (struct accuracy_references){.n = 0};
    TRY(json_parse((const char *)accuracy_cpu_json, accuracy_cpu_json_size,
                   "the recorded accuracies", &all));
    snprintf(r->source, sizeof r->source, "%s", json_text_at(all, "source"));
    json_object_foreach(json_object_get(all, "val_top1"), precision, o)
    {
        struct accuracy_reference *of = &r->of[r->n++];
        snprintf(of->precision, sizeof of->precision, "%s", precision);
        of->mean = json_number_at(o, "mean");
        of->min = json_number_at(o, "min");
        of->max = json_number_at(o, "max");
        of->seeds = (int)json_number_at(o, "seeds");
    }
    json_decref(all);
    return STATUS_OK;
}

/* Returns the reference of a precision, or NULL. No CPU run was recorded at amp, O0 or tf32: amp
 * has the reference of O1, the others that of fp32. */
static const struct accuracy_reference *accuracy_reference_find(const struct accuracy_references *r,
                                                                const char *precision)
{
    static const char *const as[][2] = {{"amp", "O1"}, {"tf32", "fp32"}, {"O0", "fp32"}};
    for (size_t i = 0; i < sizeof as / sizeof *as; i++)
        if (strcmp(precision, as[i][0]) == 0)
            precision = as[i][1];
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->of[i].precision, precision) == 0)
            return &r->of[i];
    return NULL;
}

static json_t *accuracy_references_json(const struct accuracy_references *r)
{
    json_t *by = json_object();
    for (int i = 0; i < r->n; i++)
        json_put(by, r->of[i].precision,
                 json_new("{s:f, s:f, s:f, s:i}", "mean", r->of[i].mean, "min", r->of[i].min, "max",
                          r->of[i].max, "seeds", r->of[i].seeds));
    return json_new("{s:s, s:s, s:o}", "source", r->source, "unit", "%", "val_top1", by);
}

/* --- training --- */

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

/* trainings[0] is the quickstart's training, which was recorded on CPUs (results/recorded).
 * trainings[1] is a short training, for --quick. */
static const struct accuracy_training trainings[] = {
    {"resnet18", 64, 64, 12, "0.02", "cosine", "1", {10, 200, 50, 96}},
    {"resnet8", 32, 8, 1, "0.05", "constant", "0", {3, 12, 4, 48}},
};

static enum status add_training(const struct accuracy_config *c, struct words *w)
{
    const struct accuracy_training *of = &trainings[c->quick];
    TRY(words_add(w, "--arch=%s", of->arch));
    TRY(words_add(w, "--image-size=%d", of->image_size));
    TRY(words_add(w, "--batch-size=%d", of->batch));
    TRY(words_add(w, "--epochs=%d", of->epochs));
    TRY(words_add(w, "--lr=%s", of->lr));
    TRY(words_add(w, "--lr-schedule=%s", of->schedule));
    return words_add(w, "--warmup-epochs=%s", of->warmup_epochs);
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
                    json_new("{s:f, s:f, s:f, s:i, s:s}", "mean", of->mean, "min", of->min, "max",
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
        column_json(t, "rung", json_utf8(rung));
    if (missing)
        column_json(t, "why", json_utf8(why_of(r)));
    column_text(t, NULL, "rung", 0, missing ? why_of(r) : rung ? rung : "");
}

static json_t *accuracy_json(const struct accuracy *a)
{
    const struct bench_head head = {"accuracy", ACCURACY_SCHEMA, train_work_device(&a->work),
                                    a->config->options.threads};
    struct bench_table t = bench_table_of(&a->config->options, accuracy_columns, a);
    t.format = BENCH_JSON;
    bench_table_rows(&t, a->row, a->config->n_rows, sizeof *a->row);
    return bench_record(&head, json_new("{s:b, s:f, s:o}", "quick", a->config->quick, "margin",
                                        ACCURACY_MARGIN, "rows", bench_table_take(&t)));
}

static enum status accuracy_print(const struct accuracy *a)
{
    const struct bench_options *o = &a->config->options;
    struct bench_table t = bench_table_of(o, accuracy_columns, a);
    if (o->format == BENCH_JSON) {
        json_print(accuracy_json(a), o->out, JSON_RECORD);
        return STATUS_OK;
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
        return accuracy_references_read(c->recorded, &trainings[c->quick], r);
    return c->quick ? STATUS_OK : accuracy_references_built_in(r);
}

enum status accuracy_print_reference(const struct accuracy_config *c)
{
    struct accuracy_references r;
    TRY(read_references(c, &r));
    json_print(accuracy_references_json(&r), c->options.out, JSON_RECORD);
    return STATUS_OK;
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
        if (i >= n && (!row->ladder.cut || !isnan(row->top1)))
            continue;
        TRY(process_signals_check(&a->work.signals));
        a->work.budget.after = i < n ? n - 1 - i : 0;
        TRY(train_row(a, row));
        TRY(train_work_keep(&a->work, "accuracy.json", accuracy_json(a)));
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
