/* Tests checkpoints. All of a checkpoint is restored bit for bit, damaged files are refused, and a
 * checkpoint of another run is refused with a message that names the difference. */
#include "base/file.h"
#include "base/rng.h"
#include "model/safetensors.h"
#include "tests/model/net_rig.h"
#include "tests/runners/checkpoint_save.h"
#include "tests/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARCH "resnet8"

enum { CLASSES = 10, SIZE = 32 };

static const struct program_config training = {
    .batch = 2, .train = true, .float_input = true, .momentum = 0.9f};

static const struct train_identity identity = {.arch = ARCH,
                                               .classes = CLASSES,
                                               .image_size = SIZE,
                                               .batch = 2,
                                               .ranks = 1,
                                               .seed = UINT64_MAX,
                                               .data = UINT64_C(0x0123456789abcdef),
                                               .precision = "amp"};

/* Values that would change if they were stored as decimal text or as float. */
static const struct train_state state_saved = {
    .epoch = 89,
    .batch = 5003,
    .step = INT64_C(4000000000000000001),
    .best_top1 = 100.0 / 3,
    .loss_sum = 0x1.23456789abcdep-1030,
    .count = INT64_C(1) << 40,
    .top1 = 12345,
    .top5 = 67890,
    .bad_images = 3,
    .scaler = {.scale = 0x1.fffffep14, .clean = 1999, .skipped = 17},
};

static void open_net(struct net_rig *r, const char *device)
{
    net_rig_open(r, device, ARCH, CLASSES, SIZE, &training, 1);
}

/* Sets random bits, but no NaN, because a reorder may change the bits of a NaN. */
static void set_random(struct net_rig *r)
{
    struct rng rng = rng_at(1, RNG_TEST, 0, 0);
    for (int k = 0; k < 2 * r->graph->n_params; k++) {
        const struct param *p = &r->graph->param[k / 2];
        enum param_value v = k % 2 ? VALUE_MOMENTUM : VALUE_WEIGHT;
        if (v == VALUE_MOMENTUM && !param_is_trained(p))
            continue;
        float *plain = net_rig_get(r, v, k / 2);
        for (int64_t e = 0; e < param_count(p); e++) {
            uint32_t bits = rng_u32(&rng);
            memcpy(&plain[e], &bits, sizeof bits);
            if (isnan(plain[e]))
                plain[e] = -0.0f;
        }
        assert_ok(network_set(r->net, v, k / 2, plain));
        free(plain);
    }
}

/* Checks that `a` has the bits of `b`, or zeros if `b` is NULL. */
static void assert_values(const struct net_rig *a, const struct net_rig *b, enum param_value v)
{
    for (int i = 0; i < a->graph->n_params; i++) {
        const struct param *p = &a->graph->param[i];
        size_t n = (size_t)param_count(p);
        if (v == VALUE_MOMENTUM && !param_is_trained(p))
            continue;
        float *x = net_rig_get(a, v, i), *y = b ? net_rig_get(b, v, i) : calloc(n, sizeof *y);
        assert_memory_equal(x, y, n * sizeof *x);
        free(x);
        free(y);
    }
}

/* All tests run in one folder. "c" is a checkpoint and "w" a weights file of `saved`. Tests that
 * must fail load into `other`. */
struct fixture {
    char dir[SCRATCH_MAX];
    struct net_rig saved, other;
};

static int set_up(void **state)
{
    static struct fixture f;
    scratch_make(f.dir);
    assert_int_equal(chdir(f.dir), 0);
    open_net(&f.saved, "cpu");
    open_net(&f.other, "cpu");
    set_random(&f.saved);
    assert_ok(checkpoint_save("c", f.saved.net, f.saved.graph, &identity, &state_saved));
    assert_ok(weights_save("w", f.saved.net, f.saved.graph, 1234));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    net_rig_close(&f->saved);
    net_rig_close(&f->other);
    assert_int_equal(chdir("/"), 0);
    scratch_remove(f->dir);
    return 0;
}

