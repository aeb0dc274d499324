/* The command line of a run. */
#include "study/plan.h"

#include "base/file.h"

#include <inttypes.h>
#include <string.h>

enum status study_run_path(const struct study_plan *plan, const struct study_run *run,
                           const char *dir, const char *suffix, char out[STUDY_PATH_SIZE])
{
    return path_format(out, STUDY_PATH_SIZE, "%s/cells/%s/r%d%s", dir, plan->cell[run->cell].name,
                       run->repeat, suffix);
}

static enum status add_number(struct words *w, const char *flag, int64_t value)
{
    TRY(words_add(w, "%s", flag));
    return words_add(w, "%" PRId64, value);
}

static enum status add_text(struct words *w, const char *flag, const char *value)
{
    TRY(words_add(w, "%s", flag));
    return words_add(w, "%s", value);
}

/* Starts several ranks: the study's own way, or ours. */
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
    TRY(add_number(w, "--nproc", c->ranks));
    TRY(add_text(w, "--log-dir", log_dir));
    return words_add(w, "--");
}

static enum status add_data(const struct study_data *d, const char *dir, struct words *w)
{
    if (*d->folder)
        return words_add(w, "%s", d->folder);
    if (d->generated)
        return words_add(w, "%s/data/%s", dir, d->name);
    TRY(words_add(w, "--dummy"));
    TRY(add_number(w, "--classes", d->classes));
    TRY(add_number(w, "--dummy-train", d->train));
    return add_number(w, "--dummy-val", d->val);
}

/* Devices of one process: "cpu:2" shares cores, GPUs are named by number. */
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
    for (int64_t i = 0; i < n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%c%" PRId64, i ? ',' : ':', i);
    }
    return words_add(w, "%s%s", device, list);
}

static enum status add_length(const struct study_spec *s, struct words *w)
{
    if (s->epochs)
        return add_number(w, "--epochs", s->epochs);
    TRY(add_number(w, "--steps", s->warmup_steps + s->measured_steps));
    return add_number(w, "--epochs", 1000000); /* the steps are to end it */
}

static enum status add_train(const struct study_plan *plan, const struct study_run *run,
                             const char *dir, struct words *w)
{
    const struct study_spec *s = plan->spec;
    const struct study_cell *c = &plan->cell[run->cell];
    TRY(words_add(w, "train"));
    TRY(add_data(c->data, dir, w));
    TRY(add_text(w, "-a", c->arch));
    TRY(add_number(w, "--image-size", s->image_size));
    TRY(add_number(w, "-b", c->batch / c->ranks));
    TRY(add_text(w, "--mode", study_mode_str(c->mode)));
    TRY(add_devices(plan, c, w));
    TRY(add_text(w, *c->precision == 'O' ? "--opt-level" : "--precision", c->precision));
    if (s->threads)
        TRY(add_number(w, "--threads", s->threads));
    TRY(add_number(w, "-j", s->workers));
    TRY(add_number(w, "--seed", s->seed + run->repeat - 1));
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
    if (c->ranks > 1)
        TRY(add_launcher(plan, c, program, logs, w));
    else
        TRY(words_add(w, "%s", program));
    TRY(add_train(plan, run, dir, w));
    TRY(add_text(w, "--out", out));
    return resume ? add_text(w, "--resume", "auto") : STATUS_OK;
}

enum status study_data_command(const struct study_data *data, const char *program, const char *dir,
                               struct words *w)
{
    TRY(words_add(w, "%s", program));
    TRY(words_add(w, "data"));
    TRY(words_add(w, "synth"));
    TRY(words_add(w, "--out"));
    TRY(words_add(w, "%s/data/%s", dir, data->name));
    TRY(add_number(w, "--classes", data->classes));
    TRY(add_number(w, "--train", data->train));
    TRY(add_number(w, "--val", data->val));
    TRY(add_number(w, "--size", data->size));
    return add_number(w, "--seed", data->seed);
}
