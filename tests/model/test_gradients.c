/* Compares the gradients of crossroads_graph() with finite differences of its loss, on the
 * reference device. */
#include "net_rig.h"

#include "base/rng.h"

#include <math.h>

enum { BATCH = 3 };

static const struct step_state state_used = {
    .seed = 3, .step = 2, .loss_scale = 1, .grad_scale = 1};

/* Returns the mean loss after parameter i is moved by `length` along `direction`. */
static double loss_along(struct net_rig *r, int i, const float *weight, const double *direction,
                         double length)
{
    int64_t n = param_count(&r->graph->param[i]);
    struct program *p = network_program(r->net, 0);
    struct loss_metrics m;
    float *moved = malloc((size_t)n * sizeof *moved);
    assert_non_null(moved);
    for (int64_t k = 0; k < n; k++)
        moved[k] = (float)((double)weight[k] + length * direction[k]);
    assert_ok(network_set(r->net, VALUE_WEIGHT, i, moved));
    free(moved);
    net_rig_run(p, &state_used, PHASE_LOSS);
    assert_ok(program_metrics(p, &m));
    return m.loss_sum / BATCH;
}

/* A unit vector: the sum of the gradient's direction and a random direction, with equal parts. */
static double *choose_direction(const float *gradient, int64_t n, uint64_t i)
{
    struct rng rng = rng_at(4, RNG_TEST, i, 0);
    double *d = malloc((size_t)n * sizeof *d);
    double size = net_rig_norm(gradient, NULL, n), sum = 0;
    assert_non_null(d);
    for (int64_t k = 0; k < n; k++) {
        d[k] = (size > 0 ? (double)gradient[k] / size : 0) + rng_normal(&rng) / sqrt((double)n);
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
    const double length = 1e-3;
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

static void gradients_are_slopes(void **state)
{
    const struct program_config config = {
        .batch = BATCH, .train = true, .float_input = true, .label_smoothing = 0.1f};
    struct net_rig r;
    net_rig_open_on(&r, net_rig_device("ref"), crossroads_graph(), &config, 1);
    net_rig_fill(&r);
    net_rig_input(&r, network_program(r.net, 0), 0);
    net_rig_run(network_program(r.net, 0), &state_used, PHASE_BACKWARD);
    for (int i = 0; i < r.graph->n_params; i++)
        if (param_is_trained(&r.graph->param[i]))
            check_param(&r, i);
    net_rig_close(&r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_slopes)};
    return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}
