/* How the files arch_*.c draw a network: one call per layer, in order, each giving the new node's
 * index for the next to take as input.
 *
 * A failure is kept in the builder; the calls after it do nothing and give node 0, so that an
 * architecture reads as its layers and graph_build() asks once at the end. */
#ifndef MODEL_BUILDER_H
#define MODEL_BUILDER_H

#include "model/graph.h"

struct builder {
    struct graph *g;
    int node_room, param_room; /* allocated lengths of g->node and g->param */
    enum status st;            /* the first failure */
    char name[NAME_MAX_LEN];   /* of the next node */
    char small[NAME_MAX_LEN];  /* the layer that the image is too small for; "" if there is none */
};

/* One network by name; tables of them end with a NULL name. */
struct arch {
    const char *name;
    void (*build)(struct builder *b, const void *variant);
    const void *variant;
};

extern const struct arch arch_alexnet[];
extern const struct arch arch_resnet[];
extern const struct arch arch_vgg[];

/* Square window, the same padding on all sides. A stride or groups of 0 stands for 1. */
struct conv_spec {
    int out, kernel, stride, pad, groups;
    bool bias; /* drawn by bias_init */
    enum param_init weight_init, bias_init;
};

/* Names the next node and returns `b`: builder_conv(builder_name(b, "%sconv1", prefix), x, spec).
 * A node that is given none has none. */
struct builder *builder_name(struct builder *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

int builder_input(struct builder *b);
int builder_conv(struct builder *b, int in, struct conv_spec spec);
int builder_bn(struct builder *b, int in); /* gamma 1, beta 0, mean 0, variance 1 */
int builder_relu(struct builder *b, int in);
int builder_add(struct builder *b, int in, int shortcut);
int builder_maxpool(struct builder *b, int in, int kernel, int stride, int pad);
int builder_avgpool(struct builder *b, int in, int size); /* to size x size */
int builder_flatten(struct builder *b, int in);
int builder_dropout(struct builder *b, int in, float p);
int builder_linear(struct builder *b, int in, int out, enum param_init weight_init,
                   enum param_init bias_init);
#endif
