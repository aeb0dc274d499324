/* Compares one training step of whole networks on the CPU backend with the reference, gradient by
 * gradient.
 *
 * The tolerance: if all ReLU inputs have the same sign on both backends, the gradients of these
 * networks agree to 2e-5 of their norm. A rounding difference can change the sign of a ReLU input
 * close to zero, and neither backend is wrong then. The changed sign changes all gradients of
 * earlier layers by up to about
 *     1 / sqrt(units of the layer of the ReLU)
 * which is 2 % for these layers. A wrong operation changes these gradients by about 100 %. */
#include "net_rig.h"
#include "tests/sanitized.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The allowed difference of a gradient, as a fraction of its norm. A thousandth of the norm of all
 * gradients is added to the norm of the gradient. */
#define GRADIENT_TOLERANCE  2e-2
#define LOSS_TOLERANCE      1e-5
#define STATISTIC_TOLERANCE 1e-4

enum { CLASSES = 10 };

/* The results of a step, in plain order. For each parameter: the value of a statistic, or the
 * gradient of a weight. */
struct outcome {
    struct loss_metrics metrics;
    int n_params;
    float **value;
};

/* Reduces the scale of residual branches. (With zero-init-residual, this scale is 0 when training
 * begins.) At full scale, rounding errors grow by 1e5 over the 50 layers of the grouped network. */
static void soften_branches(struct net_rig *r)
{
    for (int i = 0; i < r->graph->n_params; i++) {
        const struct param *p = &r->graph->param[i];
        if (!strstr(p->name, ".bn3.weight"))
            continue;
        float *gamma = net_rig_get(r, VALUE_WEIGHT, i);
        for (int64_t k = 0; k < param_count(p); k++)
            gamma[k] *= 0.2f;
        assert_ok(network_set(r->net, VALUE_WEIGHT, i, gamma));
        free(gamma);
    }
}

/* Only one network is open at a time: some machines have too little memory for two of the largest
 * networks. */
static void compute(struct outcome *o, const char *device, const struct graph *g,
                    const struct program_config *config)
{
    static const struct step_state state = {.seed = 5, .step = 3, .loss_scale = 1, .grad_scale = 1};
    struct net_rig r;
    net_rig_open_lazy(&r, device, g->arch, CLASSES, g->image_size, config, 1);
    struct program *p = network_program(r.net, 0);
    net_rig_fill(&r);
    soften_branches(&r);
    net_rig_input(&r, p, 0);
    assert_ok(program_state(p, &state));
    for (int phase = PHASE_INPUT; phase <= PHASE_BACKWARD; phase++)
        assert_ok(program_run(p, (enum phase)phase));
    assert_ok(program_metrics(p, &o->metrics));
    o->n_params = g->n_params;
    o->value = calloc((size_t)g->n_params, sizeof *o->value);
    assert_non_null(o->value);
    for (int i = 0; i < g->n_params; i++)
        o->value[i] =
            net_rig_get(&r, param_is_trained(&g->param[i]) ? VALUE_GRADIENT : VALUE_WEIGHT, i);
    net_rig_close(&r);
}

static void outcome_free(struct outcome *o)
{
    for (int i = 0; i < o->n_params; i++)
        free(o->value[i]);
    free(o->value);
}

/* The Euclidean norm of a - b, or of `a` if `b` is NULL. */
static double norm(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

static double norm_of_gradients(const struct graph *g, const struct outcome *o)
{
    double sum = 0;
    for (int i = 0; i < g->n_params; i++) {
        double one = norm(o->value[i], NULL, param_count(&g->param[i]));
        sum += param_is_trained(&g->param[i]) ? one * one : 0;
    }
    return sqrt(sum);
}

static void assert_agree(const struct graph *g, const struct outcome *got,
                         const struct outcome *want)
{
    double all = norm_of_gradients(g, want), loss = want->metrics.loss_sum;
    assert_true(all > 0.1);
    if (!(fabs(got->metrics.loss_sum - loss) <= LOSS_TOLERANCE * loss))
        fail_msg("%s: the loss is %.9g, not %.9g", g->arch, got->metrics.loss_sum, loss);
    for (int i = 0; i < g->n_params; i++) {
        const struct param *p = &g->param[i];
        double size = norm(want->value[i], NULL, param_count(p));
        double error = norm(got->value[i], want->value[i], param_count(p));
        double tolerance = param_is_trained(p) ? GRADIENT_TOLERANCE * (size + 1e-3 * all)
                                               : STATISTIC_TOLERANCE * size;
        if (!(error <= tolerance))
            fail_msg("%s: '%s': error %.3g, norm %.3g", g->arch, p->name, error, size);
    }
}

/* Computes on both devices; the caller frees both outcomes. */
static void compare(const char *arch, int size, int batch)
{
    const struct program_config config = {
        .batch = batch, .train = true, .float_input = true, .label_smoothing = 0.1f};
    struct graph *g;
    struct outcome ref, cpu;
    assert_ok(graph_build(arch, CLASSES, size, &g));
    compute(&ref, "ref", g, &config);
    compute(&cpu, "cpu", g, &config);
    assert_agree(g, &cpu, &ref);
    outcome_free(&ref);
    outcome_free(&cpu);
    graph_free(g);
}

static void small_residual_network(void **state)
{
    (void)state;
    compare("resnet8", 32, 4);
}

/* Skips the test in a sanitized build. A test calls this function if it runs the same code as
 * another test, only with different numbers: sanitizers check only the code, and are slow. */
static void only_numbers(void)
{
    if (!SANITIZED)
        return;
    print_message("sanitized build: another test runs the same code\n");
    skip();
}

static void residual_network(void **state)
{
    (void)state;
    only_numbers();
    compare("resnet18", 33, 3);
}

static void grouped_convolutions(void **state)
{
    (void)state;
    compare("resnext50_32x4d", 33, 2);
}

/* The bias of a convolution before batch norm has a gradient of zero, except for rounding errors.
 */
static void plain_network_with_batch_norm(void **state)
{
    (void)state;
    only_numbers();
    compare("vgg11_bn", 32, 2);
}

/* Dropout is active: both devices must draw the same masks. */
static void plain_network_with_dropout(void **state)
{
    (void)state;
    compare("alexnet", 63, 2);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_residual_network),
        cmocka_unit_test(residual_network),
        cmocka_unit_test(grouped_convolutions),
        cmocka_unit_test(plain_network_with_batch_norm),
        cmocka_unit_test(plain_network_with_dropout),
    };
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
