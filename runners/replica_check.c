/* Do all replicas hold the same bits? Every rank gathers hashes from all of them and comes to the
 * same verdict: first one for each buffer, and where one differs, one for each of its tensors. */
#include "base/rng.h"
#include "runners/engine_parts.h"

#include <stdlib.h>

/* A cause comes before what follows from it. */
enum kind { GRADIENTS, WEIGHTS, MOMENTUM, STATISTICS, KINDS };

static const char *const kind_name[KINDS] = {"gradients", "weights", "momentum",
                                             "running statistics"};
static const enum param_value kind_value[KINDS] = {VALUE_GRADIENT, VALUE_WEIGHT, VALUE_MOMENTUM,
                                                   VALUE_WEIGHT};

/* All replicas that keep weights, `per_rank` of each rank in turn. */
struct crowd {
    int per_rank, n;
};

enum {
    PIECE_BYTES = 16 << 10, /* that the hash takes in at a time, which it depends on */
    FETCH_BYTES = 4 << 20,  /* that a GPU hands over at a time: each such wait is a pause */
};

/* Goes on from *hash over host memory. */
static void digest_fetched(const unsigned char *mem, size_t bytes, uint64_t *hash)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES)
        *hash = hash_bytes(*hash, mem + at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
}

/* A hash over device memory; of nothing it is 0. */
static enum status digest(const struct replica *r, const void *data, size_t bytes, uint64_t *hash)
{
    enum status st = STATUS_OK;
    const struct backend *b = r->dev->backend;
    unsigned char *fetched = malloc(bytes < FETCH_BYTES ? bytes + 1 : FETCH_BYTES);
    *hash = 0;
    if (!fetched)
        return status_fail(STATUS_OOM, "no memory to compare replicas");
    for (size_t at = 0; at < bytes; at += FETCH_BYTES) {
        size_t n = bytes - at < FETCH_BYTES ? bytes - at : FETCH_BYTES;
        CHECK(b->download(network_stream(r->net), fetched, (const char *)data + at, n));
        CHECK(b->stream_sync(network_stream(r->net)));
        digest_fetched(fetched, n, hash);
    }
done:
    free(fetched);
    return st;
}

/* From kind `first` on. */
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

/* Only what belongs to that kind of buffer: trained parameters, or statistics. */
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

/* `count` hashes of each replica, from all ranks. */
static enum status gather(struct engine *e, const struct crowd *c, const uint64_t *own,
                          uint64_t *all, int64_t count)
{
    struct comm_op op = {.kind = COMM_ALLGATHER,
                         .type = DTYPE_U8,
                         .send = own,
                         .recv = all,
                         .count = (int64_t)sizeof *own * count * c->per_rank};
    return comm_run(e->config.ranks, &op);
}

/* The replica that differs from most others, and one of these; false where all are the same.
 * *most: there are more of those than of any others. */
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

/* The first tensor in which two replicas differ; NULL: they differ between tensors. */
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
    uint64_t *own = calloc(n * (size_t)c->per_rank, sizeof *own);
    uint64_t *all = calloc(n * (size_t)c->n, sizeof *all);
    *name = NULL;
    if (!own || !all) {
        st = status_fail(STATUS_OOM, "no memory for hashes of %d replicas", c->n);
        goto done;
    }
    for (int i = 0; i < c->per_rank; i++)
        CHECK(digest_tensors(&e->replica[i], g, k, own + n * (size_t)i));
    CHECK(gather(e, c, own, all, (int64_t)n));
    *name = find_tensor(g, all + n * (size_t)odd, all + n * (size_t)usual);
done:
    free(own);
    free(all);
    return st;
}

static enum status judge(struct engine *e, const struct crowd *c, const uint64_t *all)
{
    for (int k = 0; k < KINDS; k++) {
        int odd, usual;
        bool most;
        const char *tensor;
        if (!find_odd(c, all, (enum kind)k, &odd, &usual, &most))
            continue;
        TRY(name_tensor(e, c, (enum kind)k, odd, usual, &tensor));
        return status_fail(STATUS_MISMATCH,
                           "the %s of rank %d, device %d differ from those of rank %d, device %d%s "
                           "in '%s': a device computed something else%s; the last checkpoint is "
                           "from before",
                           kind_name[k], odd / c->per_rank, odd % c->per_rank, usual / c->per_rank,
                           usual % c->per_rank, most ? " and of most others" : "",
                           tensor ? tensor : "padding",
                           most ? "" : ", and which of them did cannot be told");
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
    uint64_t *all = calloc((size_t)c.n, sizeof own[0]);
    if (!all)
        return status_fail(STATUS_OOM, "no memory for hashes of %d replicas", c.n);
    for (int i = 0; i < c.per_rank; i++)
        CHECK(digest_buffers(&e->replica[i], GRADIENTS, statistics, own[i]));
    CHECK(gather(e, &c, own[0], all, KINDS));
    st = judge(e, &c, all);
done:
    free(all);
    return st;
}
