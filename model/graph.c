/* Computes properties of a graph from its nodes and parameters. */
#include "model/graph.h"

#include <stdlib.h>

void graph_free(struct graph *g)
{
    if (!g)
        return;
    free(g->node);
    free(g->param);
    free(g);
}

const char *node_kind_str(enum node_kind kind)
{
    static const char *const name[] = {
        [NODE_INPUT] = "input",     [NODE_CONV] = "conv",       [NODE_BN] = "bn",
        [NODE_RELU] = "relu",       [NODE_ADD] = "add",         [NODE_MAXPOOL] = "maxpool",
        [NODE_AVGPOOL] = "avgpool", [NODE_FLATTEN] = "flatten", [NODE_DROPOUT] = "dropout",
        [NODE_LINEAR] = "linear",
    };
    return name[kind];
}

bool param_is_trained(const struct param *p)
{
    return p->kind != PARAM_BN_MEAN && p->kind != PARAM_BN_VAR;
}

int64_t param_count(const struct param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= p->dim[i];
    return n;
}

int64_t graph_params_trained(const struct graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_params; i++)
        if (param_is_trained(&g->param[i]))
            n += param_count(&g->param[i]);
    return n;
}

double node_flops_forward(const struct graph *g, int i)
{
    const struct node *n = &g->node[i];
    if (n->kind != NODE_CONV && n->kind != NODE_LINEAR)
        return 0;
    /* The FLOPs of a convolution or linear layer: each weight is multiplied once per position of
     * the result. */
    return 2.0 * (double)param_count(&g->param[n->weight]) * (double)(n->h * n->w);
}

double graph_flops_forward(const struct graph *g)
{
    double flops = 0;
    for (int i = 0; i < g->n_nodes; i++)
        flops += node_flops_forward(g, i);
    return flops;
}
