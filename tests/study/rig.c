/* A small study with invented results. */
#include "rig.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char rig_study[] =
    "{\"schema\": 1, \"name\": \"rig\", \"about\": \"for tests\","
    " \"modes\": {\"nd\": [1], \"dp\": [2], \"ddp\": [2]},"
    " \"precisions\": [\"fp32\"], \"archs\": [\"resnet8\"],"
    " \"batch\": {\"weak\": [32], \"strong\": [64]},"
    " \"data\": [{\"name\": \"dummy\", \"classes\": 10, \"train\": 640, \"val\": 10},"
    "            {\"name\": \"jpeg\", \"folder\": \"images\"}],"
    " \"image_size\": 32, \"threads\": 1, \"workers\": 1, \"repeats\": 3,"
    " \"warmup_steps\": 5, \"measured_steps\": 20, \"seed\": 7, \"train\": [\"--lr\", \"0.05\"]}";

int rig_make(void **state, const char *study)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(study_spec_parse(study, strlen(study), "rig", &r->spec), STATUS_OK);
    assert_int_equal(study_plan_make(&r->spec, &r->plan), STATUS_OK);
    r->result = calloc((size_t)r->plan.n_cells, sizeof *r->result);
    assert_non_null(r->result);
    *state = r;
    return 0;
}

int rig_begin(void **state)
{
    return rig_make(state, rig_study);
}

int rig_end(void **state)
{
    struct rig *r = *state;
    analysis_free(&r->analysis);
    study_plan_free(&r->plan);
    study_spec_free(&r->spec);
    free(r->result);
    free(r);
    return 0;
}

int64_t rig_cell(const struct rig *r, const char *name)
{
    for (int64_t i = 0; i < r->plan.n_cells; i++)
        if (strcmp(r->plan.cell[i].name, name) == 0)
            return i;
    fail_msg("there is no cell '%s'", name);
    return -1;
}

void rig_run(struct rig *r, const char *cell, double images_per_s, double data, double comm)
{
    int64_t at = rig_cell(r, cell);
    struct study_result *result = &r->result[at];
    double step_s = (double)r->plan.cell[at].batch / images_per_s;
    for (result->n = 0; result->n < 3; result->n++) {
        struct study_sample *s = &result->sample[result->n];
        double rate = images_per_s * (0.99 + 0.01 * (double)result->n);
        *s = (struct study_sample){.images_per_s = rate,
                                   .wall = rate / 2,
                                   .seconds = 10,
                                   .top1 = 50,
                                   .top5 = 90,
                                   .slowest_rank = -1,
                                   .behind = NAN,
                                   .shared = true,
                                   .threads = 1,
                                   .cores = 2};
        s->split[ANALYSIS_DATA] = data * step_s;
        s->split[ANALYSIS_COMM] = comm * step_s;
        s->split[ANALYSIS_BACKWARD] = (1 - data - comm) * step_s;
    }
}

void rig_analyse(struct rig *r)
{
    assert_int_equal(study_analyse(&r->plan, r->result, &r->analysis), STATUS_OK);
}

const struct analysis_cell *rig_result(const struct rig *r, const char *cell)
{
    return &r->analysis.cell[rig_cell(r, cell)];
}
