/* MLPerf's ":::MLLOG" lines of a run: the keys of training ruleset 4.0.0 for ResNet, as the
 * compliance checker of mlcommons/logging reads them.
 *
 * The log has MLPerf's form, but it is not an MLPerf result, so its status is "research". Where the
 * run differs from the rules, the values in the log show it. For example, no cache is cleared, so
 * cache_clear is false. If the learning rate does not decay by a polynomial, the polynomial's power
 * is null, and the end value is the learning rate of the last epoch. Comments at the head of the
 * log, and a warning, name the ruleset and the rules that the run does not meet. Times come from
 * the records. In the metadata of a line, "file" and "lineno" name the record from which the line
 * was made.
 *
 * Ruleset 4.0.0 is the last one with ResNet. Its rules are in training_rules.adoc of
 * mlcommons/training_policies (data set, quality target and, for the closed division,
 * hyper-parameters) and in training_4.0.0 of the compliance checker. Only the rules that can be
 * checked from a record are checked here. */
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/text_new.h"
#include "export/formats.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RULESET "4.0.0"

/* The validation top-1, in percent, that a run must reach. */
#define TARGET_TOP1 75.90

/* A time far in the future. A record with a later time is wrong, and its time is ignored. */
#define TIME_MAX_MS 1e15

/* --- rules --- */

/* ImageNet-1k (ILSVRC 2012). */
enum { IMAGENET_TRAIN = 1281167, IMAGENET_VAL = 50000 };

static const double END_LR = 0.0001, LR_UNIT = 0.001, WEIGHT_DECAY_UNIT = 0.0001;
static const double LARS_POWER = 2;

/* A run's optimizer, in the terms that the rules use. */
struct optimizer {
    const char *name; /* "sgd" or "lars" */
    double base_lr;   /* highest learning rate of a step; includes the factor of --lr-scale */
    double end_lr;
    double power; /* power of the polynomial decay; NAN for any other schedule */
    int64_t decay_steps;
    double momentum, weight_decay, warmup_epochs;
};

static double number(const struct run *run, const char *key)
{
    return json_number_value(run_config(run, key));
}

/* The run must have at least one epoch. */
static struct optimizer optimizer_of(const struct run *run)
{
    const struct epoch_record *last = &run->epoch[run->n_epochs - 1];
    struct optimizer o = {.name = number(run, "lars") > 0 ? "lars" : "sgd",
                          .end_lr = last->lr,
                          .power = NAN,
                          .decay_steps = last->steps,
                          .momentum = number(run, "momentum"),
                          .weight_decay = number(run, "weight_decay"),
                          .warmup_epochs = number(run, "warmup_epochs")};
    for (int64_t i = 0; i < run->n_steps; i++)
        o.base_lr = fmax(o.base_lr, run->step[i].lr);
    if (strcmp(run_config_text(run, "lr_schedule", ""), "poly") == 0) {
        double power = number(run, "lr_power");
        o.power = power > 0 ? power : 2; /* the default of --lr-power */
        o.end_lr = number(run, "lr_end");
    }
    return o;
}

/* Returns the number of images of the run's first validation. */
static int64_t val_images(const struct run *run)
{
    for (int64_t i = 0; i < run->n_epochs; i++)
        if (run->epoch[i].val_images > 0)
            return run->epoch[i].val_images;
    return 0;
}

static bool is_whole(double x)
{
    return isfinite(x) && fabs(x - nearbyint(x)) < 1e-6;
}

static void data_unmet(const struct run *run, FILE *out)
{
    int64_t train = run->epoch[0].train_images, val = val_images(run);
    if (json_is_true(run_config(run, "dummy")))
        fputs("it trained on synthetic tensors, not on ImageNet\n", out);
    else if (train != IMAGENET_TRAIN || val != IMAGENET_VAL)
        fprintf(out,
                "its data set has %" PRId64 " training and %" PRId64
                " validation images, ImageNet has %d and %d\n",
                train, val, IMAGENET_TRAIN, IMAGENET_VAL);
    char arch[41];
    text_clean(arch, sizeof arch, run_config_text(run, "arch", "unknown"));
    if (strcmp(arch, "resnet50") != 0)
        fprintf(out, "its network is %s, not resnet50\n", arch);
}

static void optimizer_unmet(const struct run *run, FILE *out)
{
    struct optimizer o = optimizer_of(run);
    bool lars = strcmp(o.name, "lars") == 0;
    if (!lars && !is_whole(o.base_lr / LR_UNIT))
        fprintf(out, "its base learning rate, %g, is not a multiple of %g\n", o.base_lr, LR_UNIT);
    if (fabs(o.end_lr - END_LR) > 1e-12)
        fprintf(out, "its learning rate ends at %g, not at %g (--lr-schedule poly --lr-end %g)\n",
                o.end_lr, END_LR, END_LR);
    if (lars && !(fabs(o.power - LARS_POWER) < 1e-12))
        fprintf(out, "its learning rate does not decay by a polynomial of power %g\n", LARS_POWER);
    if (!is_whole(log2(o.weight_decay / WEIGHT_DECAY_UNIT)))
        fprintf(out, "its weight decay, %g, is not %g times a power of 2\n", o.weight_decay,
                WEIGHT_DECAY_UNIT);
}

