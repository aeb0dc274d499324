/* Adds nodes and their parameters to a graph, and computes the shapes. */
#include "model/builder.h"

#include "base/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Adds a node with the shape of its first input. Returns NULL after a failure. */
static struct node *node_add(struct builder *b, enum node_kind kind, int in0, int in1)
{
    struct graph *g = b->g;
    if (b->st == STATUS_OK)
        b->st = array_reserve(&g->node, g->n_nodes);
    if (b->st != STATUS_OK)
        return NULL;
    struct node *n = &g->node[g->n_nodes++];
    *n = (struct node){
        .kind = kind, .in = {in0, in1}, .weight = -1, .bias = -1, .mean = -1, .var = -1};
    memcpy(n->name, b->name, sizeof n->name);
    b->name[0] = '\0';
    if (in0 >= 0) {
        n->c = g->node[in0].c;
        n->h = g->node[in0].h;
        n->w = g->node[in0].w;
    }
    return n;
}

/* Returns the index of the newest node; 0 after a failure. Every builder call returns this index.
 */
static int node_last(const struct builder *b)
{
    return b->st == STATUS_OK ? b->g->n_nodes - 1 : 0;
}

/* Adds parameter "<node>.<leaf>" to the newest node, with the kind, init, fan_in and shape of
 * `like`. Returns the parameter's index, or -1 after a failure. */
static int param_add(struct builder *b, const char *leaf, struct param like)
{
    struct graph *g = b->g;
    if (b->st == STATUS_OK)
        b->st = array_reserve(&g->param, g->n_params);
    if (b->st != STATUS_OK)
        return -1;
    const char *owner = g->node[g->n_nodes - 1].name;
    if (snprintf(like.name, sizeof like.name, "%s.%s", owner, leaf) >= (int)sizeof like.name) {
        b->st = status_fail(STATUS_INVALID, "the layer name '%s' is too long", owner);
        return -1;
    }
    like.node = g->n_nodes - 1;
    g->param[g->n_params] = like;
    return g->n_params++;
}

/* A parameter of `n` elements. */
static int param_add_1d(struct builder *b, const char *leaf, enum param_kind kind,
                        enum param_init init, int64_t fan_in, int64_t n)
{
    return param_add(
        b, leaf,
        (struct param){.kind = kind, .init = init, .fan_in = fan_in, .ndim = 1, .dim = {n}});
}

/* Sets the window of `n`, and computes the height and width of its output from those of its
 * input. */
static void node_set_window(struct builder *b, struct node *n, int kernel, int stride, int pad)
{
    n->kernel = kernel;
    n->stride = stride;
    n->pad = pad;
    int64_t span = n->h + 2 * pad - kernel;
    if (span < 0) {
        memcpy(b->small, n->name, sizeof b->small);
        b->st = status_fail(STATUS_USAGE, "the image is too small for layer '%s'", n->name);
        return;
    }
    n->h = n->w = span / stride + 1; /* images and windows are square */
}

struct builder *builder_name(struct builder *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(b->name, sizeof b->name, fmt, ap);
    va_end(ap);
    if (b->st == STATUS_OK && (n < 0 || n >= (int)sizeof b->name))
        b->st = status_fail(STATUS_INVALID, "the layer name '%s...' is too long", b->name);
    return b;
}

int builder_input(struct builder *b)
{
    struct node *n = node_add(b, NODE_INPUT, -1, -1);
    if (n) {
        n->c = 3;
        n->h = n->w = b->g->image_size;
    }
    return node_last(b);
}

int builder_conv(struct builder *b, int in, struct conv_spec spec)
{
    struct node *n = node_add(b, NODE_CONV, in, -1);
    if (!n)
        return 0;
    n->groups = spec.groups ? spec.groups : 1;
    int64_t in_per_group = n->c / n->groups;
    int64_t fan_in = in_per_group * spec.kernel * spec.kernel;
    n->c = spec.out;
    node_set_window(b, n, spec.kernel, spec.stride ? spec.stride : 1, spec.pad);
    n->weight =
        param_add(b, "weight",
                  (struct param){.kind = PARAM_CONV_WEIGHT,
                                 .init = spec.weight_init,
                                 .fan_in = fan_in,
                                 .ndim = 4,
                                 .dim = {spec.out, in_per_group, spec.kernel, spec.kernel}});
    if (spec.bias)
        n->bias = param_add_1d(b, "bias", PARAM_BIAS, spec.bias_init, fan_in, spec.out);
    return node_last(b);
}

int builder_bn(struct builder *b, int in)
{
    struct node *n = node_add(b, NODE_BN, in, -1);
    if (!n)
        return 0;
    n->weight = param_add_1d(b, "weight", PARAM_BN_GAMMA, INIT_ONE, 0, n->c);
    n->bias = param_add_1d(b, "bias", PARAM_BN_BETA, INIT_ZERO, 0, n->c);
    n->mean = param_add_1d(b, "running_mean", PARAM_BN_MEAN, INIT_ZERO, 0, n->c);
    n->var = param_add_1d(b, "running_var", PARAM_BN_VAR, INIT_ONE, 0, n->c);
    return node_last(b);
}

int builder_relu(struct builder *b, int in)
{
    node_add(b, NODE_RELU, in, -1);
    return node_last(b);
}

int builder_add(struct builder *b, int in, int shortcut)
{
    node_add(b, NODE_ADD, in, shortcut);
    return node_last(b);
}

int builder_maxpool(struct builder *b, int in, int kernel, int stride, int pad)
{
    struct node *n = node_add(b, NODE_MAXPOOL, in, -1);
    if (n)
        node_set_window(b, n, kernel, stride, pad);
    return node_last(b);
}

int builder_avgpool(struct builder *b, int in, int size)
{
    struct node *n = node_add(b, NODE_AVGPOOL, in, -1);
    if (n)
        n->h = n->w = size;
    return node_last(b);
}

int builder_flatten(struct builder *b, int in)
{
    struct node *n = node_add(b, NODE_FLATTEN, in, -1);
    if (n) {
        n->c *= n->h * n->w;
        n->h = n->w = 1;
    }
    return node_last(b);
}

int builder_dropout(struct builder *b, int in, float p)
{
    struct node *n = node_add(b, NODE_DROPOUT, in, -1);
    if (n)
        n->dropout_p = p;
    return node_last(b);
}

int builder_linear(struct builder *b, int in, int out, enum param_init weight_init,
                   enum param_init bias_init)
{
    struct node *n = node_add(b, NODE_LINEAR, in, -1);
    if (!n)
        return 0;
    int64_t fan_in = n->c;
    n->c = out;
    n->weight = param_add(b, "weight",
                          (struct param){.kind = PARAM_LINEAR_WEIGHT,
                                         .init = weight_init,
                                         .fan_in = fan_in,
                                         .ndim = 2,
                                         .dim = {out, fan_in}});
    n->bias = param_add_1d(b, "bias", PARAM_BIAS, bias_init, fan_in, out);
    return node_last(b);
}
