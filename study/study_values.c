/* Checks each value of a study's file in a command line of train of its own. */
#include "study/study_values.h"

#include "base/process.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

struct checking {
    study_train_check *check;
    const char *from;
    char bad[PROCESS_MESSAGE_SIZE]; /* the last error that is not printed yet; "": none */
};

/* Checks the words of a command line, and frees them. `place` says where the file has them. */
static enum status check_words(struct checking *c, const char *place, struct words *w,
                               enum status st)
{
    char message[PROCESS_MESSAGE_SIZE];
    if (st == STATUS_OK)
        st = c->check(w->n, w->v);
    words_free(w);
    if (st != STATUS_USAGE)
        return st;
    snprintf(message, sizeof message, "'%s': %s: %s", c->from, place, status_message());
    if (*c->bad && strcmp(c->bad, message) != 0)
        text_print(stderr, "ampscale: %s", c->bad);
    memcpy(c->bad, message, sizeof message);
    return STATUS_OK;
}

/* Checks a value of the list `key`, which train takes with `flag`. */
static enum status check_value(struct checking *c, const char *key, const char *flag,
                               const char *value, int64_t image_size)
{
    struct words w = {0};
    enum status st = words_add_all(&w, "ampscale train", "--dummy", flag, value, NULL);
    if (st == STATUS_OK)
        st = words_add_flag(&w, "--image-size", "%" PRId64, image_size);
    return check_words(c, key, &w, st);
}

static enum status check_flags(struct checking *c, const json_t *train)
{
    struct words w = {0};
    enum status st = words_add_all(&w, "ampscale train", "--dummy", NULL);
    for (size_t i = 0; st == STATUS_OK && train && i < json_array_size(train); i++)
        st = words_add(&w, "%s", json_string_value(json_array_get(train, i)));
    return check_words(c, "'train'", &w, st);
}

static enum status check_cell(struct checking *c, const struct study_plan *plan, int64_t cell)
{
    const struct study_run run = {.cell = cell, .repeat = 1};
    char place[ANALYSIS_NAME_SIZE + 16];
    struct words w = {0};
    enum status st = words_add(&w, "ampscale train");
    if (st == STATUS_OK)
        st = study_train_words(plan, &run, "", &w);
    snprintf(place, sizeof place, "cell '%s'", plan->cell[cell].name);
    return check_words(c, place, &w, st);
}

enum status study_values_check(const struct study_plan *plan, const char *from,
                               study_train_check *check)
{
    const struct study_spec *s = plan->spec;
    struct checking c = {.check = check, .from = from};
    for (int i = 0; i < s->archs.n; i++)
        TRY(check_value(&c, "'archs'", "-a", s->archs.v[i], s->image_size));
    for (int i = 0; i < s->precisions.n; i++) {
        const char *p = s->precisions.v[i];
        TRY(check_value(&c, "'precisions'", *p == 'O' ? "--opt-level" : "--precision", p, 224));
    }
    TRY(check_flags(&c, s->train));
    for (int64_t i = 0; !*c.bad && i < plan->n_cells; i++)
        TRY(check_cell(&c, plan, i));
    return *c.bad ? status_fail(STATUS_USAGE, "%s", c.bad) : STATUS_OK;
}