void mlperf_unmet(const struct run *run, bool closed, FILE *out)
{
    static const char *const keys[] = {
        "world_size",  "devices_per_rank", "batch_size",   "accumulate", "lr",
        "lr_schedule", "warmup_epochs",    "weight_decay", "momentum",   "lars",
        "sync_bn",     "precision",        "lr_power",     "lr_end",     NULL};
    const char *changed = run_changed(run, keys);
    double best = run->epoch[run->n_epochs - 1].best_top1;
    if (changed)
        fprintf(out, "it was resumed with another '%s'\n", changed);
    data_unmet(run, out);
    if (!(best >= TARGET_TOP1))
        fprintf(out, "its validation top-1 is %.2f %%, the target is %.2f %%\n", best, TARGET_TOP1);
    if (!run->summary)
        fputs("it is not complete\n", out);
    if (closed)
        optimizer_unmet(run, out);
}

/* --- log --- */

/* The log being written. */
struct log {
    FILE *out;
    double begun;       /* seconds since 1970 */
    int64_t last_ms;    /* times never decrease */
    const char *record; /* file from which the values come; `number` is the number of the record in
                         * this file */
    int64_t number;
};

enum event { POINT, START, STOP };

/* Writes an event. Takes ownership of `value` and `more`. `more` is added to the metadata, unless
 * it is NULL. */
