/* Opens and closes an engine, and defines functions that all modes share. */
#include "engine/engine.h"

#include "engine/engine_parts.h"
#include "engine/mixup.h"

#include "base/array.h"

#include <stdlib.h>

/* Sets config[use], the configuration of the program for each use. Does not set the numbers of
 * rows: replica_open does so. */
static void program_configs(const struct engine *e, struct program_config config[USE_COUNT])
{
    const struct engine_config *c = &e->config;
    struct program_config base = c->program;
    base.train = true;
    base.fuse = c->ladder ? ladder_fuse(c->ladder) : base.fuse;
    base.check_finite = c->scaled;
    base.scaler = e->keeps_scale ? &e->config.scaler : NULL;
    base.graphs = engine_replays_graphs(e);
    base.wgrad_stream = c->devices->backend->asynchronous && c->wgrad_stream != OPTION_OFF;
    base.reduced = e->n > 1 || engine_ranks(e) > 1 || c->accumulate > 1;
    base.half_gradients = !base.reduced;
    config[USE_TRAIN] = config[USE_TAIL] = config[USE_VAL] = base;
    config[USE_VAL].train = false;
    config[USE_VAL].label_smoothing = 0; /* validation reports the plain cross entropy */
    config[USE_VAL].mixes = false;
}

/* Explains why replica `r` cannot be planned, if its part of the epoch's last batch is the reason.
 */
static enum status explain_tail(const struct replica *r, enum status st)
{
    if (st != STATUS_INVALID || r->part[USE_TAIL].count != 1 || r->part[USE_TRAIN].count == 1)
        return st;
    return status_fail(st,
                       "an epoch's last batch leaves a device one image, of which batch norm has "
                       "only one value per channel; give another -b or a larger --image-size, or "
                       "--drop-last");
}

static enum status open_replicas(struct engine *e)
{
    const struct engine_config *c = &e->config;
    struct program_config config[USE_COUNT];
    program_configs(e, config);
    for (int i = 0; i < e->n; i++) {
        struct replica *r = &e->replica[i];
        r->dev->deterministic = c->deterministic;
        r->dev->plans = c->plans;
        r->dev->conv_algorithm = c->conv_algorithm;
        struct comm *sync = c->sync_bn ? engine_sum_comm(e, i) : NULL;
        enum status st = replica_open(r, i, e->n, r->dev, c->graph, config, c->rows, sync);
        TRY(explain_tail(r, st));
    }
    return STATUS_OK;
}

/* Returns whether the device still works. After its context is destroyed, every call fails. */
static bool device_answers(struct device *dev)
{
    struct stream *s;
    if (dev->backend->stream_open(dev, &s) != STATUS_OK)
        return false;
    enum status st = dev->backend->stream_sync(s);
    dev->backend->stream_close(s);
    return st == STATUS_OK;
}

enum status engine_fall(struct engine *e, enum ladder_failure kind, enum status st)
{
    struct ladder *l = e->config.ladder;
    struct first_failure first = {0};
    bool lost = false;
    first_failure_keep(&first, st);
    for (int i = 0; i < e->n && !lost; i++)
        lost = !device_answers(e->replica[i].dev);
    st = first_failure_return(&first);
    return lost ? ladder_explain(l, kind, st) : ladder_fall(l, kind, st);
}

/* `st` is the result of opening the replicas on this rank. If planning failed on any rank, all
 * ranks move one rung down the ladder (ladder.h). Sets *again if the caller must open the replicas
 * once more. */
static enum status agree_on_plans(struct engine *e, enum status st, bool *again)
{
    double failed = st != STATUS_OK;
    *again = false;
    if (st != STATUS_OK)
        TRY(engine_fall(e, FAILED_PLAN, st));
    if (engine_ranks(e) > 1)
        TRY(comm_sum(e->config.ranks, &failed, 1));
    if (failed == 0)
        return STATUS_OK;
    if (st == STATUS_OK)
        TRY(engine_fall(e, FAILED_PLAN,
                        status_fail(STATUS_LIBRARY, "another rank cannot plan its operations")));
    if (comm_rank(e->config.ranks) == 0)
        ladder_warn(e->config.ladder);
    for (int i = 0; i < e->n; i++) {
        network_close(e->replica[i].net);
        e->replica[i].net = NULL;
    }
    *again = true;
    return STATUS_OK;
}

