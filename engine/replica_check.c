/* Compares the bits of all replicas. Every rank gathers the hashes of all replicas, so all ranks
 * reach the same verdict. The ranks first compare one hash per buffer. If the hashes of a buffer
 * differ, they compare one hash per tensor of that buffer. */
#include "base/array.h"
#include "base/rng.h"
#include "engine/engine_parts.h"

#include <stdlib.h>

/* Kinds of buffers. A fault in one kind spreads to later kinds, so the first kind that differs is
 * reported. */
enum kind { GRADIENTS, WEIGHTS, MOMENTUM, STATISTICS, KINDS };

static const char *const kind_name[KINDS] = {"gradients", "weights", "momentum",
                                             "running statistics"};
static const enum param_value kind_value[KINDS] = {VALUE_GRADIENT, VALUE_WEIGHT, VALUE_MOMENTUM,
                                                   VALUE_WEIGHT};

/* All replicas whose weights are compared, in the order of ranks: `per_rank` replicas on each rank,
 * `n` replicas in all. */
struct crowd {
    int per_rank, n;
};

enum {
    PIECE_BYTES = 16 << 10, /* block size of the hash; another size gives other hashes */
    FETCH_BYTES = 4 << 20,  /* bytes per download from a GPU; each download synchronises */
};

/* Sets *hash to a hash over device memory, or to 0 if `bytes` is 0. */
static enum status digest(const struct replica *r, const void *data, size_t bytes, uint64_t *hash)
{
    enum status st = STATUS_OK;
    const struct backend *b = r->dev->backend;
    unsigned char *fetched;
    *hash = 0;
    TRY(array_new(&fetched, bytes < FETCH_BYTES ? bytes : FETCH_BYTES));
    for (size_t at = 0; at < bytes; at += FETCH_BYTES) {
        size_t n = bytes - at < FETCH_BYTES ? bytes - at : FETCH_BYTES;
        CHECK(b->download(network_stream(r->net), fetched, (const char *)data + at, n));
        CHECK(b->stream_sync(network_stream(r->net)));
        for (size_t k = 0; k < n; k += PIECE_BYTES)
            *hash = hash_bytes(*hash, fetched + k, n - k < PIECE_BYTES ? n - k : PIECE_BYTES);
    }
done:
    free(fetched);
    return st;
}

/* Hashes the buffers from kind `first` on. */
static enum status digest_buffers(const struct replica *r, enum kind first, bool statistics,
                                  uint64_t hash[KINDS])
{
    size_t bytes;
    for (int k = (int)first; k < STATISTICS; k++) {
        const void *data = network_flat(r->net, kind_value[k], &bytes);
        TRY(digest(r, data, bytes, &hash[k]));
    }
    const void *data = network_buffers(r->net, &bytes);
    return digest(r, data, statistics ? bytes : 0, &hash[STATISTICS]);
}

enum status engine_state_bits(struct engine *e, uint64_t *bits)
{
    uint64_t hash[KINDS];
    TRY(digest_buffers(&e->replica[0], WEIGHTS, true, hash));
    *bits = hash_bytes(0, &hash[WEIGHTS], (KINDS - WEIGHTS) * sizeof *hash);
    return STATUS_OK;
}

/* Hashes each tensor in the buffer of kind `kind`: trained parameters, or statistics. */
static enum status digest_tensors(const struct replica *r, const struct graph *g, enum kind kind,
                                  uint64_t *hash)
{
    for (int i = 0; i < g->n_params; i++) {
        size_t bytes;
        const void *data = network_place(r->net, kind_value[kind], i, &bytes);
        bool belongs = param_is_trained(&g->param[i]) == (kind != STATISTICS);
        TRY(digest(r, data, belongs ? bytes : 0, &hash[i]));
    }
    return STATUS_OK;
}