/* Loads the checkpoint of a CPU network on the CPU, and on the reference, which has other layouts.
 */
static void all_of_it_comes_back(void **state)
{
    struct fixture *f = *state;
    static const char *const devices[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        struct net_rig r;
        struct train_state s = {0};
        open_net(&r, devices[i]);
        assert_ok(checkpoint_load("c", r.net, r.graph, &identity, &s));
        assert_values(&r, &f->saved, VALUE_WEIGHT);
        assert_values(&r, &f->saved, VALUE_MOMENTUM);
        assert_memory_equal(&s, &state_saved, sizeof s);
        net_rig_close(&r);
    }
}

static void assert_same_files(const char *a, const char *b)
{
    size_t na, nb;
    char *x = scratch_read(".", a, &na), *y = scratch_read(".", b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na);
    free(x);
    free(y);
}

static void equal_runs_write_equal_bytes(void **state)
{
    struct net_rig r;
    struct train_state s;
    open_net(&r, "ref");
    assert_ok(checkpoint_load("c", r.net, r.graph, &identity, &s));
    sleep(1); /* a time stamp in the file would differ */
    assert_ok(checkpoint_save("c2", r.net, r.graph, &identity, &s));
    assert_ok(weights_save("w2", r.net, r.graph, 1234));
    assert_same_files("c", "c2");
    assert_same_files("w", "w2");
    net_rig_close(&r);
}

/* If a weight, a running statistic or a momentum is not finite, saving fails, and the file does not
 * change. */
static void what_is_not_finite_is_not_saved(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name;
        enum param_value v;
        float value;
        const char *says;
    } cases[] = {
        {"conv1.weight", VALUE_WEIGHT, NAN, "'conv1.weight' holds NaN values"},
        {"bn1.running_var", VALUE_WEIGHT, INFINITY, "'bn1.running_var' holds infinite values"},
        {"fc.bias", VALUE_MOMENTUM, -INFINITY, "'momentum/fc.bias' holds infinite values"},
    };
    const struct net_rig *r = &f->other;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct train_state s;
        int i = 0;
        assert_ok(checkpoint_load("c", r->net, r->graph, &identity, &s));
        assert_ok(checkpoint_save("kept", r->net, r->graph, &identity, &s));
        while (strcmp(r->graph->param[i].name, cases[k].name) != 0)
            i++;
        float *x = net_rig_get(r, cases[k].v, i);
        x[param_count(&r->graph->param[i]) - 1] = cases[k].value;
        assert_ok(network_set(r->net, cases[k].v, i, x));
        free(x);
        expect_failed(checkpoint_save("kept", r->net, r->graph, &identity, &s), STATUS_DIVERGED,
                      cases[k].says);
        assert_same_files("c", "kept");
        if (cases[k].v == VALUE_WEIGHT)
            assert_int_equal(weights_save("kept", r->net, r->graph, 1), STATUS_DIVERGED);
    }
}

/* The names are PyTorch's, with a counter of batches for each batch norm. Momentum has names that
 * PyTorch ignores. */
static void names_are_those_of_a_state_dict(void **state)
{
    struct fixture *f = *state;
    struct safetensors *file;
    size_t known = 0;
    assert_ok(safetensors_open("c", &file));
    for (int i = 0; i < f->saved.graph->n_params; i++) {
        const struct param *p = &f->saved.graph->param[i];
        char momentum[NAME_MAX_LEN + 16];
        snprintf(momentum, sizeof momentum, "momentum/%s", p->name);
        assert_non_null(safetensors_find(file, p->name));
        assert_int_equal(safetensors_find(file, momentum) != NULL, param_is_trained(p));
        known += 1 + param_is_trained(p) + (p->kind == PARAM_BN_MEAN);
    }
    assert_int_equal(safetensors_count(file), known);
    const struct safetensors_entry *e = safetensors_find(file, "bn1.num_batches_tracked");
    assert_true(e && e->dtype == SAFETENSORS_I64 && e->ndim == 0);
    assert_int_equal(*(const int64_t *)e->data, state_saved.step);
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    safetensors_close(file);
}