static enum status open_replicas_on_ladder(struct engine *e)
{
    bool again = true;
    while (again) {
        enum status st = open_replicas(e);
        if (!e->config.ladder)
            return st;
        TRY(agree_on_plans(e, st, &again));
    }
    return STATUS_OK;
}

/* Checks that the weights of all replicas have the same layout, because replicas exchange flat
 * buffers. */
static enum status check_layouts(struct engine *e)
{
    uint64_t first, other;
    TRY(network_layout_hash(e->replica[0].net, &first));
    for (int i = 1; i < e->n; i++) {
        TRY(network_layout_hash(e->replica[i].net, &other));
        if (other != first)
            return status_fail(
                STATUS_USAGE,
                "device %d has %d images and another layout of weights than device 0, "
                "which has %d images; give a -b that is a multiple of %d",
                i, e->replica[i].part[USE_TRAIN].count, e->replica[0].part[USE_TRAIN].count, e->n);
    }
    return STATUS_OK;
}

/* Makes replica i's backward passes report when all gradients of a bucket are complete, instead of
 * after each gradient. */
static enum status set_bucket_ends(struct engine *e, int i)
{
    int n = reducer_buckets(e->reducer[i]);
    int64_t *end;
    TRY(array_new(&end, n));
    for (int k = 0; k < n; k++)
        end[k] = reducer_bucket_end(e->reducer[i], k);
    for (int u = 0; u < USE_VAL; u++)
        if (e->replica[i].program[u])
            program_announce(e->replica[i].program[u], end, n);
    free(end);
    return STATUS_OK;
}

/* Opens the reducers. Opens no reducer if gradients stay on one device and are complete after one
 * micro-batch. */
static enum status open_reducers(struct engine *e)
{
    const struct engine_config *c = &e->config;
    if (!engine_trains(e))
        return STATUS_OK;
    for (int i = 0; i < (e->central ? 1 : e->n); i++) {
        struct reducer_config r = {.net = e->replica[i].net,
                                   .comm = engine_gradient_comm(e, i),
                                   .rounded = e->central,
                                   .accumulate = c->accumulate > 1,
                                   .first_bytes = 1 << 20,
                                   .bucket_bytes = (size_t)(c->bucket_mb * (1 << 20)),
                                   .compress = c->grad_compress};
        bool shared = r.comm && comm_size(r.comm) > 1;
        if (!shared && !r.accumulate)
            continue;
        if (r.first_bytes > r.bucket_bytes)
            r.first_bytes = r.bucket_bytes;
        TRY(reducer_open(&r, &e->reducer[i]));
        if (!e->central)
            TRY(set_bucket_ends(e, i));
    }
    return STATUS_OK;
}

/* Refuses a batch size that leaves a replica without rows: a replica without rows could not take
 * part in the sums over the replicas. */
static enum status check_parts(const struct engine *e)
{
    static const char *const batch[USE_COUNT] = {"a batch", "an epoch's last batch",
                                                 "a validation batch"};
    for (int u = 0; u < USE_COUNT; u++) {
        int rows = e->config.rows[u];
        bool sums = u != USE_VAL && (!e->central || e->config.sync_bn);
        bool idle = rows > 0 && part_of(rows, e->n, e->n - 1).count == 0;
        if (idle && (sums || u == USE_TRAIN))
            return status_fail(
                STATUS_USAGE,
                "%s of %d images leaves no image for the last of %d devices; give another -b%s",
                batch[u], rows, e->n, u == USE_TAIL ? ", or --drop-last" : "");
    }
    return STATUS_OK;
}

static enum status open_parts(struct engine *e)
{
    TRY(check_parts(e));
    TRY(engine_comm_open(e));
    const struct engine_config *c = &e->config;
    const struct backend *b = c->devices->backend;
    e->replica[0].dev = c->first;
    e->replica[0].lent = c->first;
    for (int i = c->first ? 1 : 0; i < e->n; i++)
        TRY(b->open(b, c->devices->index[i], c->threads, &e->replica[i].dev));
    TRY(engine_comm_open_devices(e));
    TRY(open_replicas_on_ladder(e));
    TRY(check_layouts(e));
    TRY(open_reducers(e));
    if (e->central)
        TRY(data_parallel_open(e));
    TRY(in_flight_open(e));
    return thread_pool_open(e->n, &e->pool);
}

