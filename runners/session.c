/* Opening a run: data, device, network, weights, folder. */
#include "runners/session.h"

#include "base/file.h"
#include "base/rng.h"
#include "input/synth.h"
#include "model/exchange.h"
#include "results/run.h"
#include "runners/gpu_group.h"
#include "runners/session_ladder.h"
#include "runners/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status open_data(struct session *s)
{
    const struct train_config *c = s->config;
    if (c->dummy) {
        TRY(dataset_dummy(c->dummy_train, c->classes, &s->train_data));
        return dataset_dummy(c->dummy_val, c->classes, &s->val_data);
    }
    TRY(synth_check_complete(c->data));
    TRY(dataset_open(c->data, "val", &s->val_data));
    if (c->evaluate)
        return STATUS_OK;
    TRY(dataset_open(c->data, "train", &s->train_data));
    return dataset_check_pair(s->train_data, s->val_data);
}

static enum status alloc_host(void *context, size_t bytes, void **mem)
{
    struct device *dev = context;
    return dev->backend->alloc_host(dev, bytes, mem);
}

static void free_host(void *context, void *mem)
{
    struct device *dev = context;
    dev->backend->free_host(dev, mem);
}

static enum status open_loader(struct session *s, bool train, struct loader **out)
{
    const struct train_config *c = s->config;
    struct loader_config l = {
        .data = train ? s->train_data : s->val_data,
        .train = train,
        .image_size = c->image_size,
        .batch = train || !c->val_batch ? c->batch : c->val_batch,
        .drop_last = train && c->drop_last,
        .workers = c->workers,
        .prefetch = 4,
        .seed = c->seed,
        .rank = s->world.rank,
        .world = s->world.size,
        .max_bad_images = c->max_bad_images,
        .lose_image = train && c->inject.lose_image,
        .lose_epoch = c->inject.lose_epoch,
        /* One rank can end at any step; several lose what they did since the last checkpoint. */
        .stop_wait_s = s->world.size > 1 ? 10 : 1,
        .alloc = alloc_host,
        .free = free_host,
        .alloc_context = s->device,
    };
    return loader_open(&l, out);
}

static bool on_gpus(const struct session *s)
{
    return strcmp(s->devices.backend->name, "cuda") == 0;
}

static enum status open_device(struct session *s)
{
    int threads = world_threads(&s->world, s->config, s->devices.n);
    return gpu_group_open_first(&s->devices, &s->world, threads, &s->device);
}

/* What links GPUs, where there are several. */
static enum status find_nccl(struct session *s)
{
    enum comm_via via = s->config->comm;
    if (via == VIA_NCCL && !on_gpus(s))
        return status_fail(STATUS_USAGE, "--comm nccl is for GPUs, not for --devices %s",
                           s->config->devices);
    if (!on_gpus(s) || s->world.size * s->devices.n == 1)
        return STATUS_OK;
    return gpu_group_find(via, session_leads(s), &s->nccl);
}

static enum status open_loaders(struct session *s)
{
    TRY(open_loader(s, false, &s->val_loader));
    if (s->config->evaluate)
        return STATUS_OK;
    TRY(open_loader(s, true, &s->train_loader));
    s->train_batches = loader_batches(s->train_loader);
    s->train_steps = (s->train_batches + s->config->accumulate - 1) / s->config->accumulate;
    s->rates = calloc((size_t)s->train_steps + 1, sizeof *s->rates);
    s->own = calloc((size_t)s->train_steps + 1, sizeof *s->own);
    bool whole = s->rates && s->own;
    for (int p = 0; p < RANK_OWN_PARTS; p++) {
        s->part[p] = calloc((size_t)s->train_steps + 1, sizeof *s->part[p]);
        whole = whole && s->part[p];
    }
    return whole ? STATUS_OK : status_fail(STATUS_OOM, "no memory for an epoch's rates");
}

/* NULL where there is none. */
static const struct inject *faults(const struct session *s)
{
    return inject_any(&s->inject) ? &s->inject : NULL;
}

/* A run that begins afresh and ends before its first epoch does comes neither to the last batch of
 * one nor to validation: planning their programs would take time, and be of no use. */