/* Writes the tensors of "w", except `skip`, with `prefix` before their names, and `extra`. */
static void copy_weights(const char *path, const char *prefix, const char *skip,
                         const struct safetensors_entry *extra)
{
    struct safetensors *file;
    assert_ok(safetensors_open("w", &file));
    size_t n = safetensors_count(file), kept = 0;
    struct safetensors_entry *entry = calloc(n + 1, sizeof *entry);
    char(*name)[NAME_MAX_LEN + 32] = calloc(n, sizeof *name);
    assert_true(entry && name);
    for (size_t i = 0; i < n; i++) {
        const struct safetensors_entry *e = safetensors_at(file, i);
        if (skip && strcmp(e->name, skip) == 0)
            continue;
        snprintf(name[kept], sizeof name[kept], "%s%s", prefix, e->name);
        entry[kept] = *e;
        entry[kept].name = name[kept];
        kept++;
    }
    if (extra)
        entry[kept++] = *extra;
    assert_ok(
        safetensors_write(path, &(struct safetensors_contents){.entry = entry, .n_entries = kept}));
    free(name);
    free(entry);
    safetensors_close(file);
}

/* Loading weights does not change the momentum. The file may be a checkpoint, or have the names
 * that DistributedDataParallel, torch.compile and Lightning make. */
static void weights_alone(void **state)
{
    struct fixture *f = *state;
    static const char *const prefix[] = {
        "module.",           "_orig_mod.",        "model.",
        "module._orig_mod.", "_orig_mod.module.", "model._orig_mod."};
    enum { PREFIXES = sizeof prefix / sizeof *prefix };
    for (int i = 0; i < PREFIXES + 2; i++) {
        struct net_rig r;
        if (i < PREFIXES)
            copy_weights("wrapped", prefix[i], NULL, NULL);
        open_net(&r, "cpu");
        assert_ok(weights_load(i < PREFIXES    ? "wrapped"
                               : i == PREFIXES ? "w"
                                               : "c",
                               r.net, r.graph, NULL));
        assert_values(&r, &f->saved, VALUE_WEIGHT);
        assert_values(&r, NULL, VALUE_MOMENTUM);
        net_rig_close(&r);
    }
}

/* A file may have several floating types. All become fp32: the values of half precision exactly,
 * those of double precision rounded to the nearest, ties to even. */
static void weights_of_other_types(void **state)
{
    static const struct {
        enum safetensors_dtype dtype;
        uint64_t bits;
        float want;
    } cases[] = {
        {SAFETENSORS_F16, 0x3c01, 1.0009765625f},
        {SAFETENSORS_F16, 0xfbff, -65504},
        {SAFETENSORS_F16, 0x0001, 0x1p-24f},
        {SAFETENSORS_BF16, 0x3f81, 1.0078125f},
        {SAFETENSORS_BF16, 0x8001, -0x1p-133f},
        {SAFETENSORS_F64, 0x3ff0000010000000, 1},                    /* 1 + 2^-24: a tie */
        {SAFETENSORS_F64, 0x3ff0000010000001, 1.00000011920929f},    /* above the tie */
        {SAFETENSORS_F64, 0xbff0000030000000, -1.0000002384185791f}, /* another tie */
        {SAFETENSORS_F64, 0x7e37e43c8800759c, INFINITY},             /* 1e300 */
    };
    struct fixture *f = *state;
    const struct graph *g = f->other.graph;
    int i = 0;
    while (strcmp(g->param[i].name, "bn1.weight") != 0)
        i++;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t n = (size_t)param_count(&g->param[i]), size = safetensors_dtype_size(cases[k].dtype);
        char data[1024] = "";
        assert_true(n * size <= sizeof data);
        memcpy(data + (n - 1) * size, &cases[k].bits, size);
        copy_weights("typed", "", "bn1.weight",
                     &(struct safetensors_entry){.name = "bn1.weight",
                                                 .dtype = cases[k].dtype,
                                                 .ndim = 1,
                                                 .dim = {(int64_t)n},
                                                 .data = data});
        assert_ok(weights_load("typed", f->other.net, g, NULL));
        float *plain = net_rig_get(&f->other, VALUE_WEIGHT, i);
        assert_true(plain[0] == 0 && plain[n - 1] == cases[k].want);
        free(plain);
    }
}

