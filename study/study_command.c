/* Makes the command line of a run. */
#include "study/study_plan.h"

#include "base/file.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

enum status study_run_path(const struct study_plan *plan, const struct study_run *run,
                           const char *dir, const char *suffix, char out[STUDY_PATH_SIZE])
{
    return path_format(out, STUDY_PATH_SIZE, "%s/cells/%s/r%d%s", dir, plan->cell[run->cell].name,
                       run->repeat, suffix);
}

static bool has_hosts(const struct study_plan *plan)
{
    return plan->hosts && plan->hosts->n > 0;
}

/* Adds the command that starts the ranks: the study's launcher, or `ampscale launch`. */
static enum status add_launcher(const struct study_plan *plan, const struct study_cell *c,
                                const char *program, const char *log_dir, struct words *w)
{
    static const char mark[] = "{ranks}";
    const json_t *launcher = plan->spec->launcher;
    for (size_t i = 0; launcher && i < json_array_size(launcher); i++) {
        const char *word = json_string_value(json_array_get(launcher, i));
        const char *at = strstr(word, mark);
        if (at)
            TRY(words_add(w, "%.*s%" PRId64 "%s", (int)(at - word), word, c->ranks,
                          at + strlen(mark)));
        else
            TRY(words_add(w, "%s", word));
    }
    TRY(words_add(w, "%s", program));
    if (launcher)
        return STATUS_OK;
    TRY(words_add(w, "launch"));
    TRY(words_add_flag(w, "--nproc", "%" PRId64, c->ranks));
    if (has_hosts(plan)) {
        TRY(words_add(w, "--hosts"));
        TRY(launch_hosts_word(plan->hosts, false, w));
    }
    TRY(words_add_flag(w, "--log-dir", "%s", log_dir));
    return words_add(w, "--");
}

static enum status add_data(const struct study_data *d, const char *dir, struct words *w)
{
    if (*d->folder)
        return words_add(w, "%s", d->folder);
    if (d->generated)
        return words_add(w, "%s/data/%s", dir, d->name);
    TRY(words_add(w, "--dummy"));
    TRY(words_add_flag(w, "--classes", "%" PRId64, d->classes));
    TRY(words_add_flag(w, "--dummy-train", "%" PRId64, d->train));
    return words_add_flag(w, "--dummy-val", "%" PRId64, d->val);
}

/* Adds the devices of one process: "cpu:2" is two devices that share the cores; for GPUs, their
 * indices are listed, as in "cuda:0,1". */
static enum status add_devices(const struct study_plan *plan, const struct study_cell *c,
                               struct words *w)
{
    const char *device = plan->spec->device;
    int64_t n = c->devices / c->ranks;
    char list[512] = "";
    TRY(words_add(w, "--devices"));
    if (n == 1)
        return words_add(w, "%s", device);
    if (strcmp(device, "cuda") != 0)
        return words_add(w, "%s:%" PRId64, device, n);
    for (int64_t i = 0; i < n; i++)
        text_join(list, sizeof list, ",", "%" PRId64, i);
    return words_add(w, "%s:%s", device, list);
}

static enum status add_length(const struct study_spec *s, struct words *w)
{
    if (s->epochs)
        return words_add_flag(w, "--epochs", "%" PRId64, s->epochs);
    TRY(words_add_flag(w, "--steps", "%" PRId64, s->warmup_steps + s->measured_steps));
    return words_add_all(w, "--epochs", "1000000", NULL); /* the number of steps ends the run */
}

enum status study_train_words(const struct study_plan *plan, const struct study_run *run,
                              const char *dir, struct words *w)
{
    const struct study_spec *s = plan->spec;
    const struct study_cell *c = &plan->cell[run->cell];
    TRY(add_data(c->data, dir, w));
    TRY(words_add_flag(w, "-a", "%s", c->arch));
    TRY(words_add_flag(w, "--image-size", "%" PRId64, s->image_size));
    TRY(words_add_flag(w, "-b", "%" PRId64, c->batch / c->ranks));
    TRY(words_add_flag(w, "--mode", "%s", study_mode_str(c->mode)));
    TRY(add_devices(plan, c, w));
    TRY(words_add_flag(w, *c->precision == 'O' ? "--opt-level" : "--precision", "%s",
                       c->precision));
    if (s->threads)
        TRY(words_add_flag(w, "--threads", "%" PRId64, s->threads));
    TRY(words_add_flag(w, "-j", "%" PRId64, s->workers));
    TRY(words_add_flag(w, "--seed", "%" PRId64, s->seed + run->repeat - 1));
    TRY(add_length(s, w));
    for (size_t i = 0; s->train && i < json_array_size(s->train); i++)
        TRY(words_add(w, "%s", json_string_value(json_array_get(s->train, i))));
    return STATUS_OK;
}

enum status study_run_command(const struct study_plan *plan, const struct study_run *run,
                              const char *program, const char *dir, bool resume, struct words *w)
{
    char out[STUDY_PATH_SIZE], logs[STUDY_PATH_SIZE];
    const struct study_cell *c = &plan->cell[run->cell];
    TRY(study_run_path(plan, run, dir, "", out));
    TRY(study_run_path(plan, run, dir, "-logs", logs));
    if (c->ranks > 1 || has_hosts(plan))
        TRY(add_launcher(plan, c, program, logs, w));
    else
        TRY(words_add(w, "%s", program));
    TRY(words_add(w, "train"));
    TRY(study_train_words(plan, run, dir, w));
    TRY(words_add_flag(w, "--out", "%s", out));
    return resume ? words_add_all(w, "--resume", "auto", NULL) : STATUS_OK;
}

enum status study_data_command(const struct study_data *data, const char *program, const char *dir,
                               struct words *w)
{
    TRY(words_add_all(w, program, "data", "synth", NULL));
    TRY(words_add_flag(w, "--out", "%s/data/%s", dir, data->name));
    TRY(words_add_flag(w, "--classes", "%" PRId64, data->classes));
    TRY(words_add_flag(w, "--train", "%" PRId64, data->train));
    TRY(words_add_flag(w, "--val", "%" PRId64, data->val));
    TRY(words_add_flag(w, "--size", "%" PRId64, data->size));
    return words_add_flag(w, "--seed", "%" PRId64, data->seed);
}