static bool ends_within_epoch(const struct session *s)
{
    const struct train_config *c = s->config;
    return c->steps > 0 && c->steps < s->train_steps && !c->resume && c->start_epoch <= 0;
}

/* Full training batches, the last batch of an epoch where it is smaller, and validation. */
static enum status open_engine(struct session *s)
{
    const struct train_config *c = s->config;
    struct engine_config e = {.train = c,
                              .graph = s->graph,
                              .policy = &s->policy,
                              .scaled = s->scaled,
                              .devices = &s->devices,
                              .threads = world_threads(&s->world, c, s->devices.n),
                              .ranks = s->world.comm,
                              .first = s->device,
                              .inject = faults(s),
                              .ladder = &s->ladder,
                              .nccl = s->nccl};
    if (!c->evaluate)
        e.rows[USE_TRAIN] = c->batch;
    if (ends_within_epoch(s))
        return engine_open(&e, &s->engine);
    if (!c->evaluate && !c->drop_last)
        e.rows[USE_TAIL] = (int)(loader_images(s->train_loader) % c->batch);
    e.rows[USE_VAL] = c->val_batch ? c->val_batch : c->batch;
    return engine_open(&e, &s->engine);
}

/* runs/<arch>-001, -002 ...: the first that does not exist. */
static enum status choose_dir(struct session *s)
{
    if (s->config->out)
        return path_format(s->dir, sizeof s->dir, "%s", s->config->out);
    for (int i = 1; i < 1000; i++) {
        bool taken;
        TRY(path_format(s->dir, sizeof s->dir, "runs/%s-%03d", s->config->arch, i));
        TRY(path_look(s->dir, &taken));
        if (!taken)
            return STATUS_OK;
    }
    return status_fail(STATUS_USAGE, "runs/ is full; name a folder with --out");
}

/* A folder without a checkpoint: nothing is there, or a run that was killed before its first, which
 * begins afresh and says so. One that had a checkpoint is not written over. */
static enum status check_unlost(const struct session *s)
{
    char path[4096];
    bool begun;
    struct run *run;
    TRY(path_format(path, sizeof path, "%s/run.json", s->dir));
    TRY(path_look(path, &begun));
    if (!begun)
        return STATUS_OK;
    TRY(run_load(s->dir, &run));
    int64_t steps = run->n_steps;
    bool lost = run->checkpoints > 0 || run->n_epochs > 1; /* an epoch begins with a checkpoint */
    run_free(run);
    if (lost)
        return status_fail(STATUS_DATA,
                           "cannot resume '%s': %" PRId64
                           " steps are recorded, but " CHECKPOINT_NAME
                           " is gone; put it back, or start afresh in another --out",
                           s->dir, steps);
    if (steps > 0)
        fprintf(stderr,
                "ampscale: warning: '%s' holds %" PRId64
                " steps and had no checkpoint yet: starting again at step 0\n",
                s->dir, steps);
    return STATUS_OK;
}

/* Loads the newest checkpoint of the folder that is whole; one that is not costs a warning. */
static enum status resume_auto(struct session *s)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    enum status st = STATUS_OK;
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        bool exists;
        TRY(path_format(path, sizeof path, "%s/%s", s->dir, names[i]));
        TRY(path_look(path, &exists));
        if (!exists)
            continue;
        found++;
        st = checkpoint_load(path, engine_network(s->engine), s->graph, &s->identity, &s->state);
        if (st == STATUS_OK) {
            s->resumed = true;
            return STATUS_OK;
        }
        if (st != STATUS_DATA)
            return st;
        fprintf(stderr, "ampscale: warning: %s\n", status_message());
    }
    return found ? st : check_unlost(s);
}

static enum status load_weights(struct session *s)
{
    const struct train_config *c = s->config;
    struct network *net = engine_network(s->engine);
    TRY(network_init(net, c->seed));
    if (c->init)
        TRY(weights_load(c->init, net, s->graph));
    if (!c->resume)
        return STATUS_OK;
    if (c->evaluate)
        return weights_load(c->resume, net, s->graph);
    if (strcmp(c->resume, "auto") == 0)
        return resume_auto(s);
    TRY(checkpoint_load(c->resume, net, s->graph, &s->identity, &s->state));
    s->resumed = true;
    return STATUS_OK;
}

