/* VGG (Simonyan and Zisserman, 2014) in torchvision's form, with and without batch norm. */
#include "model/builder.h"

#include <stddef.h>

struct vgg {
    int convs[5]; /* number of convolutions per stage; each stage ends with a pooling */
    bool bn;
};

static const int stage_width[5] = {64, 128, 256, 512, 512};

static int linear(struct builder *b, int in, int place, int out)
{
    return builder_linear(builder_name(b, "classifier.%d", place), in, out, INIT_NORMAL_0_01,
                          INIT_ZERO);
}

/* Adds a linear layer, a ReLU and a dropout: modules `place`, `place` + 1 and `place` + 2 of the
 * classifier. */
static int hidden_layer(struct builder *b, int in, int place)
{
    int x = linear(b, in, place, 4096);
    x = builder_relu(builder_name(b, "classifier.%d", place + 1), x);
    return builder_dropout(builder_name(b, "classifier.%d", place + 2), x, 0.5f);
}

static void vgg_build(struct builder *b, const void *variant)
{
    const struct vgg *v = variant;
    int x = builder_input(b);
    int place = 0;
    for (int stage = 0; stage < 5; stage++) {
        struct conv_spec spec = {.out = stage_width[stage],
                                 .kernel = 3,
                                 .pad = 1,
                                 .bias = true,
                                 .weight_init = INIT_KAIMING_NORMAL_FAN_OUT,
                                 .bias_init = INIT_ZERO};
        for (int i = 0; i < v->convs[stage]; i++) {
            x = builder_conv(builder_name(b, "features.%d", place++), x, spec);
            if (v->bn)
                x = builder_bn(builder_name(b, "features.%d", place++), x);
            x = builder_relu(builder_name(b, "features.%d", place++), x);
        }
        x = builder_maxpool(builder_name(b, "features.%d", place++), x, 2, 2, 0);
    }
    x = builder_avgpool(builder_name(b, "avgpool"), x, 7);
    x = builder_flatten(b, x);
    x = hidden_layer(b, x, 0);
    x = hidden_layer(b, x, 3);
    linear(b, x, 6, b->g->classes);
}

static const struct vgg vgg11 = {{1, 1, 2, 2, 2}, false};
static const struct vgg vgg13 = {{2, 2, 2, 2, 2}, false};
static const struct vgg vgg16 = {{2, 2, 3, 3, 3}, false};
static const struct vgg vgg19 = {{2, 2, 4, 4, 4}, false};
static const struct vgg vgg11_bn = {{1, 1, 2, 2, 2}, true};
static const struct vgg vgg13_bn = {{2, 2, 2, 2, 2}, true};
static const struct vgg vgg16_bn = {{2, 2, 3, 3, 3}, true};
static const struct vgg vgg19_bn = {{2, 2, 4, 4, 4}, true};

const struct arch arch_vgg[] = {
    {"vgg11", vgg_build, &vgg11},
    {"vgg11_bn", vgg_build, &vgg11_bn},
    {"vgg13", vgg_build, &vgg13},
    {"vgg13_bn", vgg_build, &vgg13_bn},
    {"vgg16", vgg_build, &vgg16},
    {"vgg16_bn", vgg_build, &vgg16_bn},
    {"vgg19", vgg_build, &vgg19},
    {"vgg19_bn", vgg_build, &vgg19_bn},
    {.name = NULL},
};
