/* Residual networks (He et al., 2015) in torchvision's form. They are version 1.5: in a bottleneck
 * block, the 3x3 convolution has the stride. A network with groups is a ResNeXt (Xie et al., 2016).
 * A network with wider bottlenecks is a Wide ResNet (Zagoruyko and Komodakis, 2016). resnet8 is a
 * small network for tests and 32-pixel images. */
#include "model/builder.h"

#include <stdio.h>

struct resnet {
    int expansion; /* output channels of a block divided by its width: 1 for a basic block, 4 for a
                    * bottleneck */
    int width;     /* channels of the stem = width of stage 1; each later stage doubles the width */
    int blocks[4]; /* blocks per stage; the first 0 ends the list */
    int groups;    /* groups of a bottleneck's 3x3 convolution; 0 means 1 */
    int base_width; /* channels per group of a bottleneck at width 64; 0 means 64 */
    bool small;     /* the stem is a 3x3 convolution without stride or pooling */
};

/* One block: the prefix of its names, and its shape. */
struct block {
    char prefix[32]; /* "layer1.0." */
    int out;         /* channels */
    int inner;       /* channels of the bottleneck's 3x3 convolution */
    int groups;
    int stride;
    bool project; /* the shortcut has a convolution, because the block's output has another shape
                   * than its input */
};

static struct conv_spec conv_spec(int out, int kernel, int stride)
{
    return (struct conv_spec){.out = out,
                              .kernel = kernel,
                              .stride = stride,
                              .pad = kernel / 2,
                              .weight_init = INIT_KAIMING_NORMAL_FAN_OUT};
}

/* Adds the i-th convolution of the main path, with its batch norm. */
static int conv_bn(struct builder *b, int in, const char *prefix, int i, struct conv_spec spec)
{
    int x = builder_conv(builder_name(b, "%sconv%d", prefix, i), in, spec);
    return builder_bn(builder_name(b, "%sbn%d", prefix, i), x);
}

static int relu(struct builder *b, int in, const char *prefix)
{
    return builder_relu(builder_name(b, "%srelu", prefix), in);
}

static int basic_path(struct builder *b, int in, const struct block *k)
{
    int x = conv_bn(b, in, k->prefix, 1, conv_spec(k->out, 3, k->stride));
    x = relu(b, x, k->prefix);
    return conv_bn(b, x, k->prefix, 2, conv_spec(k->out, 3, 1));
}

static int bottleneck_path(struct builder *b, int in, const struct block *k)
{
    struct conv_spec middle = conv_spec(k->inner, 3, k->stride);
    middle.groups = k->groups;
    int x = conv_bn(b, in, k->prefix, 1, conv_spec(k->inner, 1, 1));
    x = relu(b, x, k->prefix);
    x = conv_bn(b, x, k->prefix, 2, middle);
    x = relu(b, x, k->prefix);
    return conv_bn(b, x, k->prefix, 3, conv_spec(k->out, 1, 1));
}

/* Builds the shortcut before the main path. The main path's last batch norm, the addition and the
 * ReLU are then adjacent nodes, and all their inputs are already computed. One fused kernel can
 * therefore execute these three nodes. */
static int residual_block(struct builder *b, int in, const struct block *k, bool bottleneck)
{
    int shortcut = in;
    if (k->project) {
        shortcut = builder_conv(builder_name(b, "%sdownsample.0", k->prefix), in,
                                conv_spec(k->out, 1, k->stride));
        shortcut = builder_bn(builder_name(b, "%sdownsample.1", k->prefix), shortcut);
    }
    int x = bottleneck ? bottleneck_path(b, in, k) : basic_path(b, in, k);
    x = builder_add(b, x, shortcut);
    return relu(b, x, k->prefix);
}

static int stem(struct builder *b, const struct resnet *r)
{
    int x = builder_input(b);
    x = conv_bn(b, x, "", 1, r->small ? conv_spec(r->width, 3, 1) : conv_spec(r->width, 7, 2));
    x = relu(b, x, "");
    return r->small ? x : builder_maxpool(builder_name(b, "maxpool"), x, 3, 2, 1);
}

static void resnet_build(struct builder *b, const void *variant)
{
    const struct resnet *r = variant;
    int groups = r->groups ? r->groups : 1;
    int base_width = r->base_width ? r->base_width : 64;
    int x = stem(b, r);
    int width = r->width;
    for (int stage = 0; stage < 4 && r->blocks[stage] > 0; stage++) {
        for (int i = 0; i < r->blocks[stage]; i++) {
            struct block k = {.out = width * r->expansion,
                              .inner = width * base_width / 64 * groups,
                              .groups = groups,
                              .stride = stage > 0 && i == 0 ? 2 : 1,
                              .project = i == 0 && (stage > 0 || r->expansion > 1)};
            snprintf(k.prefix, sizeof k.prefix, "layer%d.%d.", stage + 1, i);
            x = residual_block(b, x, &k, r->expansion > 1);
        }
        width *= 2;
    }
    x = builder_avgpool(builder_name(b, "avgpool"), x, 1);
    x = builder_flatten(b, x);
    builder_linear(builder_name(b, "fc"), x, b->g->classes, INIT_UNIFORM_FAN_IN,
                   INIT_UNIFORM_FAN_IN);
}

static const struct resnet resnet8 = {
    .expansion = 1, .width = 16, .blocks = {1, 1, 1}, .small = true};
static const struct resnet resnet18 = {.expansion = 1, .width = 64, .blocks = {2, 2, 2, 2}};
static const struct resnet resnet34 = {.expansion = 1, .width = 64, .blocks = {3, 4, 6, 3}};
static const struct resnet resnet50 = {.expansion = 4, .width = 64, .blocks = {3, 4, 6, 3}};
static const struct resnet resnet101 = {.expansion = 4, .width = 64, .blocks = {3, 4, 23, 3}};
static const struct resnet resnet152 = {.expansion = 4, .width = 64, .blocks = {3, 8, 36, 3}};
static const struct resnet resnext50_32x4d = {
    .expansion = 4, .width = 64, .blocks = {3, 4, 6, 3}, .groups = 32, .base_width = 4};
static const struct resnet wide_resnet50_2 = {
    .expansion = 4, .width = 64, .blocks = {3, 4, 6, 3}, .base_width = 128};

const struct arch arch_resnet[] = {
    {"resnet8", resnet_build, &resnet8},
    {"resnet18", resnet_build, &resnet18},
    {"resnet34", resnet_build, &resnet34},
    {"resnet50", resnet_build, &resnet50},
    {"resnet101", resnet_build, &resnet101},
    {"resnet152", resnet_build, &resnet152},
    {"resnext50_32x4d", resnet_build, &resnext50_32x4d},
    {"wide_resnet50_2", resnet_build, &wide_resnet50_2},
    {.name = NULL},
};