/* Rank 0 reads; the others need no file. */
static enum status share_weights(struct session *s)
{
    if (session_leads(s))
        TRY(load_weights(s));
    TRY(world_share(&s->world, &s->state, sizeof s->state));
    TRY(world_share(&s->world, &s->resumed, sizeof s->resumed));
    return engine_share(s->engine);
}

static enum status data_fingerprint(const struct session *s, uint64_t *out)
{
    uint64_t train, val;
    TRY(dataset_fingerprint(s->val_data, &val));
    *out = val;
    if (!s->train_data) /* --evaluate */
        return STATUS_OK;
    TRY(dataset_fingerprint(s->train_data, &train));
    *out = hash_splitmix64(train) ^ val;
    return STATUS_OK;
}

/* Another number of ranks or of micro-batches has its steps elsewhere. */
static void settle_position(struct session *s)
{
    const struct train_config *c = s->config;
    if (c->start_epoch >= 0)
        s->state = (struct train_state){.epoch = c->start_epoch,
                                        .step = c->start_epoch * s->train_steps,
                                        .best_top1 = s->state.best_top1,
                                        .scaler = s->state.scaler};
    if (s->state.batch > s->train_batches)
        s->state.batch = s->train_batches;
    if (s->state.batch < s->train_batches)
        s->state.batch -= s->state.batch % c->accumulate;
}

static struct train_setting setting_of(const struct session *s)
{
    return (struct train_setting){
        .mode = s->world.mode,
        .ranks = s->world.size,
        .devices = s->devices.n,
        .classes = s->graph->classes,
        .epoch_steps = s->train_steps,
        .fuse = ladder_fuse(&s->ladder),
        .graphs = engine_replays_graphs(s->engine),
        .emulated =
            s->config->emulate || !device_native(engine_device(s->engine), s->policy.operand),
        .comm = engine_comm_name(s->engine),
        .inject = faults(s),
    };
}

/* What each rank may have to itself: where things lie, and how many threads do the work. */
static const char *const private_keys[] = {"data",    "init",    "resume",
                                           "devices", "threads", "workers"};

/* What must be the same on all ranks. */
static enum status agree(struct session *s)
{
    char data[32], layout[32];
    uint64_t hash;
    const struct train_setting setting = setting_of(s);
    if (s->world.size == 1)
        return STATUS_OK;
    TRY(network_layout_hash(engine_network(s->engine), &hash));
    snprintf(data, sizeof data, "%016" PRIx64, s->identity.data);
    snprintf(layout, sizeof layout, "%016" PRIx64, hash);
    json_t *o = train_config_json(s->config, &setting);
    if (!o)
        return status_fail(STATUS_OOM, "no memory for settings");
    for (size_t i = 0; i < sizeof private_keys / sizeof *private_keys; i++)
        json_object_del(o, private_keys[i]);
    json_object_set_new(o, "fingerprint of the data", json_string(data));
    json_object_set_new(o, "fingerprint of the layout of weights (processor and library)",
                        json_string(layout));
    enum status st = world_agree(&s->world, o);
    s->agreed = st == STATUS_USAGE;
    json_decref(o);
    return st;
}

/* Opens the engine on the first rung on which all of its programs run. */
static enum status open_on_ladder(struct session *s)
{
    enum status st;
    TRY(session_settle_ladder(s));
    do {
        TRY(open_engine(s));
        TRY(agree(s));
        st = s->ladder.applies ? engine_rehearse(s->engine) : STATUS_OK;
        if (st != STATUS_OK)
            TRY(session_leave_rung(s, st));
    } while (st != STATUS_OK);
    return session_share_graphs(s);
}

/* Every rank counts what its own devices use, and samples them. */
static enum status open_telemetry(struct session *s)
{
    struct telemetry_config c = {.seconds = s->config->telemetry,
                                 .gpu = on_gpus(s),
                                 .n = s->devices.n,
                                 .index = s->devices.index};
    return c.seconds > 0 ? telemetry_open(&c, &s->telemetry) : STATUS_OK;
}

static enum status take_sample(void *context, struct telemetry_record *row, int n)
{
    return record_telemetry(context, row, n);
}

