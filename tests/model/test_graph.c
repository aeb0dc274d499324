/* Compares the networks with torchvision's: names, shapes, sizes and initial weights. */
#include "model/graph.h"
#include "tests/model/peer.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static struct graph *build(const char *arch, int classes, int size)
{
    struct graph *g;
    if (graph_build(arch, classes, size, &g) != STATUS_OK)
        fail_msg("%s at %d: %s", arch, size, status_message());
    return g;
}

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

/* A growing line of text, large enough for all layers of the deepest network. */
struct text {
    char bytes[1 << 16];
    size_t used;
};

static void text_add(struct text *t, const char *line)
{
    t->used += (size_t)snprintf(t->bytes + t->used, sizeof t->bytes - t->used, "%s", line);
    assert_true(t->used < sizeof t->bytes);
}

static uint64_t states_hash(const struct graph *g)
{
    struct text t = {.used = 0};
    for (int i = 0; i < g->n_params; i++) {
        const struct param *p = &g->param[i];
        text_add(&t, p->name);
        for (int k = 0; k < p->ndim; k++) {
            char dim[32];
            snprintf(dim, sizeof dim, "%c%" PRId64, k ? 'x' : ':', p->dim[k]);
            text_add(&t, dim);
        }
        text_add(&t, "\n");
    }
    return hash_fnv1a64(t.bytes);
}

enum { LINE_LENGTH = NAME_MAX_LEN + 64 };

static int line_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static uint64_t modules_hash(const struct graph *g)
{
    static char line[2048][LINE_LENGTH];
    size_t n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *v = &g->node[i];
        if (v->name[0] == '\0')
            continue;
        assert_true(n < 2048);
        snprintf(line[n++], LINE_LENGTH, "%s:%" PRId64 "x%" PRId64 "x%" PRId64 "\n", v->name, v->c,
                 v->h, v->w);
    }
    qsort(line, n, LINE_LENGTH, line_compare);
    struct text t = {.used = 0};
    for (size_t i = 0; i < n; i++)
        text_add(&t, line[i]);
    return hash_fnv1a64(t.bytes);
}

static void test_networks_are_torchvisions(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROWS; i++) {
        struct graph *g = build(rows[i].arch, 1000, rows[i].size);
        print_message("%s at %d\n", rows[i].arch, rows[i].size);
        assert_int_equal(g->n_params, rows[i].n_params);
        assert_int_equal(graph_params_trained(g), rows[i].trained);
        assert_int_equal(states_hash(g), rows[i].states);
        assert_int_equal(modules_hash(g), rows[i].modules);
        graph_free(g);
    }
}

static void test_every_network_is_compared(void **state)
{
    (void)state;
    const char *arch;
    for (int i = 0; (arch = graph_arch_name(i)); i++) {
        /* torchvision has no resnet8; test_resnet8 checks this network */
        int seen = strcmp(arch, "resnet8") == 0;
        for (int k = 0; k < N_ROWS; k++)
            seen |= strcmp(arch, rows[k].arch) == 0;
        if (!seen)
            fail_msg("torchvision_graphs.py does not list '%s'", arch);
    }
}

static void test_torchvision_still_says_so(void **state)
{
    (void)state;
    const char *python = peer_python("torchvision");
    if (!python)
        skip();
    char command[8400], line[256], want[256];
    snprintf(command, sizeof command,
             "'%s' " AMPSCALE_SOURCE_DIR "/tests/model/torchvision_graphs.py", python);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    for (int i = 0; i < N_ROWS; i++) {
        const struct row *r = &rows[i];
        snprintf(want, sizeof want,
                 "{\"%s\", %d, %d, %" PRId64 ", 0x%016" PRIx64 ", 0x%016" PRIx64 "},\n", r->arch,
                 r->size, r->n_params, r->trained, r->states, r->modules);
        assert_non_null(fgets(line, sizeof line, out));
        assert_string_equal(line, want);
    }
    assert_null(fgets(line, sizeof line, out));
    assert_int_equal(pclose(out), 0);
}

static void test_resnet8(void **state)
{
    (void)state;
    struct graph *g = build("resnet8", 10, 32);
    assert_int_equal(graph_params_trained(g), 78042);
    assert_int_equal(g->n_params, 9 * 5 + 2);
    assert_int_equal(param_named(g, "layer3.0.downsample.0.weight")->dim[0], 64);
    assert_int_equal(param_named(g, "layer1.0.conv2.weight")->dim[1], 16);
    assert_int_equal(node_named(g, "layer1.0.conv1")->h, 32);
    assert_int_equal(node_named(g, "layer3.0.conv2")->w, 8);
    assert_int_equal(node_named(g, "fc")->c, 10);
    graph_free(g);
}

/* Lowering requires that inputs come first, and that in a residual block the last batch norm of the
 * main path, the add and the ReLU are adjacent. */
