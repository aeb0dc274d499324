/* Compares the networks with torchvision's: names, shapes, sizes and initial weights. */
#include "net_rig.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Output of torchvision_graphs.py with torchvision 0.14; the script explains the columns. */
struct row {
    const char *arch;
    int size, n_params;
    int64_t trained;
    uint64_t states, modules;
};
static const struct row rows[] = {
#include "tests/model/torchvision_graphs.inc"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const struct param *param_named(const struct graph *g, const char *name)
{
    for (int i = 0; i < g->n_params; i++)
        if (strcmp(g->param[i].name, name) == 0)
            return &g->param[i];
    fail_msg("%s has no parameter '%s'", g->arch, name);
    return NULL;
}

static const struct node *node_named(const struct graph *g, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (strcmp(g->node[i].name, name) == 0)
            return &g->node[i];
    fail_msg("%s has no layer '%s'", g->arch, name);
    return NULL;
}

enum { LINE_LENGTH = NAME_MAX_LEN + 64, LINES_MAX = 2048 };
static char line[LINES_MAX][LINE_LENGTH];

/* The hash of the first n lines. */
static uint64_t lines_hash(size_t n)
{
    char *text = calloc(n, LINE_LENGTH), *end = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, line[i]);
    uint64_t hash = hash_fnv1a64(text);
    free(text);
    return hash;
}

static uint64_t states_hash(const struct graph *g)
{
    for (int i = 0; i < g->n_params; i++) {
        const struct param *p = &g->param[i];
        char *end = stpcpy(line[i], p->name);
        for (int k = 0; k < p->ndim; k++)
            end += sprintf(end, "%c%" PRId64, k ? 'x' : ':', p->dim[k]);
        strcpy(end, "\n");
    }
    return lines_hash((size_t)g->n_params);
}

static int line_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static uint64_t modules_hash(const struct graph *g)
{
    size_t n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *v = &g->node[i];
        if (v->name[0])
            sprintf(line[n++], "%s:%" PRId64 "x%" PRId64 "x%" PRId64 "\n", v->name, v->c, v->h,
                    v->w);
    }
    qsort(line, n, LINE_LENGTH, line_compare);
    return lines_hash(n);
}

static void test_networks_are_torchvisions(void **state)
{
    const char *arch;
    for (int k = 0; (arch = graph_arch_name(k)); k++) {
        /* torchvision has no resnet8; test_resnet8 checks this network */
        bool seen = strcmp(arch, "resnet8") == 0;
        for (int i = 0; i < N_ROWS; i++) {
            if (strcmp(arch, rows[i].arch) != 0)
                continue;
            struct graph *g = net_rig_graph(arch, 1000, rows[i].size);
            assert_int_equal(g->n_params, rows[i].n_params);
            assert_int_equal(graph_params_trained(g), rows[i].trained);
            assert_int_equal(states_hash(g), rows[i].states);
            assert_int_equal(modules_hash(g), rows[i].modules);
            graph_free(g);
            seen = true;
        }
        if (!seen)
            fail_msg("torchvision_graphs.py does not list '%s'", arch);
    }
}

static void test_resnet8(void **state)
{
    struct graph *g = net_rig_graph("resnet8", 10, 32);
    assert_int_equal(graph_params_trained(g), 78042);
    assert_int_equal(g->n_params, 9 * 5 + 2);
    assert_int_equal(param_named(g, "layer3.0.downsample.0.weight")->dim[0], 64);
    assert_int_equal(param_named(g, "layer1.0.conv2.weight")->dim[1], 16);
    assert_int_equal(node_named(g, "layer1.0.conv1")->h, 32);
    assert_int_equal(node_named(g, "layer3.0.conv2")->w, 8);
    assert_int_equal(node_named(g, "fc")->c, 10);
    graph_free(g);
}

static void test_flops_and_dropout(void **state)
{
    struct graph *g = net_rig_graph("alexnet", 10, 224);
    assert_true(node_named(g, "classifier.3")->dropout_p == 0.5f);
    graph_free(g);
    g = net_rig_graph("resnet50", 1000, 224);
    assert_true(graph_flops_forward(g) == 2.0 * 4089184256.0);
    graph_free(g);
    g = net_rig_graph("resnext50_32x4d", 1000, 224);
    assert_true(fabs(graph_flops_forward(g) / 2 - 4.23e9) < 0.005e9); /* torchvision's own figure */
    graph_free(g);
}

