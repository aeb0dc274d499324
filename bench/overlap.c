/* Measures how much communication overlaps with the backward pass. */
#include "bench/overlap_parts.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "model/exchange.h"

#include <inttypes.h>
#include <stdlib.h>

/* Runs one training step, in which the gradients are reduced before the update. Sets `part` to the
 * times of the step's parts on this rank. */
static enum status step_run(struct overlap *o, struct variant *v, double part[PART_MEASURED])
{
    struct program *p = network_program(o->net, 0);
    struct comm_op together = {.kind = COMM_BARRIER};
    struct step_state state = {
        .lr = 1e-6f, .loss_scale = 1, .grad_scale = (float)(1 / reducer_divisor(v->reducer))};
    TRY(comm_run(o->world.comm, &together));
    uint64_t begun = clock_ns();
    TRY(program_state(p, &state));
    TRY(program_run(p, PHASE_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    TRY(program_wait(p));
    uint64_t backward = clock_ns();
    reducer_begin(v->reducer, true, true, false, false);
    TRY(program_backward(p, reducer_complete, v->reducer));
    TRY(program_wait(p));
    uint64_t computed = clock_ns();
    TRY(reducer_finish(v->reducer));
    uint64_t reduced = clock_ns();
    TRY(program_run(p, PHASE_CHECK));
    TRY(program_run(p, PHASE_UPDATE));
    TRY(program_wait(p));
    part[PART_STEP] = (double)(clock_ns() - begun) * 1e-9;
    part[PART_BACKWARD] = (double)(computed - backward) * 1e-9;
    part[PART_WAIT] = (double)(reduced - computed) * 1e-9;
    part[PART_BUSY] = reducer_busy_s(v->reducer, 0);
    part[PART_EXPOSED] = reducer_busy_after_s(v->reducer, (int64_t)computed);
    return STATUS_OK;
}

/* Returns the fraction of communication that is hidden by the backward pass, or 0 if there was no
 * communication (`busy` is 0). */
static double share_hidden(double exposed, double busy)
{
    return busy > 0 ? 1 - exposed / busy : 0;
}

/* Computes the derived parts from the means over ranks. `least` has, for each variant, the smallest
 * exposed time over all ranks. */
static void derive(struct overlap *o, int round, const double *least)
{
    double alone = o->variant[0].sample[PART_BACKWARD][round];
    for (int i = 0; i < o->n; i++) {
        double **s = o->variant[i].sample;
        double busy = s[PART_BUSY][round];
        s[PART_GRADIENTS][round] = s[PART_BACKWARD][round] + s[PART_WAIT][round];
        s[PART_COST][round] = s[PART_GRADIENTS][round] - alone;
        s[PART_LATE][round] = s[PART_EXPOSED][round] - least[i];
        s[PART_HIDDEN][round] = share_hidden(s[PART_EXPOSED][round], busy);
        s[PART_EVEN][round] = share_hidden(least[i], busy - s[PART_LATE][round]);
    }
}

/* Runs one step of each variant. Each round begins with a different variant. Round -1 is the
 * warm-up. */
static enum status round_run(struct overlap *o, int round)
{
    double part[1 + OVERLAP_SIZES_MAX][PART_MEASURED], least[1 + OVERLAP_SIZES_MAX];
    struct comm_op minimum = {.kind = COMM_ALLREDUCE,
                              .reduction = COMM_MIN,
                              .type = DTYPE_F64,
                              .send = least,
                              .recv = least,
                              .count = o->n};
    for (int i = 0; i < o->n; i++) {
        int turned = (i + round + 1) % o->n;
        TRY(step_run(o, &o->variant[turned], part[turned]));
    }
    for (int i = 0; i < o->n; i++)
        least[i] = part[i][PART_EXPOSED];
    TRY(comm_run(o->world.comm, &minimum));
    TRY(comm_sum(o->world.comm, part[0], o->n * PART_MEASURED));
    if (round < 0)
        return STATUS_OK;
    for (int i = 0; i < o->n; i++)
        for (int k = 0; k < PART_MEASURED; k++)
            o->variant[i].sample[k][round] = part[i][k] / o->world.size;
    derive(o, round, least);
    return STATUS_OK;
}

/* Checks that all ranks have the same settings and the same layout of weights. The layout depends
 * on processor and library. */
static enum status overlap_agree(struct overlap *o)
{
    char layout[32];
    uint64_t hash;
    json_t *settings = overlap_config_json(o->config);
    enum status st;
    json_object_del(settings, "devices");
    json_object_del(settings, "threads");
    CHECK(network_layout_hash(o->net, &hash));
    snprintf(layout, sizeof layout, "%016" PRIx64, hash);
    CHECK(json_put(settings, "fingerprint of the layout of weights (processor and library)",
                   json_string(layout)));
    CHECK(world_agree(&o->world, settings));
done:
    json_decref(settings);
    return st;
}

/* Returns the configuration of a variant's reducer. Buckets are as in training; a size of 0 MiB
 * means one bucket for all gradients. */
static struct reducer_config reducer_config(const struct overlap *o, int variant)
{
    struct reducer_config r = {.net = o->net, .first_bytes = SIZE_MAX, .bucket_bytes = SIZE_MAX};
    if (variant == 0)
        return r;
    double mb = o->config->bucket_mb[variant - 1];
    r.comm = o->world.comm;
    r.compress = o->config->compress;
    if (mb > 0) {
        r.bucket_bytes = (size_t)(mb * (1 << 20));
        r.first_bytes = r.bucket_bytes < 1 << 20 ? r.bucket_bytes : 1 << 20;
    }
    return r;
}

/* Connects the ranks. Each rank has one device. */
static enum status overlap_join(struct overlap *o)
{
    struct world_config meeting = world_config_default();
    const char *devices = o->config->options.devices;
    TRY(device_list_parse(devices, &o->devices));
    if (o->devices.n != 1)
        return status_fail(STATUS_USAGE, "bench overlap uses one device per process, not '%s'",
                           devices);
    meeting.via = o->config->via;
    TRY(world_open(&meeting, &o->world));
    if (o->world.size < 2)
        return status_fail(STATUS_USAGE,
                           "bench overlap needs two processes or more: start it with 'ampscale "
                           "launch --nproc N -- bench overlap ...', mpirun or srun");
    return world_check_data(&o->world);
}

static enum status overlap_measure(struct overlap *o)
{
    const struct bench_options *c = &o->config->options;
    const struct harness_job job = {o->world.comm, o->world.info, 1};
    struct harness_config quiet = c->timing;
    quiet.job = &job;
    const struct backend *b = o->devices.backend;
    TRY(graph_build(c->net, 1000, c->image_size, &o->graph));
    int threads = c->threads ? c->threads : world_threads(&o->world, 1);
    TRY(b->open(b, o->devices.index[0], threads, &o->dev));
    TRY(noise_step_open(o->dev, o->graph, c, true, &o->net));
    TRY(overlap_agree(o));
    int rounds = o->config->options.rounds;
    o->n = 1 + o->config->n_sizes;
    TRY(array_new(&o->samples, (int64_t)o->n * PART_COUNT * rounds));
    for (int i = 0; i < o->n; i++) {
        struct reducer_config r = reducer_config(o, i);
        TRY(reducer_open(&r, &o->variant[i].reducer));
        for (int k = 0; k < PART_COUNT; k++)
            o->variant[i].sample[k] = o->samples + (i * PART_COUNT + k) * rounds;
    }
    struct bar *bar = o->world.rank == 0 ? c->timing.bar : NULL;
    struct quiet q = quiet_begin(&quiet);
    do {
        bar_begin(bar, rounds + 1);
        for (int round = -1; round < rounds; round++) {
            TRY(round_run(o, round));
            bar_step(bar);
        }
        TRY(quiet_end(&q, &o->noise));
    } while (q.again);
    return o->world.rank == 0 ? overlap_report(o) : STATUS_OK;
}

enum status bench_overlap(const struct overlap_config *c)
{
    struct overlap o = {.config = c};
    enum status st = overlap_join(&o);
    if (st == STATUS_OK)
        st = overlap_measure(&o);
    if (st != STATUS_OK && o.world.size > 1)
        comm_fail(o.world.comm, st, status_message());
    for (int i = 0; i < o.n; i++)
        reducer_close(o.variant[i].reducer);
    network_close(o.net);
    device_close(o.dev);
    graph_free(o.graph);
    world_close(&o.world);
    free(o.samples);
    return st;
}
