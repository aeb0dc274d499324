/* The network of crossroads_graph(). */
#include "model/builder.h"
#include "net_rig.h"

enum { CLASSES = 7 };

static int conv(struct builder *b, const char *name, int in, int groups)
{
    return builder_conv(builder_name(b, "%s", name), in,
                        (struct conv_spec){.out = 16,
                                           .kernel = 3,
                                           .stride = 1,
                                           .pad = 1,
                                           .groups = groups,
                                           .bias = true,
                                           .weight_init = INIT_UNIFORM_FAN_IN,
                                           .bias_init = INIT_UNIFORM_FAN_IN});
}

static int bn_relu(struct builder *b, const char *bn, const char *relu, int x)
{
    return builder_relu(builder_name(b, "%s", relu), builder_bn(builder_name(b, "%s", bn), x));
}

/* The convolution before it absorbs ReLU r0; no operation absorbs r1. The batch norm before it
 * absorbs the first add; no batch norm absorbs the second add. */
static int add_twice(struct builder *b)
{
    int x = conv(b, "conv0", builder_input(b), 1);
    int fork = conv(b, "conv1", builder_relu(builder_name(b, "r0"), x), 1);
    x = builder_relu(builder_name(b, "r1"), fork);
    x = builder_bn(builder_name(b, "bn1"), x);
    x = builder_add(b, builder_add(b, x, fork), fork);
    return builder_relu(builder_name(b, "r2"), x);
}

struct graph *crossroads_graph(void)
{
    struct builder b = {.g = calloc(1, sizeof *b.g)};
    assert_non_null(b.g);
    strcpy(b.g->arch, "crossroads");
    b.g->classes = CLASSES;
    b.g->image_size = 9;
    int x = builder_maxpool(builder_name(&b, "pool1"), add_twice(&b), 3, 2, 1);
    int main_path = bn_relu(&b, "bn2", "r3", conv(&b, "conv2", x, 4));
    main_path = builder_bn(builder_name(&b, "bn3"), conv(&b, "conv3", main_path, 1));
    x = builder_add(&b, main_path, x);
    x = bn_relu(&b, "bn4", "r4", conv(&b, "conv4", x, 1));
    x = builder_maxpool(builder_name(&b, "pool2"), x, 3, 2, 1);
    x = builder_dropout(builder_name(&b, "drop"), builder_flatten(&b, x), 0.5f);
    x = builder_linear(builder_name(&b, "fc1"), x, 12, INIT_UNIFORM_FAN_IN, INIT_UNIFORM_FAN_IN);
    x = builder_relu(builder_name(&b, "r5"), x);
    x = builder_dropout(builder_name(&b, "drop2"), x, 0.25f);
    builder_linear(builder_name(&b, "fc2"), x, CLASSES, INIT_UNIFORM_FAN_IN, INIT_UNIFORM_FAN_IN);
    assert_ok(b.st);
    return b.g;
}