/* Another rank than 0 keeps its samples until the end. The processors of a host are one device,
 * which the first of its ranks samples for all. */
static enum status start_samples(struct session *s)
{
    int number = 0;
    if (!s->telemetry)
        return STATUS_OK;
    if (!on_gpus(s))
        TRY(world_local_rank(&s->world, &number));
    return number > 0 ? STATUS_OK : telemetry_start(s->telemetry, rank_samples_take, &s->samples);
}

/* A run that goes on where it stopped appends to its record; any other begins one. What is known of
 * its bits comes first, lest a run that cannot be held against them leave a folder. */
static enum status begin_record(struct session *s, const struct run_info *info)
{
    if (s->config->expect)
        TRY(expected_open(s->config->expect, info->config, info->libraries, info->device,
                          &s->expected));
    if (s->config->resume)
        return record_resume(s->dir, info, s->state.step, s->state.epoch, &s->record);
    return record_create(s->dir, info, &s->record);
}

static enum status open_record(struct session *s, int argc, char *const *argv)
{
    enum status st;
    char about[256];
    const struct train_setting setting = setting_of(s);
    const struct backend *b = s->devices.backend;
    engine_device(s->engine)->backend->describe(engine_device(s->engine), about, sizeof about);
    json_t *config = train_config_json(s->config, &setting);
    json_t *libraries = json_object();
    json_t *ranks = s->world.size > 1 ? world_json(&s->world) : NULL;
    json_t *hardware = s->telemetry ? telemetry_facts(s->telemetry) : NULL;
    json_t *ladder = s->ladder.applies ? ladder_json(&s->ladder) : NULL;
    if (b->library)
        json_object_set_new(libraries, b->library, json_string(b->library_version()));
    if (s->world.size > 1 && !s->config->rendezvous)
        json_object_set_new(libraries, "MPI", json_string(comm_mpi_version()));
    struct run_info info = {.argc = argc,
                            .argv = argv,
                            .seed = s->config->seed,
                            .device = about,
                            .config = config,
                            .libraries = libraries,
                            .ranks = ranks,
                            .hardware = hardware,
                            .ladder = ladder,
                            .observer = s->config->observer};
    if (!config || !libraries || (s->world.size > 1 && !ranks) || (s->telemetry && !hardware) ||
        (s->ladder.applies && !ladder))
        st = status_fail(STATUS_OOM, "no memory for the record");
    else
        st = begin_record(s, &info);
    json_decref(config);
    json_decref(libraries);
    json_decref(ranks);
    json_decref(hardware);
    json_decref(ladder);
    TRY(st);
    atomic_file_sweep(s->dir); /* the record's lock makes the folder ours */
    return s->telemetry ? telemetry_start(s->telemetry, take_sample, s->record) : STATUS_OK;
}

/* The other ranks compute and say nothing. */
static enum status open_world(struct session *s)
{
    TRY(device_list_parse(s->config->devices, &s->devices));
    TRY(world_check_launcher(s->config));
    TRY(world_open(s->config, &s->devices, &s->world));
    s->lr_factor = train_config_lr_factor(s->config, s->world.size);
    if (session_leads(s))
        return STATUS_OK;
    s->silent = fopen("/dev/null", "w");
    if (!s->silent)
        return status_fail(STATUS_IO, "cannot open '/dev/null': %s", strerror(errno));
    s->out = s->silent;
    return STATUS_OK;
}

static enum status open_parts(struct session *s, int argc, char *const *argv)
{
    const struct train_config *c = s->config;
    TRY(train_config_check(c));
    TRY(train_config_policy(c, &s->policy));
    s->scaled = train_config_scaled(c, &s->policy);
    s->state.scaler = scaler_begin(&c->scaler);
    TRY(open_world(s));
    TRY(open_data(s));
    TRY(open_device(s));
    TRY(find_nccl(s));
    TRY(open_loaders(s));
    TRY(graph_build(c->arch, s->val_data->classes, c->image_size, &s->graph));
    s->inject = c->inject;
    TRY(inject_settle(&s->inject, s->graph, c->seed, s->world.size));
    if (!c->evaluate && session_leads(s))
        TRY(choose_dir(s));
    s->identity = (struct train_identity){.arch = c->arch,
                                          .classes = s->graph->classes,
                                          .image_size = c->image_size,
                                          .batch = c->batch,
                                          .ranks = s->world.size,
                                          .batches = s->train_batches,
                                          .seed = c->seed,
                                          .precision = c->precision};
    TRY(data_fingerprint(s, &s->identity.data));
    TRY(open_on_ladder(s));
    s->identity.fuse = ladder_fuse(&s->ladder);
    TRY(share_weights(s));
    if (c->evaluate)
        return STATUS_OK;
    settle_position(s);
    TRY(engine_set_scale(s->engine, &s->state.scaler));
    TRY(open_telemetry(s));
    return session_leads(s) ? open_record(s, argc, argv) : start_samples(s);
}

