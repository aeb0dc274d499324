/* Chooses the format, and defines functions that the formats share. */
#include "export/export.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "export/formats.h"
#include "export/prometheus.h"
#include "export/tensorboard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double export_started(const struct run *run)
{
    struct tm tm = {0};
    double exact = json_number_at(run->info, "started_s"); /* older records lack it */
    const char *text = json_text_at(run->info, "started");
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return isfinite(exact) ? exact : end && *end == '\0' ? (double)timegm(&tm) : 0;
}

/* Iterates over the steps and epochs of a run in the order of time. An epoch follows its steps. */
struct walk {
    const struct run *run;
    int64_t step, epoch; /* indices of the run's next step and next epoch */
};

/* Gets the next record, a step or an epoch, and sets the other pointer to NULL. Returns false at
 * the end. */
static bool walk_next(struct walk *w, const struct step_record **step,
                      const struct epoch_record **epoch)
{
    const struct run *run = w->run;
    bool steps_left = w->step < run->n_steps, epochs_left = w->epoch < run->n_epochs;
    *step = NULL;
    *epoch = NULL;
    if (steps_left && (!epochs_left || run->step[w->step].step < run->epoch[w->epoch].steps)) {
        *step = &run->step[w->step++];
        return true;
    }
    if (epochs_left)
        *epoch = &run->epoch[w->epoch++];
    return epochs_left;
}

const char *export_name(const struct export_options *o, const struct run *run)
{
    return o->run_name ? o->run_name : o->format == EXPORT_PROMETHEUS ? run->dir : run->name;
}

enum status export_put(const struct export_options *o, struct atomic_file *f)
{
    enum status st = atomic_file_end(f, o->proceed ? o->proceed() : STATUS_OK);
    if (st == STATUS_OK && *f->temp) /* not into a pipe or stdout */
        text_print(o->written, "%s", f->path);
    return st;
}

/* Unix time of a row: that of its attempt's start, and what elapsed since. Pauses between attempts
 * are no elapsed time. */
static double time_at(const struct run *run, double elapsed)
{
    double begin = export_started(run), before = 0;
    for (size_t i = 1; i < json_array_size(run->infos); i++) {
        const json_t *info = json_array_get(run->infos, i);
        double at = json_number_at(info, "elapsed"), started = json_number_at(info, "started_s");
        if (elapsed >= at && isfinite(started)) {
            begin = started;
            before = at;
        }
    }
    return isfinite(elapsed) ? begin + (elapsed - before) : begin;
}

/* Writes the samples taken up to the time `elapsed`, as events of step `step`. *at is the number of
 * rows written so far. */
static void put_telemetry(FILE *out, const struct run *run, int64_t *at, double elapsed,
                          int64_t step)
{
    for (; *at < run->n_telemetry && !(run->telemetry[*at].elapsed > elapsed); ++*at) {
        const struct telemetry_record *row = &run->telemetry[*at];
        tensorboard_telemetry(out, time_at(run, row->elapsed), step, row);
    }
}

/* Writes all events of a run. */
static enum status put_events(FILE *out, const struct run *run)
{
    double started = export_started(run);
    struct walk walk = {.run = run};
    const struct step_record *step;
    const struct epoch_record *epoch;
    int64_t sampled = 0, next = 0;
    tensorboard_begin(out, started, 0);
    TRY(tensorboard_hparams(out, started, json_object_get(run->info, "config")));
    while (walk_next(&walk, &step, &epoch)) {
        double elapsed = step ? step->elapsed : epoch->elapsed;
        next = step ? step->step : next;
        put_telemetry(out, run, &sampled, elapsed, next);
        if (step)
            tensorboard_step(out, time_at(run, elapsed), step);
        else
            tensorboard_epoch(out, time_at(run, elapsed), epoch);
    }
    put_telemetry(out, run, &sampled, INFINITY, next);
    return run->summary ? tensorboard_end(out, time_at(run, run->elapsed), true) : STATUS_OK;
}

static enum status export_tensorboard(const struct run *const *run, int n,
                                      const struct export_options *o)
{
    for (int i = 0; i < n; i++) {
        char name[TENSORBOARD_NAME_MAX], path[4096];
        struct atomic_file f;
        tensorboard_name(name, export_started(run[i]),
                         json_text_or(json_object_get(run[i]->info, "host"), "hostname", "host"),
                         "export");
        TRY(path_format(path, sizeof path, "%s/%s", o->out, export_name(o, run[i])));
        TRY(dir_make(path));
        if (o->warnings)
            tensorboard_warn(path, name, o->warnings);
        TRY(path_format(path, sizeof path, "%s/%s/%s", o->out, export_name(o, run[i]), name));
        TRY(atomic_file_open(&f, path));
        enum status st = put_events(f.stream, run[i]);
        st = st == STATUS_OK ? export_put(o, &f) : st;
        atomic_file_abandon(&f);
        TRY(st);
    }
    return STATUS_OK;
}

static enum status export_prometheus(const struct run *const *run, int n,
                                     const struct export_options *o)
{
    enum status st;
    struct atomic_file f = {NULL};
    struct prometheus_run *p;
    TRY(array_new(&p, n));
    for (int i = 0; i < n; i++) {
        double started = export_started(run[i]);
        struct walk walk = {.run = run[i]};
        const struct step_record *step;
        const struct epoch_record *epoch;
        p[i] = (struct prometheus_run){
            .name = export_name(o, run[i]),
            .arch = run_config_text(run[i], "arch", ""),
            .precision = run_config_text(run[i], "precision", ""),
            .mode = run_config_text(run[i], "mode", ""),
            .device = json_text_at(run[i]->info, "device"),
            .time = started,
            .finished = run[i]->summary != NULL,
        };
        while (walk_next(&walk, &step, &epoch)) {
            if (step)
                prometheus_step(&p[i], time_at(run[i], step->elapsed), step);
            else
                prometheus_epoch(&p[i], time_at(run[i], epoch->elapsed), epoch);
        }
        for (int64_t k = 0; k < run[i]->n_telemetry; k++) {
            const struct telemetry_record *row = &run[i]->telemetry[k];
            prometheus_telemetry(&p[i], time_at(run[i], row->elapsed), row);
        }
    }
    CHECK(output_file_open(&f, o->out));
    prometheus_write(f.stream, p, n);
    CHECK(export_put(o, &f));
done:
    free(p);
    return st;
}

static enum status check_names(const struct run *const *run, int n, const struct export_options *o)
{
    if (o->run_name && n > 1)
        return status_fail(STATUS_USAGE, "--run-name names only one run, but %d were given", n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(export_name(o, run[i]), export_name(o, run[j])) == 0)
                return status_fail(
                    STATUS_USAGE,
                    "'%s' and '%s' have the same name, but the output distinguishes runs by "
                    "name; export them one by one, with --run-name",
                    run[j]->dir, run[i]->dir);
    return STATUS_OK;
}

enum status export_runs(const struct run *const *run, int n, const struct export_options *o)
{
    static enum status (*const export[EXPORT_FORMATS])(const struct run *const *, int,
                                                       const struct export_options *) = {
        [EXPORT_TENSORBOARD] = export_tensorboard,
        [EXPORT_MLPERF] = export_mlperf,
        [EXPORT_PROMETHEUS] = export_prometheus,
        [EXPORT_CSV] = export_csv,
    };
    TRY(check_names(run, n, o));
    return export[o->format](run, n, o);
}