static void test_order_of_nodes(void **state)
{
    (void)state;
    const char *arch;
    for (int a = 0; (arch = graph_arch_name(a)); a++) {
        struct graph *g = build(arch, 7, 64);
        assert_int_equal(g->node[0].kind, NODE_INPUT);
        assert_int_equal(g->node[g->n_nodes - 1].kind, NODE_LINEAR);
        assert_int_equal(g->node[g->n_nodes - 1].c, 7);
        for (int i = 1; i < g->n_nodes; i++) {
            const struct node *n = &g->node[i];
            assert_in_range(n->in[0], 0, i - 1);
            if (n->kind != NODE_ADD) {
                assert_int_equal(n->in[1], -1);
                continue;
            }
            assert_int_equal(n->in[0], i - 1);
            assert_int_equal(g->node[i - 1].kind, NODE_BN);
            assert_in_range(n->in[1], 0, i - 2);
            assert_int_equal(g->node[n->in[1]].c, n->c);
            assert_int_equal(g->node[n->in[1]].h, n->h);
            assert_int_equal(g->node[i + 1].kind, NODE_RELU);
        }
        graph_free(g);
    }
}

static void test_params_know_their_owner(void **state)
{
    (void)state;
    struct graph *g = build("vgg11_bn", 10, 32);
    for (int i = 0; i < g->n_params; i++) {
        const struct param *p = &g->param[i];
        const struct node *n = &g->node[p->node];
        assert_true(n->weight == i || n->bias == i || n->mean == i || n->var == i);
        assert_memory_equal(p->name, n->name, strlen(n->name));
        assert_int_equal(p->name[strlen(n->name)], '.');
    }
    graph_free(g);
}

static void test_flops(void **state)
{
    (void)state;
    struct graph *g = build("resnet50", 1000, 224);
    assert_true(graph_flops_forward(g) == 2.0 * 4089184256.0);
    for (int i = 0; i < g->n_nodes; i++)
        if (strcmp(g->node[i].name, "conv1") == 0)
            assert_true(node_flops_forward(g, i) == 2.0 * 64 * 3 * 7 * 7 * 112 * 112);
    graph_free(g);
    g = build("resnext50_32x4d", 1000, 224);
    assert_true(fabs(graph_flops_forward(g) / 2 - 4.23e9) < 0.005e9); /* torchvision's own figure */
    graph_free(g);
}

static void test_dropout_and_windows(void **state)
{
    (void)state;
    struct graph *g = build("alexnet", 10, 224);
    assert_true(node_named(g, "classifier.3")->dropout_p == 0.5f);
    const struct node *conv = node_named(g, "features.0"), *pool = node_named(g, "features.2");
    assert_int_equal(conv->kernel, 11);
    assert_int_equal(conv->stride, 4);
    assert_int_equal(conv->pad, 2);
    assert_int_equal(conv->groups, 1);
    assert_int_equal(pool->kernel, 3);
    assert_int_equal(pool->stride, 2);
    assert_int_equal(pool->pad, 0);
    graph_free(g);
    g = build("resnext50_32x4d", 10, 64);
    assert_int_equal(node_named(g, "layer2.0.conv2")->groups, 32);
    assert_int_equal(node_named(g, "layer2.0.conv2")->stride, 2);
    assert_int_equal(node_named(g, "layer2.0.conv1")->stride, 1);
    graph_free(g);
}

static void assert_build_refused(const char *arch, int classes, int size, const char *words)
{
    struct graph *g;
    assert_int_equal(graph_build(arch, classes, size, &g), STATUS_USAGE);
    assert_null(g);
    if (!strstr(status_message(), words))
        fail_msg("'%s' does not say '%s'", status_message(), words);
}

static void test_images_too_small(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int smallest; /* PyTorch accepts this as well */
    } cases[] = {{"alexnet", 63}, {"vgg11", 32}, {"vgg19_bn", 32}, {"resnet50", 1}, {"resnet8", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph_free(build(cases[i].arch, 10, cases[i].smallest));
        char says[32];
        snprintf(says, sizeof says, "use at least %d", cases[i].smallest);
        if (cases[i].smallest > 1)
            assert_build_refused(cases[i].arch, 10, cases[i].smallest - 1, says);
    }
    assert_build_refused("alexnet", 10, 20, "'features.5'");
    assert_build_refused("resnet18", 10, 0, "0 pixels");
    assert_build_refused("resnet18", 10, 1 << 30, "pixels");
}

