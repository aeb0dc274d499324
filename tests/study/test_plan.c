/* Tests studies: valid studies are read and invalid ones refused. Also tests their cells, the order
 * of runs, and the commands. */
#include "rig.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Studies with one error: the first `from` of the rig's study is replaced by `to`. */
static void test_refused(void **state)
{
    static const char flag[] = "\"--lr\", \"0.05\"", ddp[] = "\"ddp\": [2]";
    static const char repeats[] = "\"repeats\": 3", folder[] = "\"folder\": \"images\"";
    static const struct {
        const char *from, *to, *says;
    } rows[] = {
        {"{", "", "'bad' line 1"},
        {"\"schema\": 1", "\"schema\": 2", "'schema' must be"},
        {"\"repeats\"", "\"repeat\"", "unknown key 'repeat'; did you mean 'repeats'?"},
        {ddp, "\"ddp\": [1]", "'modes.ddp' must be a whole number from 2"},
        {ddp, "\"ddp\": [4, 2]", "'modes.ddp' must ascend"},
        {ddp, "\"ddp\": [3]", "64 images cannot be divided among 3 devices"},
        {ddp, "\"ddp2\": [4]", "'devices_per_rank' is missing"},
        {"\"fp32\"", "\"fp32\", \"fp32\"", "'precisions' has 'fp32' twice"},
        {"\"resnet8\"", "\"../x\"", "'archs' must be a list of names"},
        {"\"dummy\"", "\"jpeg\"", "'data' has two sets named 'jpeg'"},
        {folder, "\"folder\": \"images\", \"train\": 3", "unknown key 'data.train'"},
        {repeats, "\"repeats\": 0", "'repeats' must be a whole number from 1 to 64"},
        {"\"measured_steps\": 20,", "", "give one of 'measured_steps' and 'epochs'"},
        {flag, "\"--out=x\"", "the study sets '--out'"},
        {flag, "\"--epoch\", \"3\"", "the study sets '--epochs'"},
        {flag, "\"-b2\"", "the study sets '-b'"},
        {flag, "\"--\"", "'--' is no flag"},
        {flag, "0.05", "'train' must be a list of strings"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct study_spec spec;
        char *bad = NULL;
        const char *at = strstr(rig_study, rows[i].from);
        assert_non_null(at);
        int n = asprintf(&bad, "%.*s%s%s", (int)(at - rig_study), rig_study, rows[i].to,
                         at + strlen(rows[i].from));
        assert_true(n > 0);
        expect_failed(study_spec_parse(bad, (size_t)n, "bad", &spec), STATUS_USAGE, rows[i].says);
        free(bad);
    }
}

static void test_presets(void **state)
{
    for (const struct preset *p = study_presets; p->name; p++) {
        struct study_spec spec;
        struct study_plan plan;
        assert_int_equal(study_spec_load(p->name, &spec), STATUS_OK);
        assert_string_equal(spec.name, p->name);
        assert_int_equal(study_plan_make(&spec, &plan), STATUS_OK);
        assert_true(plan.n_runs == plan.n_cells * spec.repeats && plan.n_cells > 10);
        study_plan_free(&plan);
        study_spec_free(&spec);
    }
    struct study_spec spec;
    assert_int_equal(study_spec_load("quikc", &spec), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "unknown preset 'quikc'; known: quick, hal"));
}

/* Each round has every cell once, and the order differs between rounds. The same seed gives the
 * same order. */
static void test_order(void **state)
{
    struct rig *r = *state;
    const struct study_plan *p = &r->plan;
    struct study_plan again;
    assert_int_equal(p->n_runs, 24);
    assert_int_equal(study_plan_make(&r->spec, &again), STATUS_OK);
    assert_memory_equal(p->run, again.run, (size_t)p->n_runs * sizeof *p->run);
    study_plan_free(&again);
    int64_t same = 0;
    for (int round = 0; round < 3; round++) {
        bool seen[8] = {false};
        for (int i = 0; i < 8; i++) {
            const struct study_run *run = &p->run[round * 8 + i];
            assert_int_equal(run->repeat, round + 1);
            assert_false(seen[run->cell]);
            seen[run->cell] = true;
            same += run->cell == p->run[i].cell;
        }
    }
    assert_in_range(same, 8, 20);
}