/* Checks that loading the file as weights of `arch` fails with a message that has `says` and not
 * `hides`. */
static void refuse_weights(const char *file, const char *arch, int classes, enum status want,
                           const char *says, const char *hides)
{
    struct net_rig r;
    net_rig_open(&r, "cpu", arch, classes, SIZE, &training, 1);
    expect_failed(weights_load(file, r.net, r.graph, NULL), want, says);
    assert_null(strstr(status_message(), hides));
    net_rig_close(&r);
}

static void weights_that_do_not_fit(void **state)
{
    static const int64_t zeros[16];
    const struct safetensors_entry counts = {
        .name = "bn1.bias", .dtype = SAFETENSORS_I64, .ndim = 1, .dim = {16}, .data = zeros};
    const struct safetensors_entry longer = {
        .name = "bn1.bias", .dtype = SAFETENSORS_F32, .ndim = 1, .dim = {17}, .data = zeros};
    const struct safetensors_entry aux = {
        .name = "aux.fc.weight", .dtype = SAFETENSORS_F32, .ndim = 1, .dim = {1}, .data = zeros};
    const struct safetensors_entry second = {
        .name = "conv1.weight", .dtype = SAFETENSORS_F32, .ndim = 1, .dim = {1}, .data = zeros};
    copy_weights("less", "", "layer2.0.bn1.running_var", NULL);
    refuse_weights("less", ARCH, CLASSES, STATUS_DATA, "'layer2.0.bn1.running_var'", "give -a");
    refuse_weights("absent", ARCH, CLASSES, STATUS_DATA, "'absent'", "-a");
    refuse_weights("w", ARCH, CLASSES + 1, STATUS_DATA, "has 10 classes, not 11", "-a");
    copy_weights("counts", "", "bn1.bias", &counts);
    refuse_weights("counts", ARCH, CLASSES, STATUS_DATA, "'bn1.bias' has the type I64", "-a");
    copy_weights("longer", "", "bn1.bias", &longer);
    refuse_weights("longer", ARCH, CLASSES, STATUS_DATA, "'bn1.bias' of the shape", "type");
    copy_weights("aux", "", NULL, &aux);
    refuse_weights("aux", ARCH, CLASSES, STATUS_DATA, "'aux.fc.weight' (1 of 1)", "give -a");
    copy_weights("twice", "module.", NULL, &second);
    refuse_weights("twice", ARCH, CLASSES, STATUS_DATA, "not part of resnet8", "give -a");
    copy_weights("encoder", "encoder.", NULL, NULL);
    refuse_weights("encoder", ARCH, CLASSES, STATUS_DATA, "no tensor 'conv1.weight'", "give -a");
}

static enum status get_zeros(void *context, size_t i, void *out)
{
    const struct graph *g = context;
    memset(out, 0, (size_t)param_count(&g->param[i]) * sizeof(uint16_t));
    return STATUS_OK;
}

/* Writes weights of `arch` in half precision. The file does not name the network. */
static void write_other(const char *path, const char *arch)
{
    struct graph *g;
    assert_ok(graph_build(arch, CLASSES, SIZE, &g));
    struct safetensors_entry *entry = calloc((size_t)g->n_params, sizeof *entry);
    assert_non_null(entry);
    for (int i = 0; i < g->n_params; i++) {
        const struct param *p = &g->param[i];
        entry[i] =
            (struct safetensors_entry){.name = p->name, .dtype = SAFETENSORS_F16, .ndim = p->ndim};
        memcpy(entry[i].dim, p->dim, sizeof p->dim);
    }
    assert_ok(safetensors_write(
        path,
        &(struct safetensors_contents){
            .entry = entry, .n_entries = (size_t)g->n_params, .get = get_zeros, .context = g}));
    free(entry);
    graph_free(g);
}

