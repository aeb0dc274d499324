/* A network as a graph of layers, independent of device, precision and batch size.
 *
 * Every node follows its inputs. Names are torchvision's module paths ("layer1.0.conv1"), so that
 * parameter names are its state_dict keys. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum node_kind {
    NODE_INPUT, /* the image, 3 x S x S */
    NODE_CONV,
    NODE_BN,
    NODE_RELU,
    NODE_ADD, /* two inputs */
    NODE_MAXPOOL,
    NODE_AVGPOOL, /* adaptive, to h x w */
    NODE_FLATTEN, /* (C,H,W) -> (C*H*W), in the order C, H, W */
    NODE_DROPOUT,
    NODE_LINEAR,
};

enum param_kind {
    PARAM_CONV_WEIGHT,   /* (O, I/groups, KH, KW) */
    PARAM_LINEAR_WEIGHT, /* (O, I) */
    PARAM_BIAS,          /* (O) */
    PARAM_BN_GAMMA,      /* (C) "*.weight" */
    PARAM_BN_BETA,       /* (C) "*.bias" */
    PARAM_BN_MEAN,       /* (C) buffer "*.running_mean" */
    PARAM_BN_VAR,        /* (C) buffer "*.running_var" */
};

/* How a new weight is initialised; each network follows its torchvision constructor. */
enum param_init {
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING_NORMAL_FAN_OUT, /* N(0, 2/fan_out), fan_out = O*KH*KW */
    INIT_UNIFORM_FAN_IN,         /* U(+-1/sqrt(fan_in)): torch's default for conv, linear, bias */
    INIT_NORMAL_0_01,            /* N(0, 0.01^2) */
};

enum { NAME_MAX_LEN = 64 };

/* Limits of graph_build. They are far above practical values, and keep products of dimensions
 * within 64 bits. */
enum { IMAGE_SIZE_MAX = 8192, CLASSES_MAX = 1000000 };

struct param {
    char name[NAME_MAX_LEN]; /* state_dict key */
    enum param_kind kind;
    enum param_init init;
    int64_t fan_in; /* fan-in of the layer that owns the parameter, for INIT_UNIFORM_FAN_IN */
    int ndim;
    int64_t dim[4];
    int node; /* index of the node that owns the parameter */
};

struct node {
    enum node_kind kind;
    char name[NAME_MAX_LEN]; /* "" for layers without a module of their own (add, flatten, input) */
    int in[2];               /* node indices; -1: no input */
    int64_t c, h, w;         /* result's shape per image; if flattened: c features, h = w = 1 */
    int kernel, stride, pad; /* conv and maxpool */
    int groups;              /* conv */
    float dropout_p;         /* dropout */
    int weight, bias;        /* param indices (BN: gamma, beta); -1: no such parameter */
    int mean, var;           /* param indices (BN); -1 elsewhere */
};

struct graph {
    char arch[32];
    int classes;
    int image_size;
    int n_nodes;
    struct node *node;
    int n_params; /* buffers included */
    struct param *param;
};

/* Builds `arch` for S x S images. STATUS_USAGE for an unknown name (the message lists the known
 * names), a value out of range, or an image that is too small (the message names the layer). */
MUST_CHECK enum status graph_build(const char *arch, int classes, int image_size, struct graph **g);
void graph_free(struct graph *g); /* NULL is fine */

/* The name of the i-th known architecture; NULL past the last. */
const char *graph_arch_name(int i);

/* "conv", "bn", ... */
const char *node_kind_str(enum node_kind kind);

/* True for parameters that the optimizer trains; false for running statistics. */
bool param_is_trained(const struct param *p);
int64_t param_count(const struct param *p);

/* Number of trained parameters in the whole graph. */
int64_t graph_params_trained(const struct graph *g);

/* FLOPs of one image's forward pass through the whole graph, and through node `i`. Only
 * convolutions and linear layers count; a multiply-add is two FLOPs. */
double graph_flops_forward(const struct graph *g);
double node_flops_forward(const struct graph *g, int i);

/* Writes the initial values in plain (logical) order to `out`: a pure function of (seed, name). */
void param_init_values(const struct param *p, uint64_t seed, float *out);
