/* Tests AMP reports end to end: of a network by name, of runs, and of folders without a run. */
#include "base/file.h"
#include "runners/trainer.h"
#include "tests/model/net_rig.h"
#include "tests/results/scratch.h"
#include "tests/runners/checkpoint_save.h"
#include "tests/verify/json_at.h"
#include "verify/amp_report.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 4, CLASSES = 3, SIZE = 32 };

static FILE *printed;

/* Each test runs in an empty folder, in which "run" is the folder of a run. */
static int set_up(void **state)
{
    printed = tmpfile();
    return !printed || scratch_set_up(state) != 0 || chdir(*state) != 0 || mkdir("run", 0777) != 0;
}

static int tear_down(void **state)
{
    fclose(printed);
    return chdir("/") != 0 || scratch_tear_down(state) != 0;
}

static struct amp_report_config by_name(void)
{
    return (struct amp_report_config){.arch = "resnet8",
                                      .image_size = SIZE,
                                      .batch = BATCH,
                                      .classes = CLASSES,
                                      .batches = 2,
                                      .seed = -1,
                                      .devices = "cpu",
                                      .threads = 1,
                                      .out = "out",
                                      .stream = printed};
}

static struct amp_report_config of_run(void)
{
    struct amp_report_config c = by_name();
    c.run = "run";
    c.arch = NULL;
    c.image_size = c.batch = c.classes = 0;
    return c;
}

static json_t *report(const struct amp_report_config *c)
{
    char out[4096];
    size_t size;
    assert_ok(amp_report_run(c, out, sizeof out));
    assert_string_equal(out, "out");
    char *text = scratch_read("out", AMP_REPORT_NAME, &size);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    free(text);
    return o;
}

static double number(const json_t *record, const char *path)
{
    return json_number_value(json_at(record, path));
}

static const json_t *layer(const json_t *record, const char *name)
{
    const json_t *o, *layers = json_object_get(record, "layers");
    for (size_t i = 0; (o = json_array_get(layers, i)); i++)
        if (strcmp(json_string_value(json_object_get(o, "layer")), name) == 0)
            return o;
    fail_msg("the record has no layer '%s'", name);
    return NULL;
}

/* Each tensor is counted once, and padding is not counted. The shapes are those of resnet8. */
static void every_gradient_counts_once(void **state)
{
    struct amp_report_config c = by_name();
    json_t *r = report(&c);
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
    for (int i = 0; i < COUNT(expected); i++) {
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
    struct amp_report_config c = by_name();
    json_t *first = report(&c), *r;
    check_sums(first, "activations", 1);
    check_sums(first, "weights", 2);
    assert_true(number(first, "loss_scale") == 65536);
    assert_true(number(first, "loss") > 0.5 && number(first, "loss") < 3);
    double largest = number(first, "total/all/largest");
    double scale = number(first, "finding/recommended_scale");
    double headroom = log2(65504 / largest / 65536);
    assert_true(fabs(number(first, "total/all/headroom_bits") - headroom) < 1e-7);
    assert_true(scale * largest <= 65504.0 / 4 || scale == 1);

    rewind(printed);
    assert_int_equal(ftruncate(fileno(printed), 0), 0);
    c.json = true;
    r = report(&c);
    rewind(printed);
    json_t *shown = json_loadf(printed, 0, NULL);
    assert_true(json_equal(first, r) && shown && json_equal(shown, r));
    json_decref(shown);
    json_decref(r);

    c.loss_scale = scale;
    r = report(&c);
    assert_true(number(r, "total/all/at_scale/underflow") == number(first, "finding/underflow"));
    assert_string_equal(json_string_value(json_object_get(r, "loss_scale_from")), "flag");
    json_decref(r);
    json_decref(first);
}

/* Writes run.json of a run on synthetic data. Members of `config` are added to the usual members,
 * or replace them. */
static void write_run(const char *config)
{
    static const char usual[] = "{\"arch\":\"resnet8\",\"image_size\":32,\"batch_size\":4,"
                                "\"classes\":3,\"seed\":5,\"data\":null,\"dummy\":true}";
    json_t *o = json_loads(usual, 0, NULL), *changes = json_loads(config, 0, NULL);
    assert_true(o && changes);
    assert_int_equal(json_object_update(o, changes), 0);
    json_t *run = json_pack("{s:i, s:o}", "schema", 1, "config", o);
    char *text = json_dumps(run, 0);
    scratch_write("run", "run.json", text, strlen(text));
    free(text);
    json_decref(run);
    json_decref(changes);
}

static void write_checkpoint(double scale)
{
    static const struct program_config training = {
        .batch = BATCH, .train = true, .float_input = true};
    struct train_identity identity = {.arch = "resnet8",
                                      .classes = CLASSES,
                                      .image_size = SIZE,
                                      .batch = BATCH,
                                      .precision = "amp"};
    struct train_state at = {.epoch = 2, .step = 17, .scaler = {.scale = scale}};
    struct net_rig rig = {0};
    net_rig_open(&rig, "cpu", "resnet8", CLASSES, SIZE, &training, 1);
    net_rig_fill(&rig);
    assert_ok(checkpoint_save("run/" CHECKPOINT_NAME, rig.net, rig.graph, &identity, &at));
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
    struct amp_report_config c = of_run();
    write_checkpoint(2048);
    for (int i = 0; i < COUNT(table); i++) {
        write_run(table[i].config);
        json_t *r = report(&c);
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
    struct amp_report_config fresh = by_name(), run = of_run();
    write_run("{}");
    write_checkpoint(2048);
    fresh.seed = 5;
    json_t *a = report(&fresh), *b = report(&run);
    assert_true(number(a, "loss") != number(b, "loss"));
    json_decref(a);

    assert_int_equal(rename("run/" CHECKPOINT_NAME, "run/" CHECKPOINT_PREV_NAME), 0);
    scratch_write("run", CHECKPOINT_NAME, "torn", 4);
    a = report(&run);
    assert_true(number(a, "loss") == number(b, "loss"));
    json_decref(a);
    json_decref(b);
}

static void expect_refusal(const char *says)
{
    struct amp_report_config c = of_run();
    char out[4096];
    enum status st = amp_report_run(&c, out, sizeof out);
    if (st == STATUS_OK || !strstr(status_message(), says) || strchr(status_message(), '\n'))
        fail_msg("%s, not about %s: %s", status_str(st), says, status_message());
    assert_false(path_exists("out"));
}

static void hostile_runs(void **state)
{
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
        {"{\"arch\":\"resnet18\"}", "was trained with -a resnet8, not resnet18"},
        {"{\"classes\":4}", " classes, not 4"},
    };
    expect_refusal("run.json");
    scratch_write("run", "run.json", "{", 1);
    expect_refusal("not valid JSON");
    write_run("{}");
    expect_refusal("no checkpoint yet");
    scratch_write("run", CHECKPOINT_NAME, "torn", 4);
    expect_refusal("no undamaged checkpoint");
    scratch_write("run", "run.json", "{\"schema\":1}", 12);
    expect_refusal("'arch'");
    write_checkpoint(2048);
    for (int i = 0; i < COUNT(cases); i++) {
        write_run(cases[i].config);
        expect_refusal(cases[i].says);
    }
    static const double scales[] = {NAN, INFINITY, 0, -2};
    write_run("{\"loss_scaling\":{}}");
    for (int i = 0; i < COUNT(scales); i++) {
        write_checkpoint(scales[i]);
        expect_refusal("no undamaged checkpoint");
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
