/* AlexNet in torchvision's form. It follows "One weird trick for parallelizing convolutional neural
 * networks" (Krizhevsky, 2014): a single column of layers, without local response normalisation. */
#include "model/builder.h"

#include <stddef.h>

static int conv_relu(struct builder *b, int in, int place, struct conv_spec spec)
{
    spec.bias = true;
    spec.weight_init = spec.bias_init = INIT_UNIFORM_FAN_IN;
    int x = builder_conv(builder_name(b, "features.%d", place), in, spec);
    return builder_relu(builder_name(b, "features.%d", place + 1), x);
}

static int maxpool(struct builder *b, int in, int place)
{
    return builder_maxpool(builder_name(b, "features.%d", place), in, 3, 2, 0);
}

static int linear(struct builder *b, int in, int place, int out)
{
    return builder_linear(builder_name(b, "classifier.%d", place), in, out, INIT_UNIFORM_FAN_IN,
                          INIT_UNIFORM_FAN_IN);
}

/* Adds a dropout, a linear layer and a ReLU: modules `place`, `place` + 1 and `place` + 2 of the
 * classifier. */
static int hidden_layer(struct builder *b, int in, int place)
{
    int x = builder_dropout(builder_name(b, "classifier.%d", place), in, 0.5f);
    x = linear(b, x, place + 1, 4096);
    return builder_relu(builder_name(b, "classifier.%d", place + 2), x);
}

static void alexnet_build(struct builder *b, const void *variant)
{
    (void)variant;
    int x = builder_input(b);
    x = conv_relu(b, x, 0, (struct conv_spec){.out = 64, .kernel = 11, .stride = 4, .pad = 2});
    x = maxpool(b, x, 2);
    x = conv_relu(b, x, 3, (struct conv_spec){.out = 192, .kernel = 5, .pad = 2});
    x = maxpool(b, x, 5);
    x = conv_relu(b, x, 6, (struct conv_spec){.out = 384, .kernel = 3, .pad = 1});
    x = conv_relu(b, x, 8, (struct conv_spec){.out = 256, .kernel = 3, .pad = 1});
    x = conv_relu(b, x, 10, (struct conv_spec){.out = 256, .kernel = 3, .pad = 1});
    x = maxpool(b, x, 12);
    x = builder_avgpool(builder_name(b, "avgpool"), x, 6);
    x = builder_flatten(b, x);
    x = hidden_layer(b, x, 0);
    x = hidden_layer(b, x, 3);
    linear(b, x, 6, b->g->classes);
}

const struct arch arch_alexnet[] = {
    {"alexnet", alexnet_build, NULL},
    {.name = NULL},
};
