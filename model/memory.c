/* Assigns values their places in the arena.
 *
 * A greedy algorithm places the largest value first, and each value at the lowest offset where it
 * overlaps no value that is alive at the same time. */
#include "base/array.h"
#include "model/program.h"

#include <stdlib.h>

/* The alignment in bytes of values and of the workspace after them. GPU libraries require this
 * alignment for a workspace. (Memory from a separate allocation has it too.) */
enum { ALIGN = 256 };

struct item {
    struct value *v;
    size_t bytes;
};

static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->v < y->v ? -1 : x->v > y->v; /* a fixed order makes the plan reproducible */
}

/* The lowest offset for `it` among `n` placed items that are sorted by offset. */
static size_t lowest_offset(const struct item *it, const struct item *placed, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct value *o = placed[i].v;
        bool together = o->first <= it->v->last && it->v->first <= o->last;
        if (!together || o->offset + placed[i].bytes <= at)
            continue;
        if (o->offset >= at + it->bytes)
            break;
        at = o->offset + placed[i].bytes;
    }
    return at;
}

static void insert_by_offset(struct item *placed, int n, struct item it)
{
    for (; n > 0 && placed[n - 1].v->offset > it.v->offset; n--)
        placed[n] = placed[n - 1];
    placed[n] = it;
}

enum status program_place(struct program *p)
{
    struct item *item;
    TRY(array_new(&item, 2 * p->n_values));
    struct item *placed = item + p->n_values;
    int n = 0;
    for (int i = 0; i < p->n_values; i++) {
        struct value *v = &p->value[i];
        if (v->storage == i && v->first >= 0) /* values that no operation touches are not stored */
            item[n++] = (struct item){v, (v->desc.bytes + ALIGN - 1) / ALIGN * ALIGN};
    }
    qsort(item, (size_t)n, sizeof *item, by_size);
    p->arena_bytes = 0;
    for (int i = 0; i < n; i++) {
        item[i].v->offset = lowest_offset(&item[i], placed, i);
        insert_by_offset(placed, i, item[i]);
        size_t end = item[i].v->offset + item[i].bytes;
        if (end > p->arena_bytes)
            p->arena_bytes = end;
    }
    for (int i = 0; i < p->n_values; i++)
        p->value[i].offset = p->value[p->value[i].storage].offset;
    free(item);
    return STATUS_OK;
}
