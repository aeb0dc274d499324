/* Predicts the time of kernels. */
#include "kernels/gpu_time.h"

#include <math.h>
#include <string.h>

static const double gap_s = 1e-6, cached_share = 0.35, cache_share = 0.64;

/* --- the cache --- */

static void cache_remove(struct gpu_cache *c, int i)
{
    c->used -= c->tensor[i].bytes;
    c->n--;
    memmove(&c->tensor[i], &c->tensor[i + 1], (size_t)(c->n - i) * sizeof c->tensor[0]);
}

static bool cache_has(const struct gpu_cache *c, const char *from, double bytes)
{
    for (int i = 0; i < c->n; i++)
        if (c->tensor[i].from == from && c->tensor[i].bytes >= bytes)
            return true;
    return false;
}

/* Puts the tensor, if it fits, into the cache as the most recently used tensor. Removes other
 * tensors at the same addresses, because they no longer exist. */
static void cache_put(struct gpu_cache *c, double size, const char *from, double bytes)
{
    for (int i = c->n - 1; i >= 0; i--)
        if (c->tensor[i].from < from + (size_t)bytes &&
            from < c->tensor[i].from + (size_t)c->tensor[i].bytes)
            cache_remove(c, i);
    if (bytes > size)
        return;
    while (c->n == GPU_CACHE_TENSORS || c->used + bytes > size)
        cache_remove(c, 0);
    c->tensor[c->n++] = (struct gpu_cached){from, bytes};
    c->used += bytes;
}

/* Bytes that cross the memory bus. */
static double transferred(const struct gpu_description *gpu, const struct traffic_kernel *k,
                          struct gpu_cache *cache, void *const arg[ROLE_COUNT])
{
    double bytes = 0;
    for (int i = 0; i < k->n; i++) {
        const struct traffic_access *a = &k->access[i];
        bool cached = !a->writes && cache_has(cache, arg[a->role], a->bytes);
        bytes += cached ? cached_share * a->bytes : a->bytes;
    }
    for (int i = 0; i < k->n; i++)
        cache_put(cache, cache_share * gpu->l2, arg[k->access[i].role], k->access[i].bytes);
    return bytes;
}

/* --- the time --- */

static double product_share(const struct op_desc *d)
{
    const struct tensor_desc *w = &d->t[d->t[ROLE_W].ndim ? ROLE_W : ROLE_DW];
    int64_t window = w->ndim == 4 ? w->dim[2] * w->dim[3] : 1;
    if (window == 1)
        return 0.70;
    return w->dim[1] <= 4 ? 0.30 : 0.75;
}

/* The type of the operands. */
static enum dtype product_type(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[d->t[ROLE_X].ndim ? ROLE_X : ROLE_DY];
    return x->type == DTYPE_F32 && x->rounds == DTYPE_TF32 ? DTYPE_TF32 : x->type;
}

struct gpu_time gpu_time_of(const struct gpu_description *gpu, const struct op_desc *d,
                            const struct traffic_kernel *k, struct gpu_cache *cache,
                            void *const arg[ROLE_COUNT])
{
    double bytes = cache ? transferred(gpu, k, cache, arg) : traffic_bytes(k);
    double rate = gpu->bytes_per_s * (k->library ? 0.85 : 0.90);
    double memory_s = bytes / rate, copies_s = 2 * k->copies / rate, product_s = 0;
    if (k->flops > 0)
        product_s = k->flops / (gpu->flops_per_s[product_type(d)] * product_share(d));
    return (struct gpu_time){.seconds = fmax(memory_s, product_s) + copies_s + gap_s,
                             .dram_bytes = bytes + 2 * k->copies,
                             .compute = product_s > memory_s + copies_s};
}