static void put(struct log *log, enum event event, double elapsed, const char *key, json_t *value,
                json_t *more)
{
    static const char *const type[] = {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
    double ms = (log->begun + elapsed) * 1000;
    if (ms > (double)log->last_ms && ms < TIME_MAX_MS)
        log->last_ms = (int64_t)ms;
    json_t *metadata =
        json_new("{s:s, s:I}", "file", log->record, "lineno", (json_int_t)log->number);
    if (more)
        json_object_update(metadata, more);
    json_decref(more);
    json_t *line = json_new("{s:s, s:I, s:s, s:s, s:o, s:o}", "namespace", "", "time_ms",
                            (json_int_t)log->last_ms, "event_type", type[event], "key", key,
                            "value", value ? value : json_null(), "metadata", metadata);
    char *text = json_text(line, JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
    fprintf(log->out, ":::MLLOG %s\n", text);
    free(text);
    json_decref(line);
}

/* Writes a value as an event at the beginning of the run. */
static void put_value(struct log *log, const char *key, json_t *value)
{
    put(log, POINT, 0, key, value, NULL);
}

/* Returns a number of the configuration, clamped to 1..2^20, so that products do not overflow. */
static int64_t config_size(const struct run *run, const char *key)
{
    int64_t n = run_config_count(run, key, 1);
    return n < 1 ? 1 : n > 1 << 20 ? 1 << 20 : n;
}

static void put_optimizer(struct log *log, const struct run *run)
{
    struct optimizer o = optimizer_of(run);
    const struct {
        const char *key;
        json_t *value;
    } rows[] = {
        {"base_learning_rate", json_finite(o.base_lr)},
        {"end_learning_rate", json_finite(o.end_lr)},
        {"learning_rate_decay_poly_power", json_finite(o.power)},
        {"learning_rate_decay_steps", json_integer(o.decay_steps)},
        {"momentum", json_finite(o.momentum)},
        {"weight_decay", json_finite(o.weight_decay)},
    };
    put_value(log, "opt_name", json_utf8(o.name));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_opt_%s", o.name, rows[i].key);
        put_value(log, key, rows[i].value);
    }
    put_value(log, "opt_learning_rate_warmup_epochs", json_finite(o.warmup_epochs));
    if (strcmp(o.name, "lars") == 0) {
        put_value(log, "lars_opt_learning_rate_warmup_epochs", json_finite(o.warmup_epochs));
        put_value(log, "lars_epsilon", json_finite(0));
    }
}

static void put_setting(struct log *log, const struct run *run)
{
    int64_t batch = config_size(run, "batch_size");
    int64_t ranks = config_size(run, "world_size");
    int64_t devices = config_size(run, "devices_per_rank");
    int64_t accumulate = config_size(run, "accumulate");
    put_value(log, "seed", json_integer(json_integer_value(json_object_get(run->info, "seed"))));
    put_value(log, "global_batch_size", json_integer(batch * ranks * accumulate));
    put_value(log, "gradient_accumulation_steps", json_integer(accumulate));
    put_value(log, "train_samples", json_integer(run->epoch[0].train_images));
    put_value(log, "eval_samples", json_integer(val_images(run)));
    put_value(
        log, "model_bn_span",
        json_integer(json_is_true(run_config(run, "sync_bn")) ? batch * ranks : batch / devices));
    put_optimizer(log, run);
}

static void put_of_epoch(struct log *log, enum event event, double elapsed, const char *key,
                         json_t *value, const struct epoch_record *e)
{
    put(log, event, elapsed, key, value, json_new("{s:I}", "epoch_num", (json_int_t)e->epoch + 1));
}

static void put_epoch(struct log *log, const struct epoch_record *e)
{
    double eval_stop = e->elapsed - e->checkpoint_s, eval_start = eval_stop - e->val_s;
    put_of_epoch(log, START, eval_start - e->train_s, "epoch_start", NULL, e);
    put_of_epoch(log, STOP, eval_start, "epoch_stop", NULL, e);
    if (e->val_images == 0 || !isfinite(e->val_top1))
        return;
    put_of_epoch(log, START, eval_start, "eval_start", NULL, e);
    put_of_epoch(log, POINT, eval_stop, "eval_accuracy", json_finite(e->val_top1 / 100), e);
    put_of_epoch(log, STOP, eval_stop, "eval_stop", NULL, e);
}

/* Returns whether the run is complete and has reached its target. In the open division,
 * --desired-acc can set the target. Without this flag, and in the closed division, MLPerf's target
 * applies. */
static bool reached_target(const struct run *run, bool closed)
{
    double target = closed ? 0 : json_number_value(run_config(run, "desired_acc"));
    if (!(target > 0))
        target = TARGET_TOP1;
    return run->summary && run->epoch[run->n_epochs - 1].best_top1 >= target;
}

static void put_log(struct log *log, const struct run *run, bool closed)
{
    double first = run->n_steps ? run->step[0].elapsed - run->step[0].total_s : 0;
    log->record = "run.json";
    put_value(log, "submission_benchmark", json_string("resnet"));
    put_value(log, "submission_org", json_string("none"));
    put_value(log, "submission_division", json_utf8(closed ? "closed" : "open"));
    put_value(log, "submission_status", json_string("research"));
    put_value(log, "submission_platform", json_utf8(json_text_or(run->info, "device", "unknown")));
    put_value(log, "cache_clear", json_false());
    put(log, START, 0, "init_start", NULL, NULL);
    put_setting(log, run);
    put(log, STOP, first, "init_stop", NULL, NULL);
    put(log, START, first, "run_start", NULL, NULL);
    log->record = "epochs.jsonl";
    for (int64_t i = 0; i < run->n_epochs; i++) {
        log->number = i + 1;
        put_epoch(log, &run->epoch[i]);
    }
    put(log, STOP, run->elapsed, "run_stop", NULL,
        json_new("{s:s}", "status", reached_target(run, closed) ? "success" : "aborted"));
}

/* Writes the head of the log: what the log is, and the rules that the run does not meet. */
static enum status put_head(FILE *out, const struct run *run, const struct export_options *o)
{
    const char *division = o->closed ? "closed" : "open";
    struct text_stream unmet;
    TRY(text_stream_open(&unmet));
    mlperf_unmet(run, o->closed, unmet.out);
    TRY(text_stream_close(&unmet));
    fprintf(out,
            "# Made by ampscale from the record of a run. Not an MLPerf result.\n"
            "# Ruleset: MLPerf Training " RULESET ", resnet, %s division.\n",
            division);
    char *next, *text = unmet.text;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        fprintf(out, "# Not met: %s.\n", line);
        if (o->warnings)
            fprintf(o->warnings,
                    "ampscale: warning: '%s' does not meet MLPerf Training " RULESET
                    " (%s division): %s\n",
                    run->name, division, line);
    }
    free(text);
    return STATUS_OK;
}

enum status export_mlperf(const struct run *const *run, int n, const struct export_options *o)
{
    enum status st = STATUS_OK;
    if (n != 1)
        return status_fail(STATUS_USAGE,
                           "an MLPerf log has only one run; export the runs one by one");
    if (run[0]->n_epochs == 0)
        return status_fail(STATUS_DATA,
                           "'%s' has no finished epoch, but an MLPerf log needs at least one",
                           run[0]->dir);
    struct atomic_file f;
    TRY(output_file_open(&f, o->out));
    struct log log = {.out = f.stream, .begun = export_started(run[0])};
    CHECK(put_head(f.stream, run[0], o));
    put_log(&log, run[0], o->closed);
    CHECK(export_put(o, &f));
done:
    atomic_file_abandon(&f);
    return st;
}