/* PyTorch accepts the smallest size of images too. */
static void test_wrong_requests(void **state)
{
    static const struct {
        const char *arch;
        int classes, size;
        const char *says; /* NULL: the network is built */
    } cases[] = {
        {"alexnet", 10, 63, NULL},
        {"alexnet", 10, 62, "use at least 63"},
        {"vgg11", 10, 32, NULL},
        {"vgg11", 10, 31, "use at least 32"},
        {"resnet8", 10, 1, NULL},
        {"resnet18", 10, 0, "0 pixels"},
        {"resnet18", 10, 1 << 30, "pixels"},
        {"resnet18", 0, 64, "0 classes"},
        {"resnet19", 10, 64, "'resnet19'"},
        {"resnet19", 10, 64, "vgg19_bn"}, /* the list of all names */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph *g;
        enum status st = graph_build(cases[i].arch, cases[i].classes, cases[i].size, &g);
        if (cases[i].says)
            expect_failed(st, STATUS_USAGE, cases[i].says);
        else
            assert_int_equal(st, STATUS_OK);
        assert_true((g == NULL) == (cases[i].says != NULL));
        graph_free(g);
    }
}

struct moments {
    double mean, deviation, min, max;
    double within; /* fraction of the values within one standard deviation of the mean */
};

/* Statistics of a parameter's initial values. */
static struct moments moments_of(const struct param *p)
{
    int64_t n = param_count(p);
    float *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    param_init_values(p, 1, v);
    struct moments m = {.min = INFINITY, .max = -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        m.mean += v[i] / (double)n;
        m.min = fmin(m.min, v[i]);
        m.max = fmax(m.max, v[i]);
    }
    for (int64_t i = 0; i < n; i++)
        m.deviation += (v[i] - m.mean) * (v[i] - m.mean) / (double)n;
    m.deviation = sqrt(m.deviation);
    for (int64_t i = 0; i < n; i++)
        m.within += (fabs(v[i] - m.mean) <= m.deviation) / (double)n;
    free(v);
    return m;
}

enum init { NORMAL, UNIFORM, CONSTANT };

/* PyTorch's initial values: normal with a mean of 0 and this deviation, uniform between -size and
 * size, or constant. The bounds are at least five standard errors for 100000 values. */
static void check_init(const struct param *p, enum init init, double size)
{
    struct moments m = moments_of(p);
    bool many = param_count(p) >= 100000;
    if (init == CONSTANT) {
        assert_true(m.min == size && m.max == size);
    } else if (init == NORMAL) {
        assert_true(many && fabs(m.mean) < 0.016 * size);
        assert_true(fabs(m.deviation / size - 1) < 0.012);
        assert_true(fabs(m.within - 0.6827) < 0.008);
    } else {
        double inner = (many ? 0.999 : 0.95) * size;
        assert_true(m.min >= -size && m.max <= size && m.min < -inner && m.max > inner);
        assert_true(!many || fabs(m.deviation / (size / sqrt(3)) - 1) < 0.012);
        assert_true(!many || fabs(m.within - 1 / sqrt(3)) < 0.008);
    }
}

/* In a grouped convolution, fan_out is the number of outputs times the window size. */
static void test_init(void **state)
{
    static const struct {
        const char *arch, *param;
        enum init init;
        double square; /* of the size */
    } cases[] = {
        {"resnet18", "layer2.1.conv2.weight", NORMAL, 2.0 / (128 * 9)},
        {"resnet18", "fc.weight", UNIFORM, 1.0 / 512},
        {"resnet18", "bn1.weight", CONSTANT, 1},
        {"resnet18", "bn1.bias", CONSTANT, 0},
        {"resnet18", "bn1.running_mean", CONSTANT, 0},
        {"resnet18", "bn1.running_var", CONSTANT, 1},
        {"resnext50_32x4d", "layer4.1.conv2.weight", NORMAL, 2.0 / (1024 * 9)},
        {"vgg11_bn", "features.8.weight", NORMAL, 2.0 / (256 * 9)},
        {"vgg11_bn", "features.8.bias", CONSTANT, 0},
        {"vgg11_bn", "classifier.6.weight", NORMAL, 0.0001},
        {"alexnet", "features.3.weight", UNIFORM, 1.0 / (64 * 25)},
        {"alexnet", "classifier.1.bias", UNIFORM, 1.0 / 9216},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph *g = net_rig_graph(cases[i].arch, 1000, 64);
        check_init(param_named(g, cases[i].param), cases[i].init, sqrt(cases[i].square));
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks_are_torchvisions),
        cmocka_unit_test(test_resnet8),
        cmocka_unit_test(test_flops_and_dropout),
        cmocka_unit_test(test_wrong_requests),
        cmocka_unit_test(test_init),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
