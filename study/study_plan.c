/* Makes cells and runs from a matrix. */
#include "study/study_plan.h"

#include "base/array.h"
#include "base/json.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The coordinates of a cell in the matrix: an index on each axis. */
struct point {
    enum study_mode mode;
    int device, precision, arch, data, batch;
    enum analysis_scaling scaling;
};

static enum status name_cell(struct study_cell *c)
{
    const char *scaling = c->devices == 1 ? "" : c->scaling == ANALYSIS_WEAK ? "weak-" : "strong-";
    int n = snprintf(c->name, sizeof c->name, "%s-%s-%s-%s-%s%" PRId64 "x%" PRId64,
                     study_mode_str(c->mode), c->precision, c->arch, c->data->name, scaling,
                     c->devices, c->batch / c->devices);
    if (n >= (int)sizeof c->name)
        return status_fail(STATUS_USAGE, "the name of cell '%s' is too long", c->name);
    return STATUS_OK;
}

static bool is_same_training(const struct study_cell *a, const struct study_cell *b)
{
    return a->mode == b->mode && a->precision == b->precision && a->arch == b->arch &&
           a->data == b->data && a->devices == b->devices && a->batch == b->batch;
}

static enum status add_cell(struct study_plan *plan, const struct point *p)
{
    const struct study_spec *s = plan->spec;
    struct study_cell *c = &plan->cell[plan->n_cells];
    if (plan->n_cells == ANALYSIS_MAX_CELLS)
        return status_fail(STATUS_USAGE, "'%s' has more than %d cells", s->name,
                           ANALYSIS_MAX_CELLS);
    int64_t devices = s->devices[p->mode].v[p->device];
    bool weak = p->scaling == ANALYSIS_WEAK;
    *c = (struct study_cell){.mode = p->mode,
                             .precision = s->precisions.v[p->precision],
                             .arch = s->archs.v[p->arch],
                             .data = &s->data[p->data],
                             .scaling = p->scaling,
                             .devices = devices,
                             .ranks = p->mode == STUDY_DDP    ? devices
                                      : p->mode == STUDY_DDP2 ? devices / s->devices_per_rank
                                                              : 1,
                             .batch = weak ? s->weak.v[p->batch] * devices : s->strong.v[p->batch]};
    TRY(name_cell(c));
    for (struct study_cell *known = plan->cell; known < c; known++)
        if (is_same_training(known, c)) {
            known->in[p->scaling] = true;
            return STATUS_OK;
        }
    c->in[p->scaling] = true;
    plan->n_cells++;
    return STATUS_OK;
}

static enum status add_batches(struct study_plan *plan, struct point p)
{
    const struct study_spec *s = plan->spec;
    for (p.data = 0; p.data < s->n_data; p.data++) {
        p.scaling = ANALYSIS_WEAK;
        for (p.batch = 0; p.batch < s->weak.n; p.batch++)
            TRY(add_cell(plan, &p));
        p.scaling = ANALYSIS_STRONG;
        for (p.batch = 0; p.batch < s->strong.n; p.batch++)
            TRY(add_cell(plan, &p));
    }
    return STATUS_OK;
}

static enum status add_cells(struct study_plan *plan)
{
    const struct study_spec *s = plan->spec;
    struct point p = {0};
    for (p.arch = 0; p.arch < s->archs.n; p.arch++)
        for (p.precision = 0; p.precision < s->precisions.n; p.precision++)
            for (int m = 0; m < STUDY_MODES; m++) {
                p.mode = (enum study_mode)m;
                for (p.device = 0; p.device < s->devices[m].n; p.device++)
                    TRY(add_batches(plan, p));
            }
    return STATUS_OK;
}

/* Adds a round for each repeat, shuffled by Fisher and Yates' method. */
static enum status add_runs(struct study_plan *plan)
{
    int64_t n = plan->n_cells;
    TRY(array_new(&plan->run, n * plan->spec->repeats));
    for (int repeat = 1; repeat <= plan->spec->repeats; repeat++) {
        struct rng rng = rng_at((uint64_t)plan->spec->seed, RNG_SHUFFLE, (uint64_t)repeat, 0);
        struct study_run *round = &plan->run[plan->n_runs];
        for (int64_t i = 0; i < n; i++) {
            int64_t j = rng_below(&rng, (uint32_t)(i + 1));
            round[i] = round[j];
            round[j] = (struct study_run){.cell = i, .repeat = repeat};
        }
        plan->n_runs += n;
    }
    return STATUS_OK;
}

enum status study_plan_make(const struct study_spec *spec, struct study_plan *plan)
{
    enum status st;
    *plan = (struct study_plan){.spec = spec};
    /* Space for one cell more than the limit, because add_cell builds a cell before it finds a
     * duplicate. */
    CHECK(array_new(&plan->cell, ANALYSIS_MAX_CELLS + 1));
    CHECK(add_cells(plan));
    CHECK(add_runs(plan));
done:
    if (st != STATUS_OK)
        study_plan_free(plan);
    return st;
}

void study_plan_free(struct study_plan *plan)
{
    free(plan->cell);
    free(plan->run);
    *plan = (struct study_plan){0};
}

static json_t *cell_json(const struct study_cell *c)
{
    return json_new("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "name", c->name, "mode",
                    study_mode_str(c->mode), "precision", c->precision, "arch", c->arch, "data",
                    c->data->name, "scaling", analysis_scaling_str(c->scaling), "devices",
                    (json_int_t)c->devices, "ranks", (json_int_t)c->ranks, "batch",
                    (json_int_t)c->batch);
}

/* Sets *line to the command as one line for a shell; the caller frees *line. */
static enum status command_line(const struct study_plan *plan, const struct study_run *run,
                                const char *dir, char **line)
{
    struct words w = {0};
    enum status st;
    CHECK(study_run_command(plan, run, "ampscale", dir, false, &w));
    CHECK(words_shell(&w, line));
done:
    words_free(&w);
    return st;
}

enum status study_plan_json(const struct study_plan *plan, const char *dir, json_t **out)
{
    enum status st = STATUS_OK;
    json_t *cells = json_array(), *runs = json_array();
    for (int64_t i = 0; i < plan->n_cells; i++)
        json_add(cells, cell_json(&plan->cell[i]));
    for (int64_t i = 0; i < plan->n_runs; i++) {
        char *line;
        CHECK(command_line(plan, &plan->run[i], dir, &line));
        json_add(runs, json_new("{s:s, s:i, s:s}", "cell", plan->cell[plan->run[i].cell].name,
                                "repeat", plan->run[i].repeat, "command", line));
        free(line);
    }
    *out = json_new("{s:i, s:O, s:O, s:O}", "schema", STUDY_SCHEMA, "study", plan->spec->json,
                    "cells", cells, "runs", runs);
done:
    json_decref(cells);
    json_decref(runs);
    return st;
}

bool study_run_matches(const struct study_plan *plan, const struct study_run *run,
                       const regex_t *only)
{
    char name[ANALYSIS_NAME_SIZE + 32];
    snprintf(name, sizeof name, "%s/r%d", plan->cell[run->cell].name, run->repeat);
    return !only || regexec(only, name, 0, NULL, 0) == 0;
}

enum status study_plan_print(const struct study_plan *plan, const char *dir, const bool *wanted,
                             FILE *out)
{
    for (int64_t i = 0; i < plan->n_runs; i++) {
        char *line;
        if (!wanted[i])
            continue;
        TRY(command_line(plan, &plan->run[i], dir, &line));
        fprintf(out, "%s\n", line);
        free(line);
    }
    return STATUS_OK;
}