enum status engine_open(const struct engine_config *config, struct engine **out)
{
    struct engine *e;
    *out = NULL;
    TRY(array_new(&e, 1));
    e->config = *config;
    e->n = config->devices->n;
    e->central = e->n > 1 && config->dp_reduce == DP_CENTRAL;
    /* In DataParallel the devices and the host wait for each other several times per step, so steps
     * cannot overlap and the lag is 0. */
    e->lag = config->devices->backend->asynchronous && !e->central ? ENGINE_LAG_MAX : 0;
    e->keeps_scale = config->scaled && e->lag > 0;
    enum status st = open_parts(e);
    if (st != STATUS_OK) {
        engine_close(e);
        return st;
    }
    engine_set_wgrad_stream(e, config->wgrad_stream == OPTION_ON);
    engine_set_pdl(e, config->pdl == OPTION_ON);
    *out = e;
    return STATUS_OK;
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    thread_pool_close(e->pool);
    engine_idle(e);
    engine_comm_close_devices(e);
    data_parallel_close(e);
    in_flight_close(e);
    for (int i = 0; i < e->n; i++) {
        reducer_close(e->reducer[i]);
        replica_close(&e->replica[i]);
    }
    engine_comm_close(e);
    free(e);
}

void engine_idle(struct engine *e)
{
    for (int i = 0; e && i < e->n; i++)
        if (e->replica[i].net)
            network_idle(e->replica[i].net);
}

int engine_lag(const struct engine *e)
{
    return e->lag;
}

bool engine_may_replay(const struct backend *b, bool no_graph, bool sync_bn)
{
    return b->capture_begin && !no_graph && !sync_bn;
}

bool engine_replays_graphs(const struct engine *e)
{
    const struct engine_config *c = &e->config;
    return engine_may_replay(c->devices->backend, c->no_graph, c->sync_bn) &&
           (!c->ladder || ladder_graphs(c->ladder));
}

const char *engine_graphs_lost(const struct engine *e)
{
    const char *why = NULL;
    for (int i = 0; i < e->n && !why; i++)
        why = network_graphs_lost(e->replica[i].net);
    return why;
}

void engine_drop_graphs(struct engine *e, const char *why)
{
    for (int i = 0; i < e->n; i++)
        if (!network_graphs_lost(e->replica[i].net))
            network_drop_graphs(e->replica[i].net, why);
}

bool engine_uses_wgrad_stream(const struct engine *e)
{
    return e->wgrad_stream;
}

void engine_set_wgrad_stream(struct engine *e, bool use)
{
    e->wgrad_stream = use && network_has_wgrad_stream(engine_network(e));
    for (int i = 0; i < e->n; i++)
        network_use_wgrad_stream(e->replica[i].net, use);
}

bool engine_has_pdl(const struct engine *e)
{
    for (int i = 0; i < e->n; i++)
        if (network_has_pdl(e->replica[i].net))
            return true;
    return false;
}

bool engine_uses_pdl(const struct engine *e)
{
    return e->pdl;
}

void engine_set_pdl(struct engine *e, bool use)
{
    e->pdl = use && engine_has_pdl(e);
    for (int i = 0; i < e->n; i++)
        network_use_pdl(e->replica[i].net, use);
}

bool engine_keeps_scale(const struct engine *e)
{
    return e->keeps_scale;
}

enum status engine_set_scale(struct engine *e, const struct scaler_state *s)
{
    for (int i = 0; i < e->n; i++)
        TRY(network_set_scaler(e->replica[i].net, s));
    return STATUS_OK;
}

struct network *engine_network(struct engine *e)
{
    return e->replica[0].net;
}

struct device *engine_device(struct engine *e)
{
    return e->replica[0].dev;
}

int engine_buckets(const struct engine *e)
{
    return e->reducer[0] ? reducer_buckets(e->reducer[0]) : 0;
}

