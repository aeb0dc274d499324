/* Architectures by name, and what a graph says about itself. */
#include "model/graph.h"
#include "model/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arch *const families[] = {arch_alexnet, arch_resnet, arch_vgg};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* The i-th architecture over all families, NULL past the last. */
static const struct arch *arch_at(int i)
{
    for (int f = 0; f < N_FAMILIES; f++)
        for (const struct arch *a = families[f]; a->name; a++)
            if (i-- == 0)
                return a;
    return NULL;
}

static const struct arch *arch_find(const char *name)
{
    const struct arch *a;
    for (int i = 0; (a = arch_at(i)); i++)
        if (strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

static enum status arch_unknown(const char *name)
{
    char known[512] = "";
    size_t used = 0;
    const struct arch *a;
    for (int i = 0; (a = arch_at(i)) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", a->name);
    return status_fail(STATUS_USAGE, "no network is called '%.40s'; known are %s", name, known);
}

/* Draws `a` once. When a layer has nothing left to work on, `small` names it. */
static enum status graph_draw(const struct arch *a, int classes, int image_size, struct graph **g,
                              char small[NAME_MAX_LEN])
{
    *g = NULL;
    struct builder b = {.g = calloc(1, sizeof *b.g)};
    if (!b.g)
        return status_fail(STATUS_OOM, "no memory for the graph of %s", a->name);
    snprintf(b.g->arch, sizeof b.g->arch, "%s", a->name);
    b.g->classes = classes;
    b.g->image_size = image_size;
    a->build(&b, a->variant);
    memcpy(small, b.small, NAME_MAX_LEN);
    if (b.st != STATUS_OK)
        graph_free(b.g);
    else
        *g = b.g;
    return b.st;
}

/* Explains that an image of `image_size` is too small for `layer`, with the size that is not. */
static enum status image_too_small(const struct arch *a, int classes, int image_size,
                                   const char *layer)
{
    struct graph *g = NULL;
    char still_small[NAME_MAX_LEN];
    int works = image_size;
    enum status st;
    do
        st = graph_draw(a, classes, ++works, &g, still_small);
    while (st != STATUS_OK && still_small[0] && works < IMAGE_SIZE_MAX);
    graph_free(g);
    if (st != STATUS_OK)
        return st;
    return status_fail(
        STATUS_USAGE,
        "images of %d pixels a side are too small for layer '%s' of %s; the smallest "
        "that work have %d",
        image_size, layer, a->name, works);
}

enum status graph_build(const char *arch, int classes, int image_size, struct graph **g)
{
    *g = NULL;
    const struct arch *a = arch_find(arch);
    if (!a)
        return arch_unknown(arch);
    if (classes < 1 || classes > CLASSES_MAX)
        return status_fail(STATUS_USAGE, "a network cannot have %d classes; give 1 to %d", classes,
                           CLASSES_MAX);
    if (image_size < 1 || image_size > IMAGE_SIZE_MAX)
        return status_fail(STATUS_USAGE, "an image cannot have %d pixels a side; give 1 to %d",
                           image_size, IMAGE_SIZE_MAX);
    char small[NAME_MAX_LEN];
    enum status st = graph_draw(a, classes, image_size, g, small);
    if (st != STATUS_OK && small[0])
        st = image_too_small(a, classes, image_size, small);
    return st;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    free(g->node);
    free(g->param);
    free(g);
}

const char *graph_arch_name(int i)
{
    const struct arch *a = arch_at(i);
    return a ? a->name : NULL;
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
    /* Each weight meets each place of the result once. */
    return 2.0 * (double)param_count(&g->param[n->weight]) * (double)(n->h * n->w);
}

double graph_flops_forward(const struct graph *g)
{
    double flops = 0;
    for (int i = 0; i < g->n_nodes; i++)
        flops += node_flops_forward(g, i);
    return flops;
}