/* The tensors of a ResNet include those of a shallower one. 34 layers have 8 blocks of 10 tensors
 * that 18 layers do not have. */
static void weights_of_another_network(void **state)
{
    refuse_weights("w", "resnet18", CLASSES, STATUS_USAGE,
                   "-a resnet8, not resnet18; give -a resnet8", "tensor");
    refuse_weights("c", "resnet18", CLASSES, STATUS_USAGE, "give -a resnet8", "tensor");
    copy_weights("unnamed", "module.", NULL, NULL);
    refuse_weights("unnamed", "resnet18", CLASSES, STATUS_USAGE, "; give -a resnet8", "check");
    write_other("deeper", "resnet34");
    refuse_weights("deeper", "resnet18", CLASSES, STATUS_USAGE,
                   "'layer1.2.conv1.weight' (1 of 80); give -a resnet34", "check");
    refuse_weights("deeper", "resnet18", CLASSES + 1, STATUS_USAGE, "; give -a resnet34", "check");
    refuse_weights("deeper", "resnet50", CLASSES, STATUS_USAGE, "; give -a resnet34", "check");
}

/* For another number of classes, the last layer keeps its values, and all others are those of the
 * file. */
static void weights_for_other_classes(void **state)
{
    struct fixture *f = *state;
    struct net_rig r;
    int64_t classes = 0;
    net_rig_open(&r, "cpu", ARCH, CLASSES + 1, SIZE, &training, 1);
    assert_ok(network_init(r.net, 1));
    int n = r.graph->n_params, i = n - 2;
    float *last = net_rig_get(&r, VALUE_WEIGHT, i);
    assert_ok(weights_load("w", r.net, r.graph, &classes));
    assert_int_equal(classes, CLASSES);
    for (int k = 0; k < n - 1; k++) {
        float *x = net_rig_get(&r, VALUE_WEIGHT, k);
        float *y = k < i ? net_rig_get(&f->saved, VALUE_WEIGHT, k) : last;
        assert_memory_equal(x, y, (size_t)param_count(&r.graph->param[k]) * sizeof *x);
        free(x);
        free(y);
    }
    net_rig_close(&r);
    expect_failed(weights_load("deeper", f->other.net, f->other.graph, &classes), STATUS_USAGE,
                  "; give -a resnet34");
}

/* Checks that loading the file fails, with a message that contains `word`, and that the state does
 * not change. */
static void assert_refused(struct fixture *f, const char *file, const struct train_identity *id,
                           enum status want, const char *word)
{
    struct train_state s = {.step = 7};
    expect_failed(checkpoint_load(file, f->other.net, f->other.graph, id, &s), want, word);
    assert_int_equal(s.step, 7);
}

static void another_runs_checkpoint_is_refused(void **state)
{
    struct train_identity id[] = {identity, identity, identity, identity,
                                  identity, identity, identity};
    static const char *const word[] = {"-a resnet8, not resnet18",
                                       "classes 10, not 11",
                                       "--image-size 32, not 64",
                                       "-b 2, not 4",
                                       "--seed 18446744073709551615, not 0",
                                       "--precision amp, not fp32",
                                       "other data"};
    id[0].arch = "resnet18";
    id[1].classes = 11;
    id[2].image_size = 64;
    id[3].batch = 4;
    id[4].seed = 0;
    id[5].precision = "fp32";
    id[6].data ^= 1;
    for (size_t i = 0; i < sizeof id / sizeof *id; i++)
        assert_refused(*state, "c", &id[i], STATUS_USAGE, word[i]);
}

/* With data_changed, a checkpoint of other data is loaded, even if its position is beyond the new
 * end of an epoch; one of another number of classes is not. */