static void test_wrong_requests(void **state)
{
    (void)state;
    assert_build_refused("resnet19", 10, 64, "'resnet19'");
    assert_build_refused("resnet19", 10, 64, "vgg19_bn");
    assert_build_refused("resnet18", 0, 64, "0 classes");
    assert_build_refused("resnet18", -1, 64, "classes");
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

/* The bounds are at least five standard errors for the sizes below (>= 100000 values). */
static void assert_normal(const struct param *p, double deviation)
{
    struct moments m = moments_of(p);
    assert_true(fabs(m.mean) < 0.016 * deviation);
    assert_true(fabs(m.deviation / deviation - 1) < 0.012);
    assert_true(fabs(m.within - 0.6827) < 0.008);
}

static void assert_uniform(const struct param *p, double bound)
{
    struct moments m = moments_of(p);
    assert_true(m.min >= -bound && m.max <= bound);
    assert_true(m.min < -0.999 * bound && m.max > 0.999 * bound);
    assert_true(fabs(m.deviation / (bound / sqrt(3)) - 1) < 0.012);
    assert_true(fabs(m.within - 1 / sqrt(3)) < 0.008);
}

static void test_init_resnet(void **state)
{
    (void)state;
    struct graph *g = build("resnet18", 1000, 64);
    assert_normal(param_named(g, "layer2.1.conv2.weight"), sqrt(2.0 / (128 * 9)));
    assert_normal(param_named(g, "layer4.0.downsample.0.weight"), sqrt(2.0 / 512));
    assert_uniform(param_named(g, "fc.weight"), 1 / sqrt(512));
    assert_int_equal(param_named(g, "fc.bias")->init, INIT_UNIFORM_FAN_IN);
    assert_int_equal(param_named(g, "fc.bias")->fan_in, 512);
    struct moments gamma = moments_of(param_named(g, "bn1.weight"));
    struct moments beta = moments_of(param_named(g, "bn1.bias"));
    struct moments mean = moments_of(param_named(g, "bn1.running_mean"));
    struct moments var = moments_of(param_named(g, "bn1.running_var"));
    assert_true(gamma.min == 1 && gamma.max == 1 && var.min == 1 && var.max == 1);
    assert_true(beta.min == 0 && beta.max == 0 && mean.min == 0 && mean.max == 0);
    graph_free(g);
}

/* As in PyTorch, fan_out of a grouped convolution is its number of outputs times its window size.
 */
static void test_init_groups(void **state)
{
    (void)state;
    struct graph *g = build("resnext50_32x4d", 1000, 64);
    assert_normal(param_named(g, "layer4.1.conv2.weight"), sqrt(2.0 / (1024 * 9)));
    graph_free(g);
}

static void test_init_vgg_and_alexnet(void **state)
{
    (void)state;
    struct graph *g = build("vgg11_bn", 1000, 32);
    assert_normal(param_named(g, "features.8.weight"), sqrt(2.0 / (256 * 9)));
    assert_int_equal(param_named(g, "features.8.bias")->init, INIT_ZERO);
    assert_normal(param_named(g, "classifier.6.weight"), 0.01);
    assert_int_equal(param_named(g, "classifier.0.bias")->init, INIT_ZERO);
    graph_free(g);
    g = build("alexnet", 1000, 64);
    assert_uniform(param_named(g, "features.3.weight"), 1 / sqrt(64 * 25));
    assert_int_equal(param_named(g, "features.3.bias")->init, INIT_UNIFORM_FAN_IN);
    assert_int_equal(param_named(g, "features.3.bias")->fan_in, 64 * 25);
    assert_int_equal(param_named(g, "classifier.1.bias")->fan_in, 9216);
    graph_free(g);
}

static void test_init_is_a_function_of_seed_and_name(void **state)
{
    (void)state;
    enum { N = 16 * 16 * 9 };
    float a[N], b[N];
    struct graph *g = build("resnet8", 10, 32), *other = build("resnet8", 3, 64);
    const struct param *conv1 = param_named(g, "layer1.0.conv1.weight");
    const struct param *conv2 = param_named(g, "layer1.0.conv2.weight");
    assert_int_equal(param_count(conv1), N);
    param_init_values(conv1, 5, a);
    param_init_values(param_named(other, "layer1.0.conv1.weight"), 5, b);
    assert_memory_equal(a, b, sizeof a);
    param_init_values(conv1, 6, b);
    assert_memory_not_equal(a, b, sizeof a);
    param_init_values(conv2, 5, b);
    assert_memory_not_equal(a, b, sizeof a);
    graph_free(g);
    graph_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks_are_torchvisions),
        cmocka_unit_test(test_every_network_is_compared),
        cmocka_unit_test(test_torchvision_still_says_so),
        cmocka_unit_test(test_resnet8),
        cmocka_unit_test(test_order_of_nodes),
        cmocka_unit_test(test_params_know_their_owner),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_dropout_and_windows),
        cmocka_unit_test(test_images_too_small),
        cmocka_unit_test(test_wrong_requests),
        cmocka_unit_test(test_init_resnet),
        cmocka_unit_test(test_init_groups),
        cmocka_unit_test(test_init_vgg_and_alexnet),
        cmocka_unit_test(test_init_is_a_function_of_seed_and_name),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
