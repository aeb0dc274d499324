/* Tests AMP reports end to end: of a network by name, of runs, and of folders without a run. */
#include "base/file.h"
#include "runners/trainer.h"
#include "tests/model/net_rig.h"
#include "tests/results/scratch.h"
#include "tests/runners/checkpoint_save.h"
#include "verify/amp_report.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BATCH = 4, CLASSES = 3, SIZE = 32 };

struct fixture {
    char dir[SCRATCH_MAX];
    char run[SCRATCH_MAX + 16], out[SCRATCH_MAX + 16];
    FILE *printed;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    snprintf(f->run, sizeof f->run, "%s/run", f->dir);
    snprintf(f->out, sizeof f->out, "%s/out", f->dir);
    f->printed = tmpfile();
    assert_non_null(f->printed);
    assert_ok(dir_make(f->run));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    fclose(f->printed);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

static struct amp_report_config by_name(const struct fixture *f)
{
    return (struct amp_report_config){.arch = "resnet8",
                                      .image_size = SIZE,
                                      .batch = BATCH,
                                      .classes = CLASSES,
                                      .batches = 2,
                                      .seed = -1,
                                      .devices = "cpu",
                                      .threads = 1,
                                      .out = f->out,
                                      .stream = f->printed};
}

static struct amp_report_config of_run(const struct fixture *f)
{
    struct amp_report_config c = by_name(f);
    c.run = f->run;
    c.arch = NULL;
    c.image_size = c.batch = c.classes = 0;
    return c;
}

static json_t *report(const struct fixture *f, const struct amp_report_config *c)
{
    char out[4096];
    size_t size;
    assert_ok(amp_report_run(c, out, sizeof out));
    assert_string_equal(out, f->out);
    char *text = scratch_read(f->out, AMP_REPORT_NAME, &size);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    free(text);
    return o;
}

/* Returns the number at a path such as "total/all/nonzero". In a path, an element of an array is
 * its index. */
static double number(const json_t *o, const char *path)
{
    char copy[256], *rest = copy, *part;
    snprintf(copy, sizeof copy, "%s", path);
    while ((part = strsep(&rest, "/")))
        o = json_is_array(o) ? json_array_get(o, (size_t)atoi(part)) : json_object_get(o, part);
    if (!json_is_number(o))
        fail_msg("the record has no number '%s'", path);
    return json_number_value(o);
}

static const json_t *layer(const json_t *record, const char *name)
{
    size_t i;
    const json_t *o;
    json_array_foreach(json_object_get(record, "layers"), i,
                       o) if (strcmp(json_string_value(json_object_get(o, "layer")), name) ==
                              0) return o;
    fail_msg("the record has no layer '%s'", name);
    return NULL;
}

/* Each tensor is counted once, and padding is not counted. The shapes are those of resnet8. */
static void every_gradient_counts_once(void **state)
{
    const struct fixture *f = *state;
    struct amp_report_config c = by_name(f);
    json_t *r = report(f, &c);
    static const struct {
        const char *layer, *kind;
        int per_batch;
    } expected[] = {
        {"loss", "activations", BATCH * CLASSES},
        {"fc", "activations", BATCH * 64},
        {"fc", "weights", 64 * CLASSES + CLASSES},
        {"avgpool", "activations", BATCH * 64 * 8 * 8},
        /* The shortcut gets the same gradient as this layer. It is not counted again. */
        {"layer3.0.bn2", "activations", BATCH * 64 * 8 * 8},
        {"layer3.0.conv2", "weights", 64 * 64 * 9},
        {"layer3.0.conv1", "activations", BATCH * 32 * 16 * 16},
        {"layer3.0.downsample.0", "activations", BATCH * 32 * 16 * 16},
        /* the gradient at this layer's output is a sum of two gradients, and is counted too */
        {"layer2.0.bn2", "activations", 2 * BATCH * 32 * 16 * 16},
        {"bn1", "activations", BATCH * 16 * 32 * 32},
        {"conv1", "weights", 16 * 3 * 9}, /* three channels; padding of the layout is not counted */
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const json_t *kind = json_object_get(layer(r, expected[i].layer), expected[i].kind);
        if (number(kind, "values") != 2.0 * expected[i].per_batch)
            fail_msg("%s of '%s': %g values", expected[i].kind, expected[i].layer,
                     number(kind, "values"));
    }
    /* the image needs no gradient */
    assert_null(json_object_get(layer(r, "conv1"), "activations"));
    assert_null(json_object_get(layer(r, "bn1"), "weights")); /* fp32 in every policy */
    json_decref(r);
}

/* The numbers in the total, the layers and the histogram agree with each other. */
static void check_sums(const json_t *r, const char *kind, size_t column)
{
    double nonzero = 0, lost = 0, binned = 0;
    const json_t *o, *total = json_object_get(json_object_get(r, "total"), kind);
    size_t i;
    json_array_foreach(json_object_get(r, "layers"), i, o)
    {
        const json_t *of = json_object_get(o, kind);
        nonzero += of ? number(of, "nonzero") : 0;
        lost += of ? number(of, "at_one/underflow") : 0;
    }
    json_array_foreach(json_object_get(r, "histogram"), i, o)
    {
        binned += json_number_value(json_array_get(o, column));
    }
    assert_true(nonzero > 0 && nonzero == number(total, "nonzero") && nonzero == binned);
    assert_true(lost == number(total, "at_one/underflow"));
    assert_true(number(total, "not_finite") == 0);
}

/* A second report is the same and, with `json`, is printed. At the recommended scale, as many
 * values are lost as predicted. */
static void numbers_agree(void **state)
{
    const struct fixture *f = *state;
    struct amp_report_config c = by_name(f);
    json_t *first = report(f, &c), *r;
    check_sums(first, "activations", 1);
    check_sums(first, "weights", 2);
    assert_true(number(first, "loss_scale") == 65536);
    assert_true(number(first, "loss") > 0.5 && number(first, "loss") < 3);
    double largest = number(first, "total/all/largest");
    double scale = number(first, "finding/recommended_scale");
    double headroom = log2(65504 / largest / 65536);
    assert_true(fabs(number(first, "total/all/headroom_bits") - headroom) < 1e-9);
    assert_true(scale * largest <= 65504.0 / 4 || scale == 1);

    rewind(f->printed);
    assert_int_equal(ftruncate(fileno(f->printed), 0), 0);
    c.json = true;
    r = report(f, &c);
    rewind(f->printed);
    json_t *printed = json_loadf(f->printed, 0, NULL);
    assert_true(json_equal(first, r) && printed && json_equal(printed, r));
    json_decref(printed);
    json_decref(r);

    c.loss_scale = scale;
    r = report(f, &c);
    assert_true(number(r, "total/all/at_scale/underflow") == number(first, "finding/underflow"));
    assert_string_equal(json_string_value(json_object_get(r, "loss_scale_from")), "flag");
    json_decref(r);
    json_decref(first);
}

/* Writes run.json of a run on synthetic data. Members of `config` are added to the usual members,
 * or replace them. */
static void write_run(const struct fixture *f, const char *config)
{
    static const char usual[] = "{\"arch\":\"resnet8\",\"image_size\":32,\"batch_size\":4,"
                                "\"classes\":3,\"seed\":5,\"data\":null,\"dummy\":true}";
    json_t *o = json_loads(usual, 0, NULL), *changes = json_loads(config, 0, NULL);
    assert_true(o && changes);
    assert_int_equal(json_object_update(o, changes), 0);
    json_t *run = json_pack("{s:i, s:o}", "schema", 1, "config", o);
    char *text = json_dumps(run, 0);
    scratch_write(f->run, "run.json", text, strlen(text));
    free(text);
    json_decref(run);
    json_decref(changes);
}

static void write_checkpoint(const struct fixture *f, const char *name, int classes, double scale)
{
    static const struct program_config training = {
        .batch = BATCH, .train = true, .float_input = true};
    struct train_identity identity = {.arch = "resnet8",
                                      .classes = classes,
                                      .image_size = SIZE,
                                      .batch = BATCH,
                                      .precision = "amp"};
    struct train_state at = {.epoch = 2, .step = 17, .scaler = {.scale = scale}};
    struct net_rig rig = {0};
    char path[SCRATCH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", f->run, name);
    net_rig_open(&rig, "cpu", "resnet8", classes, SIZE, &training, 1);
    net_rig_fill(&rig);
    assert_ok(checkpoint_save(path, rig.net, rig.graph, &identity, &at));
    net_rig_close(&rig);
}

static void the_scale_of_a_run(void **state)
{
    static const struct {
        const char *config;
        double scale;
        const char *from;
    } table[] = {
        {"{\"precision\":\"amp\",\"loss_scaling\":{\"init\":65536}}", 2048, "checkpoint"},
        {"{\"precision\":\"O3\"}", 1, "unscaled run"},
        {"{\"precision\":\"fp32\"}", 65536, "default"},
        {"{\"precision\":\"bf16\"}", 65536, "default"},
    };
    const struct fixture *f = *state;
    struct amp_report_config c = of_run(f);
    write_checkpoint(f, CHECKPOINT_NAME, CLASSES, 2048);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        write_run(f, table[i].config);
        json_t *r = report(f, &c);
        assert_true(number(r, "loss_scale") == table[i].scale);
        assert_string_equal(json_string_value(json_object_get(r, "loss_scale_from")),
                            table[i].from);
        assert_true(number(r, "subject/step") == 17 && number(r, "seed") == 5);
        json_decref(r);
    }
}

/* The weights are those of the checkpoint or, if it is damaged, of the previous checkpoint. */
static void checkpoints(void **state)
{
    const struct fixture *f = *state;
    struct amp_report_config fresh = by_name(f), run = of_run(f);
    write_run(f, "{}");
    write_checkpoint(f, CHECKPOINT_NAME, CLASSES, 2048);
    fresh.seed = 5;
    json_t *a = report(f, &fresh), *b = report(f, &run);
    assert_true(number(a, "loss") != number(b, "loss"));
    json_decref(a);

    char name[SCRATCH_MAX + 64], prev[SCRATCH_MAX + 64], out[4096];
    snprintf(name, sizeof name, "%s/" CHECKPOINT_NAME, f->run);
    snprintf(prev, sizeof prev, "%s/" CHECKPOINT_PREV_NAME, f->run);
    assert_int_equal(rename(name, prev), 0);
    scratch_write(f->run, CHECKPOINT_NAME, "torn", 4);
    a = report(f, &run);
    assert_true(number(a, "loss") == number(b, "loss"));
    json_decref(a);
    json_decref(b);

    scratch_write(f->run, CHECKPOINT_PREV_NAME, "torn", 4);
    assert_int_equal(amp_report_run(&run, out, sizeof out), STATUS_DATA);
    assert_non_null(strstr(status_message(), "no undamaged checkpoint"));
}

static void expect_refusal(const struct fixture *f, const char *says)
{
    struct amp_report_config c = of_run(f);
    char out[4096];
    enum status st = amp_report_run(&c, out, sizeof out);
    if (st == STATUS_OK || !strstr(status_message(), says) || strchr(status_message(), '\n'))
        fail_msg("%s, not about %s: %s", status_str(st), says, status_message());
    assert_false(path_exists(f->out));
}

static void hostile_runs(void **state)
{
    const struct fixture *f = *state;
    static const struct {
        const char *config, *says;
    } cases[] = {
        {"{\"arch\":null}", "'arch'"},
        {"{\"arch\":\"../../etc\"}", "../../etc"},
        {"{\"image_size\":0}", "'image_size'"},
        {"{\"image_size\":1000000000000}", "'image_size'"},
        {"{\"batch_size\":-4}", "'batch_size'"},
        {"{\"batch_size\":\"4\"}", "'batch_size'"},
        {"{\"classes\":0}", "'classes'"},
        {"{\"seed\":-1}", "'seed'"},
        {"{\"label_smoothing\":7}", "'label_smoothing'"},
        {"{\"precision\":\"fp7\"}", "'precision'"},
        {"{\"dummy\":false}", "'data'"},
        {"{\"dummy\":false,\"data\":\"/nonexistent\"}", "has moved"},
        {"{\"arch\":\"resnet18\"}", "does not have the shape"},
        {"{\"classes\":4}", "does not have the shape"},
    };
    expect_refusal(f, "run.json");
    scratch_write(f->run, "run.json", "{", 1);
    expect_refusal(f, "not valid JSON");
    write_run(f, "{}");
    expect_refusal(f, "no checkpoint yet");
    scratch_write(f->run, "run.json", "{\"schema\":1}", 12);
    expect_refusal(f, "'arch'");
    write_checkpoint(f, CHECKPOINT_NAME, CLASSES, 2048);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_run(f, cases[i].config);
        expect_refusal(f, cases[i].says);
    }
    static const double scales[] = {NAN, INFINITY, 0, -2};
    write_run(f, "{\"loss_scaling\":{}}");
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        write_checkpoint(f, CHECKPOINT_NAME, CLASSES, scales[i]);
        expect_refusal(f, "no undamaged checkpoint");
    }
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(every_gradient_counts_once),
        WITH_FOLDER(numbers_agree),
        WITH_FOLDER(the_scale_of_a_run),
        WITH_FOLDER(checkpoints),
        WITH_FOLDER(hostile_runs),
    };
    return cmocka_run_group_tests_name("amp_report", tests, NULL, NULL);
}