/* Gathers `count` hashes of each replica from all ranks. */
static enum status gather_hashes(struct engine *e, const struct crowd *c, const uint64_t *own,
                                 uint64_t *all, int64_t count)
{
    return comm_gather(e->config.ranks, own, all, (int64_t)sizeof *own * count * c->per_rank);
}

/* Returns false if all replicas have the same hash. Otherwise sets *usual to a replica with the
 * most frequent hash, *odd to the first replica with another hash, and *most to whether more than
 * half of the replicas have the most frequent hash. */
static bool find_odd(const struct crowd *c, const uint64_t *all, enum kind k, int *odd, int *usual,
                     bool *most)
{
    int best = 0;
    *usual = 0;
    for (int i = 0; i < c->n; i++) {
        int same = 0;
        for (int j = 0; j < c->n; j++)
            same += all[i * KINDS + k] == all[j * KINDS + k];
        if (same > best)
            *usual = i;
        best = same > best ? same : best;
    }
    *most = 2 * best > c->n;
    for (*odd = 0; *odd < c->n; (*odd)++)
        if (all[*odd * KINDS + k] != all[*usual * KINDS + k])
            return true;
    return false;
}

/* Returns the name of the first tensor in which two replicas differ; NULL if they differ only in
 * padding. */
static const char *find_tensor(const struct graph *g, const uint64_t *a, const uint64_t *b)
{
    for (int i = 0; i < g->n_params; i++)
        if (a[i] != b[i])
            return g->param[i].name;
    return NULL;
}

static enum status name_tensor(struct engine *e, const struct crowd *c, enum kind k, int odd,
                               int usual, const char **name)
{
    enum status st;
    const struct graph *g = e->config.graph;
    size_t n = (size_t)g->n_params;
    uint64_t *own = NULL, *all = NULL;
    *name = NULL;
    CHECK(array_new(&own, n * (size_t)c->per_rank));
    CHECK(array_new(&all, n * (size_t)c->n));
    for (int i = 0; i < c->per_rank; i++)
        CHECK(digest_tensors(&e->replica[i], g, k, own + n * (size_t)i));
    CHECK(gather_hashes(e, c, own, all, (int64_t)n));
    *name = find_tensor(g, all + n * (size_t)odd, all + n * (size_t)usual);
done:
    free(own);
    free(all);
    return st;
}

static enum status judge_hashes(struct engine *e, const struct crowd *c, const uint64_t *all)
{
    for (int k = 0; k < KINDS; k++) {
        int odd, usual;
        bool most;
        const char *tensor;
        if (!find_odd(c, all, (enum kind)k, &odd, &usual, &most))
            continue;
        TRY(name_tensor(e, c, (enum kind)k, odd, usual, &tensor));
        return status_fail(
            STATUS_MISMATCH,
            "the %s of rank %d, device %d differ from those of rank %d, device %d%s in '%s': a "
            "transfer or a device made an error%s; the last checkpoint was written before the "
            "error",
            kind_name[k], odd / c->per_rank, odd % c->per_rank, usual / c->per_rank,
            usual % c->per_rank, most ? " and of most other devices" : "",
            tensor ? tensor : "padding", most ? "" : ", and it is unknown which one");
    }
    return STATUS_OK;
}

enum status engine_check_replicas(struct engine *e, bool statistics)
{
    enum status st;
    uint64_t own[DEVICES_MAX][KINDS];
    struct crowd c = {.per_rank = e->central ? 1 : e->n};
    c.n = c.per_rank * engine_ranks(e);
    if (c.n == 1)
        return STATUS_OK;
    uint64_t *all;
    TRY(array_new(&all, (int64_t)c.n * KINDS));
    for (int i = 0; i < c.per_rank; i++)
        CHECK(digest_buffers(&e->replica[i], GRADIENTS, statistics, own[i]));
    CHECK(gather_hashes(e, &c, own[0], all, KINDS));
    st = judge_hashes(e, &c, all);
done:
    free(all);
    return st;
}