enum status session_open(struct session *s, const struct train_config *config, int argc,
                         char *const *argv, FILE *out)
{
    *s = (struct session){.config = config, .out = out};
    enum status st = open_parts(s, argc, argv);
    return st == STATUS_OK ? st : session_close(s, session_fail(s, st));
}

enum status session_fail(struct session *s, enum status st)
{
    if (s->world.size <= 1)
        return st;
    if (!s->agreed)
        comm_fail(s->world.comm, st, status_message());
    return session_leads(s) ? st : status_fail(st, "%s", "");
}

enum status session_close(struct session *s, enum status st)
{
    struct first_failure first = {0};
    first_failure_keep(&first, st);
    if (s->config->ladder)
        *s->config->ladder = s->ladder;
    first_failure_keep(&first, telemetry_stop(s->telemetry));
    const char *lost = telemetry_lost(s->telemetry);
    if (lost)
        fprintf(stderr, "ampscale: warning: telemetry: %s\n", lost);
    first_failure_keep(&first, record_close(s->record));
    telemetry_close(s->telemetry);
    rank_samples_free(&s->samples);
    expected_close(s->expected);
    engine_idle(s->engine); /* it may be reading batches; a broken device fails here again */
    loader_close(s->train_loader);
    loader_close(s->val_loader);
    engine_close(s->engine);
    comm_nccl_drop(s->nccl);
    device_close(s->device);
    graph_free(s->graph);
    dataset_free(s->train_data);
    dataset_free(s->val_data);
    world_close(&s->world);
    free(s->rates);
    free(s->own);
    for (int p = 0; p < RANK_OWN_PARTS; p++)
        free(s->part[p]);
    if (s->silent)
        fclose(s->silent);
    *s = (struct session){0};
    return first_failure_tell(&first);
}

double session_joules(struct session *s)
{
    bool host = !on_gpus(s);
    return host && s->world.size > 1 ? NAN : telemetry_joules(s->telemetry);
}

enum status session_checkpoint_prepare(struct session *s, const struct train_state *state,
                                       struct atomic_file *f)
{
    char path[4096];
    *f = (struct atomic_file){0};
    if (!session_leads(s))
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, s->dir));
    TRY(record_sync(s->record)); /* a resumed run has every step that its checkpoint has */
    return checkpoint_prepare(path, engine_network(s->engine), s->graph, &s->identity, state, f);
}

/* The old file gets its second name before the new one takes the first, and the place of the one
 * before it after that. File systems without hard links do without a second checkpoint. */
enum status session_checkpoint_commit(struct session *s, struct atomic_file *f)
{
    enum status st;
    char prev[4096], temp[sizeof f->temp];
    bool linked = false;
    if (!session_leads(s))
        return STATUS_OK;
    CHECK(path_format(prev, sizeof prev, "%s/" CHECKPOINT_PREV_NAME, s->dir));
    CHECK(path_temporary(prev, temp, sizeof temp));
    linked = link(f->path, temp) == 0;
    CHECK(atomic_file_commit(f));
    linked = linked && rename(temp, prev) != 0;
    CHECK(record_checkpoint(s->record, s->state.step));
done:
    if (linked)
        unlink(temp);
    atomic_file_abandon(f); /* which is nothing once it was committed */
    return st;
}

enum status session_checkpoint(struct session *s)
{
    struct atomic_file f;
    TRY(session_checkpoint_prepare(s, &s->state, &f));
    return session_checkpoint_commit(s, &f);
}
