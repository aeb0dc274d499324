/* The functions with which arch_*.c build a network: one call per layer, in order. Each returns the
 * new node's index, which the next call takes as its input.
 *
 * The builder records the first failure; the calls after that failure do nothing and return node 0.
 * An architecture is therefore a plain list of layers, and graph_build() checks for a failure once,
 * at the end. */
#pragma once

#include "model/graph.h"

struct builder {
    struct graph *g;
    enum status st;           /* the first failure */
    char name[NAME_MAX_LEN];  /* name of the next node */
    char small[NAME_MAX_LEN]; /* layer for which the image is too small; "": none */
};

/* A network and its name. In each table below, the last entry has the name NULL. */
struct arch {
    const char *name;
    void (*build)(struct builder *b, const void *variant);
    const void *variant;
};

extern const struct arch arch_alexnet[];
extern const struct arch arch_resnet[];
extern const struct arch arch_vgg[];

/* A convolution with a square window and the same padding on all sides. If stride or groups is 0,
 * it means 1. */
struct conv_spec {
    int out, kernel, stride, pad, groups;
    bool bias; /* has a bias, initialised by bias_init */
    enum param_init weight_init, bias_init;
};

/* Names the next node and returns `b`: builder_conv(builder_name(b, "%sconv1", prefix), x, spec).
 * Without this call the node's name is "". */
struct builder *builder_name(struct builder *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

int builder_input(struct builder *b);
int builder_conv(struct builder *b, int in, struct conv_spec spec);
int builder_bn(struct builder *b, int in); /* gamma 1, beta 0, mean 0, variance 1 */
int builder_relu(struct builder *b, int in);
int builder_add(struct builder *b, int in, int shortcut);
int builder_maxpool(struct builder *b, int in, int kernel, int stride, int pad);
int builder_avgpool(struct builder *b, int in, int size); /* output size x size */
int builder_flatten(struct builder *b, int in);
int builder_dropout(struct builder *b, int in, float p);
int builder_linear(struct builder *b, int in, int out, enum param_init weight_init,
                   enum param_init bias_init);