/* No two runs of a repeat are the same training: the cells of weak and strong scaling with the same
 * batch per device are one. The cell has the name of weak scaling, as in folders of studies that
 * ran both. */
static void test_each_training_once(void **state)
{
    static const char *const names[] = {"nd-fp32-resnet8-dummy-1x32", "nd-fp32-resnet8-dummy-1x128",
                                        "ddp-fp32-resnet8-dummy-weak-2x32",
                                        "ddp-fp32-resnet8-dummy-strong-2x64",
                                        "ddp-fp32-resnet8-dummy-weak-4x32"};
    struct study_spec spec;
    struct study_plan p;
    char *text;
    const char *at = strstr(rig_study, "\"modes\""), *end = strstr(rig_study, " \"image_size\"");
    int n = asprintf(&text,
                     "%.*s\"modes\": {\"nd\": [1], \"ddp\": [2, 4]}, \"precisions\": [\"fp32\"], "
                     "\"archs\": [\"resnet8\"], \"batch\": {\"weak\": [32], \"strong\": [128]}, "
                     "\"data\": [{\"name\": \"dummy\", \"classes\": 10, \"train\": 640, \"val\": "
                     "10}],%s",
                     (int)(at - rig_study), rig_study, end);
    assert_int_equal(study_spec_parse(text, (size_t)n, "once", &spec), STATUS_OK);
    assert_int_equal(study_plan_make(&spec, &p), STATUS_OK);
    assert_int_equal(p.n_cells, 5);
    assert_int_equal(p.n_runs, 5 * spec.repeats);
    for (int64_t i = 0; i < p.n_cells; i++) {
        const struct study_cell *c = &p.cell[i];
        bool shared = c->devices == 4;
        assert_string_equal(c->name, names[i]);
        assert_true((c->in[ANALYSIS_WEAK] && c->in[ANALYSIS_STRONG]) == shared);
    }
    study_plan_free(&p);
    study_spec_free(&spec);
    free(text);
}

static void expect_command(const struct rig *r, const char *cell, bool resume, const char *want)
{
    struct study_run run = {.cell = rig_cell(r, cell), .repeat = 2};
    struct words w = {0};
    char *line;
    assert_int_equal(study_run_command(&r->plan, &run, "ampscale", "s", resume, &w), STATUS_OK);
    assert_int_equal(words_shell(&w, &line), STATUS_OK);
    assert_string_equal(line, want);
    free(line);
    words_free(&w);
}

static void test_commands(void **state)
{
    struct rig *r = *state;
    expect_command(r, "nd-fp32-resnet8-jpeg-1x64", true,
                   "ampscale train images -a resnet8 --image-size 32 -b 64 --mode nd --devices cpu "
                   "--precision fp32 --threads 1 -j 1 --seed 8 --steps 25 --epochs 1000000 --lr "
                   "0.05 --out s/cells/nd-fp32-resnet8-jpeg-1x64/r2 --resume auto");
    r->spec.launcher = json_pack("[s, s, s]", "srun", "-n{ranks}", "--");
    expect_command(
        r, "ddp-fp32-resnet8-jpeg-weak-2x32", false,
        "srun -n2 -- ampscale train images -a resnet8 --image-size 32 -b 32 --mode ddp --devices "
        "cpu --precision fp32 --threads 1 -j 1 --seed 8 --steps 25 --epochs 1000000 --lr 0.05 "
        "--out s/cells/ddp-fp32-resnet8-jpeg-weak-2x32/r2");
    json_decref((json_t *)r->spec.launcher);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_presets),
        TEST(test_order),
        TEST(test_each_training_once),
        TEST(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
