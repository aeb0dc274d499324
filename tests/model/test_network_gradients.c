/* Compares the gradients of the network of crossroads.h with finite differences of its loss, on the
 * reference device. */
#include "crossroads.h"
#include "net_rig.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BATCH = 3 };

static const struct program_config training = {
    .batch = BATCH, .train = true, .float_input = true, .label_smoothing = 0.1f};
static const struct step_state state_used = {
    .seed = 3, .step = 2, .loss_scale = 1, .grad_scale = 1};

/* Returns the mean loss with the current weights. */
static double loss_of(struct net_rig *r)
{
    struct program *p = network_program(r->net, 0);
    struct loss_metrics m;
    assert_ok(program_run(p, PHASE_INPUT));
    assert_ok(program_run(p, PHASE_FORWARD));
    assert_ok(program_run(p, PHASE_LOSS));
    assert_ok(program_metrics(p, &m));
    return m.loss_sum / BATCH;
}

/* Returns the loss after parameter i is moved by `length` along `direction`. */
static double loss_along(struct net_rig *r, int i, const float *weight, const double *direction,
                         double length)
{
    int64_t n = param_count(&r->graph->param[i]);
    float *moved = malloc((size_t)n * sizeof *moved);
    assert_non_null(moved);
    for (int64_t k = 0; k < n; k++)
        moved[k] = (float)((double)weight[k] + length * direction[k]);
    assert_ok(network_set(r->net, VALUE_WEIGHT, i, moved));
    free(moved);
    return loss_of(r);
}

/* A unit vector: the sum of the gradient's direction and a random direction, with equal parts. */
static double *choose_direction(const float *gradient, int64_t n, uint64_t i)
{
    struct rng rng = rng_at(4, RNG_TEST, i, 0);
    double *d = malloc((size_t)n * sizeof *d);
    double size = 0, sum = 0;
    assert_non_null(d);
    for (int64_t k = 0; k < n; k++)
        size += (double)gradient[k] * (double)gradient[k];
    size = size > 0 ? sqrt(size) : 1;
    for (int64_t k = 0; k < n; k++) {
        d[k] = (double)gradient[k] / size + rng_normal(&rng) / sqrt((double)n);
        sum += d[k] * d[k];
    }
    for (int64_t k = 0; k < n; k++)
        d[k] /= sqrt(sum);
    return d;
}

/* Computes the slope of the loss along a direction from the gradient, and compares it with a
 * central difference. The rounding error of the difference is about 1e-6 / length, and its
 * truncation error is of order length^2. Kinks of ReLUs add to both errors. */
static void check_param(struct net_rig *r, int i)
{
    const double length = 4e-3;
    const struct param *p = &r->graph->param[i];
    int64_t n = param_count(p);
    float *weight = net_rig_get(r, VALUE_WEIGHT, i), *gradient = net_rig_get(r, VALUE_GRADIENT, i);
    double *direction = choose_direction(gradient, n, (uint64_t)i), slope = 0;
    for (int64_t k = 0; k < n; k++)
        slope += (double)gradient[k] * direction[k];
    double measured = (loss_along(r, i, weight, direction, length) -
                       loss_along(r, i, weight, direction, -length)) /
                      (2 * length);
    assert_ok(network_set(r->net, VALUE_WEIGHT, i, weight));
    if (!(fabs(measured - slope) <= 0.02 * fabs(slope) + 1e-3))
        fail_msg("'%s': the measured slope is %.6g, the gradient gives %.6g", p->name, measured,
                 slope);
    free(direction);
    free(gradient);
    free(weight);
}

static void open_drawn(struct net_rig *r, const char *device)
{
    assert_ok(device_open(device, 2, &r->dev));
    r->graph = crossroads_graph();
    assert_ok(network_open(r->dev, r->graph, &training, 1, &r->net));
    net_rig_fill(r);
    struct program *p = network_program(r->net, 0);
    net_rig_input(r, p, 0);
    assert_ok(program_state(p, &state_used));
    for (int phase = PHASE_INPUT; phase <= PHASE_BACKWARD; phase++)
        assert_ok(program_run(p, (enum phase)phase));
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    struct net_rig r;
    int checked = 0;
    open_drawn(&r, "ref");
    for (int i = 0; i < r.graph->n_params; i++) {
        if (!param_is_trained(&r.graph->param[i]))
            continue;
        check_param(&r, i);
        checked++;
    }
    assert_int_equal(checked, 3 * 2 + 2 * 2 + 2 * 2);
    net_rig_close(&r);
}

static void the_cpu_agrees(void **state)
{
    (void)state;
    struct net_rig ref, cpu;
    open_drawn(&ref, "ref");
    open_drawn(&cpu, "cpu");
    for (int i = 0; i < ref.graph->n_params; i++) {
        const struct param *p = &ref.graph->param[i];
        if (!param_is_trained(p))
            continue;
        float *a = net_rig_get(&cpu, VALUE_GRADIENT, i), *b = net_rig_get(&ref, VALUE_GRADIENT, i);
        double size = 0, error = 0;
        for (int64_t k = 0; k < param_count(p); k++) {
            double d = (double)a[k] - (double)b[k];
            size += (double)b[k] * (double)b[k];
            error += d * d;
        }
        if (!(sqrt(error) <= 1e-4 * sqrt(size) + 1e-6))
            fail_msg("'%s': error %.3g, norm %.3g", p->name, sqrt(error), sqrt(size));
        free(a);
        free(b);
    }
    net_rig_close(&cpu);
    net_rig_close(&ref);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(the_cpu_agrees),
    };
    return cmocka_run_group_tests_name("network_gradients", tests, NULL, NULL);
}