static void changed_data_are_accepted(void **state)
{
    struct fixture *f = *state;
    struct train_identity id = identity;
    struct train_state s;
    id.data_changed = true;
    id.batches = 1;
    assert_true(state_saved.batch > 3);
    assert_refused(f, "c", &id, STATUS_DATA, "'batch'");
    id.data ^= 1;
    assert_ok(checkpoint_load("c", f->saved.net, f->saved.graph, &id, &s));
    assert_int_equal(s.batch, state_saved.batch);
    assert_int_equal(s.data_before, identity.data);
    id = identity;
    id.data_changed = true;
    assert_ok(checkpoint_load("c", f->saved.net, f->saved.graph, &id, &s));
    assert_int_equal(s.data_before, 0);
    id.classes++;
    id.data ^= 1;
    assert_refused(f, "c", &id, STATUS_USAGE, "classes 10, not 11");
}

/* When a checkpoint is written within an epoch, each rank has trained `batch` batches. The position
 * in the epoch is `batch` times the number of ranks. With another number of ranks, the run resumes
 * at this position or shortly before it. */
static void positions_follow_the_ranks(void **state)
{
    static const struct {
        int ranks;
        int64_t batch;
        int now;
        int64_t want;
    } rows[] = {{1, 12, 1, 12}, {2, 6, 1, 12}, {2, 6, 3, 4}, {3, 5, 2, 7}, {4, 1, 8, 0}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_identity id = identity;
        struct train_state s = state_saved, got;
        id.ranks = rows[i].ranks;
        s.batch = rows[i].batch;
        assert_ok(checkpoint_save("ranks", f->saved.net, f->saved.graph, &id, &s));
        id.ranks = rows[i].now;
        assert_ok(checkpoint_load("ranks", f->saved.net, f->saved.graph, &id, &got));
        assert_int_equal(got.batch, rows[i].want);
    }
}

/* A resumed run keeps the fusion and the algorithm of convolutions. Files of older programs name
 * neither, or only the fusion; their convolutions were direct. */
static void settings_that_are_kept(void **state)
{
    struct fixture *f = *state;
    const struct safetensors_pair pair[] = {{"fuse", "stats"}};
    struct train_identity id = identity, kept = {.fuse = FUSE_COUNT};
    for (enum conv_algorithm a = CONV_AUTO; a <= CONV_WINOGRAD; a++) {
        id.conv_algorithm = a;
        id.fuse = FUSE_ALL;
        assert_ok(checkpoint_save("kept", f->saved.net, f->saved.graph, &id, &state_saved));
        assert_ok(checkpoint_kept("kept", &kept));
        assert_true(kept.conv_algorithm == a && kept.fuse == FUSE_ALL);
    }
    for (size_t n = 0; n <= 1; n++) {
        kept = (struct train_identity){.fuse = FUSE_COUNT, .conv_algorithm = CONV_WINOGRAD};
        assert_ok(checkpoint_kept("absent", &kept));
        assert_true(kept.fuse == FUSE_COUNT && kept.conv_algorithm == CONV_WINOGRAD);
        assert_ok(
            safetensors_write("old", &(struct safetensors_contents){.pair = pair, .n_pairs = n}));
        assert_ok(checkpoint_kept("old", &kept));
        assert_int_equal(kept.fuse, n ? FUSE_STATS : FUSE_COUNT);
        assert_int_equal(kept.conv_algorithm, CONV_DIRECT);
    }
}

/* A file with a correct checksum but impossible values is refused like a damaged one. */
static void states_that_make_no_sense(void **state)
{
    struct fixture *f = *state;
    struct train_identity id = identity;
    id.batches = state_saved.batch;
    struct train_state s[] = {state_saved, state_saved, state_saved, state_saved,
                              state_saved, state_saved, state_saved, state_saved};
    static const char *const key[] = {"loss_scale", "loss_scale",     "best_top1",  "best_top1",
                                      "batch",      "epoch_loss_sum", "epoch_top1", "epoch"};
    s[0].scaler.scale = NAN;
    s[1].scaler.scale = 0;
    s[2].best_top1 = INFINITY;
    s[3].best_top1 = 100.5;
    s[4].batch += 2;
    s[5].loss_sum = INFINITY;
    s[6].top1 = s[6].count + 1;
    s[7].epoch = INT64_MAX / 4;
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        char says[64];
        assert_ok(checkpoint_save("odd", f->saved.net, f->saved.graph, &id, &s[i]));
        snprintf(says, sizeof says, "the value of '%s' is impossible", key[i]);
        assert_refused(f, "odd", &id, STATUS_DATA, says);
    }
}

