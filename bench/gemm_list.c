/* Lists the matrix sizes of a network. */
#include "bench/gemm.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { PASSES = 3 };

double gemm_flops(const struct gemm_size *s)
{
    return 2.0 * s->m * s->n * s->k;
}

void gemm_list_free(struct gemm_list *list)
{
    free(list->item);
    *list = (struct gemm_list){0};
}

/* A layer as a matrix product, (rows x in) times (in x out), which is computed `groups` times. */
struct product {
    int64_t rows, in, out;
    int groups;
};

static bool product_of(const struct graph *g, const struct node *n, int batch, struct product *p)
{
    const struct node *in = &g->node[n->in[0]];
    if (n->kind == NODE_LINEAR) {
        *p = (struct product){batch, in->c, n->c, 1};
        return true;
    }
    if (n->kind != NODE_CONV)
        return false;
    *p = (struct product){.rows = batch * n->h * n->w,
                          .in = in->c / n->groups * n->kernel * n->kernel,
                          .out = n->c / n->groups,
                          .groups = n->groups};
    return true;
}

static struct gemm_size pass_of(const struct product *p, int pass)
{
    int rows = (int)p->rows, in = (int)p->in, out = (int)p->out;
    const struct gemm_size size[PASSES] = {
        {out, rows, in, true, false}, {in, rows, out, false, false}, {in, out, rows, false, true}};
    return size[pass];
}

static void list_add(struct gemm_list *list, const char *layer, const char *pass,
                     const struct gemm_size *size, int count)
{
    for (int i = 0; i < list->n; i++) {
        const struct gemm_size *s = &list->item[i].size;
        bool same = s->m == size->m && s->n == size->n && s->k == size->k && s->a_t == size->a_t &&
                    s->b_t == size->b_t;
        if (same && strcmp(list->item[i].pass, pass) == 0) {
            list->item[i].count += count;
            return;
        }
    }
    struct gemm_case *c = &list->item[list->n++];
    *c = (struct gemm_case){.size = *size, .pass = pass, .count = count};
    snprintf(c->layer, sizeof c->layer, "%s", layer);
}

enum status gemm_list_net(const struct graph *g, int batch, struct gemm_list *list)
{
    static const char *const pass_name[PASSES] = {"fwd", "bwd_data", "bwd_weights"};
    list->n = 0;
    TRY(array_new(&list->item, PASSES * g->n_nodes));
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        struct product p;
        if (!product_of(g, n, batch, &p))
            continue;
        if (p.rows > GEMM_SIZE_MAX || p.in > GEMM_SIZE_MAX || p.out > GEMM_SIZE_MAX) {
            gemm_list_free(list);
            return status_fail(STATUS_USAGE,
                               "layer '%s' of '%s' has a matrix of more than %d rows or columns; "
                               "give a smaller -b",
                               n->name, g->arch, GEMM_SIZE_MAX);
        }
        for (int pass = 0; pass < PASSES; pass++) {
            struct gemm_size size = pass_of(&p, pass);
            if (pass != 1 || g->node[n->in[0]].kind != NODE_INPUT)
                list_add(list, n->name, pass_name[pass], &size, p.groups);
        }
    }
    return STATUS_OK;
}
