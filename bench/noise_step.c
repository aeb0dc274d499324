/* Sets up and runs a training step on noise. */
#include "bench/noise_step.h"

#include "base/array.h"
#include "base/clock.h"

#include <stdlib.h>

enum status noise_step_run(struct network *net, double *seconds)
{
    struct program *p = network_program(net, 0);
    struct step_state state = {.lr = 1e-6f, .loss_scale = 1, .grad_scale = 1};
    uint64_t begun = clock_ns();
    TRY(program_state(p, &state));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        TRY(program_run(p, (enum phase)phase));
    TRY(program_wait(p));
    *seconds = (double)(clock_ns() - begun) * 1e-9;
    return STATUS_OK;
}

static enum status noise_set_up(struct network *net, const struct graph *g, int batch)
{
    size_t pixels = (size_t)batch * 3 * (size_t)g->image_size * (size_t)g->image_size;
    uint8_t *image = NULL;
    int32_t *label = NULL;
    enum status st;
    double unused;
    CHECK(array_new(&image, pixels));
    CHECK(array_new(&label, batch));
    for (size_t i = 0; i < pixels; i++)
        image[i] = (uint8_t)(i * 2654435761u >> 13);
    CHECK(network_init(net, 0));
    CHECK(program_input(network_program(net, 0), image, label));
    CHECK(program_wait(network_program(net, 0)));
    CHECK(noise_step_run(net, &unused));
done:
    free(image);
    free(label);
    return st;
}

enum status noise_step_config(const struct bench_options *o, bool reduced,
                              struct program_config *config)
{
    *config = (struct program_config){.batch = o->batch,
                                      .train = true,
                                      .emulate = o->emulate,
                                      .reduced = reduced,
                                      .half_gradients = !reduced,
                                      .fuse = o->fuse,
                                      .momentum = 0.9f,
                                      .weight_decay = 1e-4f,
                                      .mean = {0.5f, 0.5f, 0.5f},
                                      .std = {0.25f, 0.25f, 0.25f}};
    TRY(policy_find(bench_precision(o), -1, &config->policy));
    config->check_finite = config->policy.scaled;
    return STATUS_OK;
}

enum status noise_step_open(struct device *dev, const struct graph *g,
                            const struct bench_options *o, bool reduced, struct network **net)
{
    struct program_config config;
    *net = NULL;
    TRY(noise_step_config(o, reduced, &config));
    TRY(network_open(dev, g, &config, 1, net));
    enum status st = noise_set_up(*net, g, o->batch);
    if (st != STATUS_OK) {
        network_close(*net);
        *net = NULL;
    }
    return st;
}
