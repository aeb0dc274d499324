/* Reads recorded accuracies from runs or from the built-in table, and writes them as JSON. */
#include "bench/accuracy_reference.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "results/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char accuracy_cpu_json[];
extern const size_t accuracy_cpu_json_size;

/* --- from runs --- */

static enum status add_value(struct accuracy_references *r, const char *precision, double top1)
{
    struct accuracy_reference *of = r->of, *end = r->of + r->n;
    while (of < end && strcmp(of->precision, precision) != 0)
        of++;
    if (of == end) {
        if (r->n == ACCURACY_REFERENCES_MAX || strlen(precision) >= sizeof of->precision)
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

static enum status add_run(const struct run *run, const struct accuracy_training *t,
                           struct accuracy_references *r)
{
    double top1 = json_number_at(json_object_get(run->summary, "last"), "val_top1");
    if (strcmp(run_config_text(run, "arch", ""), t->arch) != 0 ||
        run_config_count(run, "image_size", 0) != t->image_size ||
        run_config_count(run, "batch_size", 0) != t->batch ||
        run_config_count(run, "epochs", 0) != t->epochs)
        return status_fail(
            STATUS_DATA,
            "'%s' is a run with another network, image size, batch size or number of epochs",
            run->dir);
    if (isnan(top1))
        return status_fail(STATUS_DATA, "'%s' has no validation top-1", run->dir);
    return add_value(r, run_config_text(run, "precision", ""), top1);
}

enum status accuracy_references_read(const char *dir, const struct accuracy_training *t,
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
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        if (!run_exists(path))
            continue;
        CHECK(run_load(path, &run));
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

/* --- as JSON --- */

enum status accuracy_references_built_in(struct accuracy_references *r)
{
    const char *precision;
    json_t *o;
    json_t *all;
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

const struct accuracy_reference *accuracy_reference_find(const struct accuracy_references *r,
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

json_t *accuracy_references_json(const struct accuracy_references *r)
{
    json_t *by = json_object();
    for (int i = 0; i < r->n; i++)
        json_object_set_new(by, r->of[i].precision,
                            json_pack("{s:f, s:f, s:f, s:i}", "mean", r->of[i].mean, "min",
                                      r->of[i].min, "max", r->of[i].max, "seeds", r->of[i].seeds));
    return json_pack("{s:s, s:s, s:o}", "source", r->source, "unit", "%", "val_top1", by);
}
