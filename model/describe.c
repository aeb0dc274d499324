/* Prints networks and precisions as tables and as JSON. */
#include "model/describe.h"

#include "base/json.h"

#include <inttypes.h>

/* Number of trained parameters of node `i`. */
static int64_t node_params(const struct graph *g, int i)
{
    int64_t n = 0;
    if (g->node[i].weight >= 0)
        n += param_count(&g->param[g->node[i].weight]);
    if (g->node[i].bias >= 0)
        n += param_count(&g->param[g->node[i].bias]);
    return n;
}

static void layers_print(const struct graph *g, FILE *out)
{
    fprintf(out, "%s, %d classes, images of %d x %d pixels\n\n", g->arch, g->classes, g->image_size,
            g->image_size);
    fprintf(out, "%-24s %-8s %-14s %12s %12s\n", "layer", "kind", "output", "parameters", "MFLOPs");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        char shape[64];
        snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, n->c, n->h, n->w);
        fprintf(out, "%-24s %-8s %-14s %12" PRId64 " %12.3f\n", n->name[0] ? n->name : "-",
                node_kind_str(n->kind), shape, node_params(g, i), node_flops_forward(g, i) / 1e6);
    }
    fprintf(out, "%-48s %12" PRId64 " %12.3f\n", "total", graph_params_trained(g),
            graph_flops_forward(g) / 1e6);
}

static void layers_print_json(const struct graph *g, FILE *out)
{
    json_t *layers = json_array();
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        json_add(layers,
                 json_new("{s:s, s:s, s:[I, I, I], s:I, s:I}", "name", n->name, "kind",
                          node_kind_str(n->kind), "output", (json_int_t)n->c, (json_int_t)n->h,
                          (json_int_t)n->w, "parameters", (json_int_t)node_params(g, i),
                          "flops_forward", (json_int_t)node_flops_forward(g, i)));
    }
    json_t *o =
        json_new("{s:s, s:i, s:i, s:I, s:I, s:o}", "arch", g->arch, "image_size", g->image_size,
                 "classes", g->classes, "parameters", (json_int_t)graph_params_trained(g),
                 "flops_forward", (json_int_t)graph_flops_forward(g), "layers", layers);
    json_print(o, out, JSON_COMPACT);
}

void describe_layers(const struct graph *g, bool json, FILE *out)
{
    if (json)
        layers_print_json(g, out);
    else
        layers_print(g, out);
}

/* The type in which a node computes: convolutions and linear layers multiply values of type
 * p->operand and accumulate in fp32; all other nodes compute in fp32. */
static const char *computes_in(const struct policy *p, enum node_kind kind)
{
    return dtype_str(kind == NODE_CONV || kind == NODE_LINEAR ? p->operand : DTYPE_F32);
}

static void param_types_print(FILE *out, const char *name, const char *kind,
                              const struct param_types *t, const char *computes, const char *stored)
{
    fprintf(out, "%-24s %-8s %-7s %-7s %-9s %-9s %s\n", name, kind, t ? dtype_str(t->master) : "-",
            t ? dtype_str(t->copy) : "-", t ? dtype_str(t->gradient) : "-", computes, stored);
}

static void policy_print(const struct policy *p, const struct graph *g, FILE *out)
{
    const char *stored = dtype_str(p->activation);
    fprintf(out, "precision %s on %s\n\n", p->name, g->arch);
    fprintf(out, "%-24s %-8s %-25s %-9s %s\n", "", "", "weight", "", "activation");
    fprintf(out, "%-24s %-8s %-7s %-7s %-9s %-9s %s\n", "layer", "kind", "kept", "read", "gradient",
            "computes", "and gradient");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        struct param_types t;
        if (n->weight >= 0)
            t = policy_param(p, g->param[n->weight].kind);
        param_types_print(out, n->name[0] ? n->name : "-", node_kind_str(n->kind),
                          n->weight >= 0 ? &t : NULL,
                          n->kind == NODE_INPUT ? "-" : computes_in(p, n->kind), stored);
    }
    param_types_print(out, "loss", "softmax", NULL, "fp32", "fp32");
    struct param_types bias = policy_param(p, PARAM_BIAS);
    fprintf(out, "\nbiases     kept in %s, read in %s, gradient in %s\n", dtype_str(bias.master),
            dtype_str(bias.copy), dtype_str(bias.gradient));
    fprintf(
        out,
        "always     fp32: sums of convolution and linear, batch norm's and pooling's arithmetic, "
        "batch\n           statistics, softmax and loss, the optimizer's arithmetic\n");
    fprintf(out, "batch norm parameters and running statistics in %s\n", dtype_str(p->batchnorm));
    fprintf(out, "loss scale %s\n", p->scaled ? "dynamic" : "none");
}

static json_t *param_types_json(struct param_types t)
{
    return json_new("{s:s, s:s, s:s}", "kept", dtype_str(t.master), "read", dtype_str(t.copy),
                    "gradient", dtype_str(t.gradient));
}

static void node_policy_json(const struct policy *p, const struct graph *g, const struct node *n,
                             json_t *o)
{
    if (n->kind != NODE_INPUT)
        json_put(o, "computes", json_utf8(computes_in(p, n->kind)));
    if (n->weight >= 0)
        json_put(o, "weight", param_types_json(policy_param(p, g->param[n->weight].kind)));
    if (n->bias >= 0)
        json_put(o, "bias", param_types_json(policy_param(p, g->param[n->bias].kind)));
    if (n->mean >= 0)
        json_put(o, "running_statistics", json_utf8(dtype_str(p->batchnorm)));
}

static void policy_print_json(const struct policy *p, const struct graph *g, FILE *out)
{
    json_t *o, *layers = json_array();
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        o = json_new("{s:s, s:s, s:s}", "name", n->name, "kind", node_kind_str(n->kind),
                     "activation", dtype_str(p->activation));
        json_add(layers, o);
        node_policy_json(p, g, n, o);
    }
    o = json_new("{s:s, s:s, s:s, s:s, s:s, s:o}", "policy", p->name, "arch", g->arch, "loss",
                 "fp32", "accumulate", "fp32", "loss_scale", p->scaled ? "dynamic" : "none",
                 "layers", layers);
    json_print(o, out, JSON_COMPACT);
}

void describe_policy(const struct policy *p, const struct graph *g, bool json, FILE *out)
{
    if (json)
        policy_print_json(p, g, out);
    else
        policy_print(p, g, out);
}

void describe_networks(int classes, int image_size, bool json, FILE *out)
{
    const char *arch;
    struct graph *g = NULL;
    json_t *rows = json_array();
    if (!json)
        fprintf(out, "%-18s %12s %10s   (%d classes, images of %d x %d pixels)\n", "network",
                "parameters", "GFLOPs", classes, image_size, image_size);
    for (int i = 0; (arch = graph_arch_name(i)); i++) {
        if (graph_build(arch, classes, image_size, &g) != STATUS_OK)
            continue;
        int64_t params = graph_params_trained(g), flops = graph_flops_forward(g);
        graph_free(g);
        if (!json)
            fprintf(out, "%-18s %12" PRId64 " %10.3f\n", arch, params, (double)flops / 1e9);
        json_add(rows, json_new("{s:s, s:I, s:I}", "arch", arch, "parameters", (json_int_t)params,
                                "flops_forward", (json_int_t)flops));
    }
    if (json)
        json_print(json_incref(rows), out, JSON_COMPACT);
    json_decref(rows);
}