static void files_that_are_no_checkpoint(void **state)
{
    scratch_write(".", "empty", "", 0);
    assert_refused(*state, "absent", &identity, STATUS_DATA, "'absent'");
    assert_refused(*state, ".", &identity, STATUS_DATA, "'.'");
    assert_refused(*state, "w", &identity, STATUS_DATA, "--init");
    assert_refused(*state, "empty", &identity, STATUS_DATA, "'empty'");
}

/* A file that another tool has rewritten has no checksum. Damage would not be found, so the file is
 * refused. */
static void a_checkpoint_without_checksum_is_refused(void **state)
{
    struct fixture *f = *state;
    size_t size;
    char *bytes = scratch_read(".", "c", &size);
    char *key = memmem(bytes, size, "file_crc32", 10);
    assert_non_null(key);
    memcpy(key, "file_crc33", 10);
    scratch_write(".", "unchecked", bytes, size);
    free(bytes);
    assert_refused(f, "unchecked", &identity, STATUS_DATA, "checksum");
    assert_ok(weights_load("unchecked", f->other.net, f->other.graph, NULL));
}

static void assert_damaged(struct fixture *f, const char *bytes, size_t size)
{
    scratch_write(".", "damaged", bytes, size);
    assert_refused(f, "damaged", &identity, STATUS_DATA, "'damaged'");
}

/* Flips a bit, cuts the file, or has a block of zeros, as after a crash of a file system: in turn
 * in the length, the header, the metadata at its end, the tensors, and the last bytes. */
static void one_bit_is_enough(void **state)
{
    enum { BLOCK = 4096 };
    size_t size;
    char *bytes = scratch_read(".", "c", &size);
    size_t header = (size_t)(unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8 |
                    (size_t)(unsigned char)bytes[2] << 16;
    assert_in_range(header, 1000, size / 2);
    const size_t begin[] = {0, 8, 8 + header - 64, 8 + header, size - 8};
    const size_t end[] = {8, 8 + header, 8 + header, size, size};
    struct rng rng = rng_at(2, RNG_TEST, 0, 0);
    char *damaged = malloc(size + BLOCK);
    assert_non_null(damaged);
    for (int i = 0; i < 200; i++) {
        size_t from = begin[i % 5], at = from + rng_below(&rng, (uint32_t)(end[i % 5] - from));
        memcpy(damaged, bytes, size);
        damaged[at] ^= (char)(1 << rng_below(&rng, 8));
        assert_damaged(*state, damaged, size);
        if (i % 4 == 0)
            assert_damaged(*state, bytes, at);
        memset(damaged + at, 0, BLOCK);
        if (i % 4 == 1 && at + BLOCK < size)
            assert_damaged(*state, damaged, size);
    }
    free(damaged);
    free(bytes);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_comes_back),
        cmocka_unit_test(equal_runs_write_equal_bytes),
        cmocka_unit_test(what_is_not_finite_is_not_saved),
        cmocka_unit_test(weights_alone),
        cmocka_unit_test(weights_of_other_types),
        cmocka_unit_test(names_are_those_of_a_state_dict),
        cmocka_unit_test(weights_that_do_not_fit),
        cmocka_unit_test(weights_of_another_network),
        cmocka_unit_test(weights_for_other_classes),
        cmocka_unit_test(another_runs_checkpoint_is_refused),
        cmocka_unit_test(changed_data_are_accepted),
        cmocka_unit_test(files_that_are_no_checkpoint),
        cmocka_unit_test(positions_follow_the_ranks),
        cmocka_unit_test(settings_that_are_kept),
        cmocka_unit_test(states_that_make_no_sense),
        cmocka_unit_test(a_checkpoint_without_checksum_is_refused),
        cmocka_unit_test(one_bit_is_enough),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, set_up, tear_down);
}