void engine_bytes(const struct engine *e, size_t *params, size_t *arena)
{
    *params = *arena = 0;
    for (int i = 0; i < e->n; i++) {
        *params += network_param_bytes(e->replica[i].net);
        *arena += network_arena_bytes(e->replica[i].net);
    }
}

const char *engine_comm_name(const struct engine *e)
{
    const struct comm *c = engine_gradient_comm(e, 0);
    return c ? comm_name(c) : NULL;
}

const char *engine_comm_why(const struct engine *e)
{
    return e->group.why;
}

/* Broadcasts `data` from the first device of rank 0 to the first devices of the other ranks. The
 * streams of these devices must be idle. */
static enum status broadcast(struct engine *e, void *data, size_t bytes)
{
    struct comm_op op = {.kind = COMM_BROADCAST,
                         .type = DTYPE_F32,
                         .recv = data,
                         .count = (int64_t)(bytes / sizeof(float))};
    return bytes ? comm_run(e->lead, &op) : STATUS_OK;
}

/* Waits until all streams are idle. The engine does so before and after a copy between devices,
 * because the source must be complete before the copy and must not change during the copy. */
static enum status settle(const struct engine *e)
{
    for (int i = 0; i < e->n; i++)
        TRY(e->replica[i].dev->backend->stream_sync(network_stream(e->replica[i].net)));
    return STATUS_OK;
}

enum status engine_share(struct engine *e)
{
    static const enum param_value kept[] = {VALUE_WEIGHT, VALUE_MOMENTUM};
    struct replica *first = &e->replica[0];
    size_t bytes;
    TRY(settle(e));
    if (engine_ranks(e) > 1) {
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            void *flat = network_flat(first->net, kept[i], &bytes);
            TRY(broadcast(e, flat, bytes));
        }
        TRY(engine_share_buffers(e));
        network_touched(first->net);
    }
    for (int i = 1; i < e->n; i++)
        TRY(replica_copy(&e->replica[i], first, engine_trains(e)));
    return settle(e);
}

enum status engine_share_buffers(struct engine *e)
{
    size_t bytes;
    void *buffers = network_buffers(e->replica[0].net, &bytes);
    TRY(settle(e));
    if (engine_ranks(e) > 1)
        TRY(broadcast(e, buffers, bytes));
    for (int i = 1; i < e->n && !e->central; i++) {
        struct replica *r = &e->replica[i];
        TRY(r->dev->backend->copy(network_stream(r->net), network_buffers(r->net, &bytes), buffers,
                                  bytes));
    }
    return settle(e);
}

enum status engine_input(struct engine *e, int i, const struct micro_batch *b,
                         const struct step_state *state)
{
    const struct replica *r = &e->replica[i];
    struct part part = r->part[b->use];
    size_t side = (size_t)e->config.graph->image_size;
    int rows = e->config.rows[b->use];
    struct step_state *own = &engine_in_flight(e, e->begun)->given[i][b->number];
    const struct backend *backend = r->dev->backend;
    *own = *state;
    /* Only a step's last micro-batch may be smaller, so the images of a step have different
     * numbers. */
    own->sample0 = (uint64_t)b->number * (uint64_t)comm_size(e->config.ranks) *
                       (uint64_t)e->config.rows[USE_TRAIN] +
                   (uint64_t)comm_rank(e->config.ranks) * (uint64_t)rows + (uint64_t)part.first;
    if (!e->central) { /* multiply this part's loss by the part's share of the rows, because the
                        * loss of a step is the mean over the whole batch */
        own->share = (float)part.count / (float)rows;
        own->loss_scale = scaler_loss_scale((double)own->loss_scale, own->share);
    }
    struct program *p = r->program[b->use];
    const int32_t *label = b->batch->label + part.first;
    TRY(program_state(p, own));
    if (program_config(p)->mixes) {
        mixup_pair(label, part.count, engine_partners(e, i, b->number));
        TRY(program_partners(p, engine_partners(e, i, b->number)));
    }
    TRY(program_input(p, b->batch->pixels + (size_t)part.first * side * side * 3, label));
    return backend->event_record(e->read[i][e->batches % (ENGINE_HOLDS + 1)],
                                 network_input_stream(r->net));
}
