/* The networks of exchange_rig.h. */
#include "exchange_rig.h"

#include "model/builder.h"
#include "model/exchange.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct program_config training(const char *precision)
{
    struct program_config c = {.batch = BATCH,
                               .train = true,
                               .float_input = true,
                               .no_dropout = true,
                               .label_smoothing = 0.1f,
                               .momentum = 0.9f};
    assert_ok(policy_find(precision, -1, &c.policy));
    return c;
}

struct graph *draw_plain_graph(void)
{
    struct builder b = {.g = calloc(1, sizeof *b.g)};
    assert_non_null(b.g);
    strcpy(b.g->arch, "plain");
    b.g->classes = CLASSES;
    b.g->image_size = SIZE;
    const struct conv_spec spec = {.out = 16, .kernel = 3, .pad = 1, .bias = true};
    int x = builder_conv(builder_name(&b, "conv"), builder_input(&b), spec);
    x = builder_relu(builder_name(&b, "relu1"), x);
    x = builder_maxpool(builder_name(&b, "pool"), x, 3, 2, 1);
    x = builder_linear(builder_name(&b, "fc1"), builder_flatten(&b, x), 12, INIT_ZERO, INIT_ZERO);
    x = builder_relu(builder_name(&b, "relu2"), x);
    builder_linear(builder_name(&b, "fc2"), x, CLASSES, INIT_ZERO, INIT_ZERO);
    assert_ok(b.st);
    return b.g;
}

void open_rig(struct net_rig *r, const char *device, const char *arch,
              const struct program_config *config)
{
    assert_ok(device_open(device, 2, &r->dev));
    if (arch)
        assert_ok(graph_build(arch, CLASSES, SIZE, &r->graph));
    else
        r->graph = draw_plain_graph();
    assert_ok(network_open(r->dev, r->graph, config, 1, &r->net));
}

void run_until(struct program *p, enum phase last)
{
    assert_ok(program_state(p, &plain_state));
    for (int phase = PHASE_INPUT; phase <= (int)last; phase++)
        assert_ok(program_run(p, (enum phase)phase));
}

void device_copy(const struct net_rig *from, void *to, const void *at, size_t bytes)
{
    struct stream *s = network_stream(from->net);
    assert_ok(from->dev->backend->copy(s, to, at, bytes));
    assert_ok(from->dev->backend->stream_sync(s));
}

uint64_t layout_hash(const struct net_rig *r)
{
    uint64_t hash;
    assert_ok(network_layout_hash(r->net, &hash));
    return hash;
}

void assert_close(const float *got, const float *want, int64_t n, double tolerance)
{
    double size = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        size += (double)want[i] * (double)want[i];
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    }
    if (!(size > 0 && sqrt(error) <= tolerance * sqrt(size)))
        fail_msg("off by %.3g of %.3g", sqrt(error), sqrt(size));
}
