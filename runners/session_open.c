/* Opens and closes a run: data, devices, ranks, network, folder. */
#include "runners/session.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/host.h"
#include "base/stop.h"
#include "base/text.h"
#include "engine/device_input.h"
#include "engine/gpu_group.h"
#include "input/synth.h"
#include "results/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum status open_data(struct session *s)
{
    const struct train_config *c = s->config;
    if (c->dummy) {
        TRY(dataset_dummy(c->dummy_train, c->classes, &s->train_data));
        return c->training_only ? STATUS_OK : dataset_dummy(c->dummy_val, c->classes, &s->val_data);
    }
    TRY(synth_check_complete(c->data));
    if (!c->training_only)
        TRY(dataset_open(c->data, "val", &s->val_data));
    if (c->evaluate)
        return STATUS_OK;
    TRY(dataset_open(c->data, "train", &s->train_data));
    return c->training_only ? STATUS_OK : dataset_check_pair(s->train_data, s->val_data);
}

static enum status open_loader(struct session *s, bool train, struct loader **out)
{
    const struct train_config *c = s->config;
    struct loader_config l = {
        .data = train ? s->train_data : s->val_data,
        .train = train,
        .image_size = c->image_size,
        .resize = train_config_val_resize(c),
        .filter = c->interpolation,
        .fast = c->decode == DECODE_FAST,
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
        /* Seconds to wait for images after a request to stop. A single rank can stop after any
         * step. If several ranks stopped without these images, they would lose the steps since the
         * last checkpoint, so they wait longer. */
        .stop_wait_s = s->world.size > 1 ? 10 : 1,
    };
    device_input_set(&l, s->device, s->decoder);
    return loader_open(&l, out);
}

/* Returns the number of compute threads of each device. */
static int threads_of(const struct session *s)
{
    int named = s->config->threads;
    return named ? named : world_threads(&s->world, s->devices.n);
}

/* Sets s->crowd if the ranks of this host have more compute threads than cores. */
static void count_threads(struct session *s)
{
    const struct world *w = &s->world;
    const struct rank_info *own = &w->info[w->rank];
    int threads = s->device->threads, fit = world_threads(w, s->devices.n), sharing = 0;
    for (int i = 0; i < w->size; i++)
        sharing +=
            strcmp(w->info[i].host, own->host) == 0 && CPU_EQUAL(&w->info[i].cores, &own->cores);
    if (gpu_group_is(&s->devices) ||
        !host_oversubscribed(threads * s->devices.n * sharing, s->crowd, sizeof s->crowd))
        return;
    if (fit < threads)
        text_append(s->crowd, sizeof s->crowd, "; give --threads %d, or fewer", fit);
    else
        text_append(s->crowd, sizeof s->crowd, "; give fewer");
}

/* Finds NCCL if there are several GPUs. Without NCCL, data between processes passes through the
 * host. */
static enum status find_nccl(struct session *s)
{
    enum comm_via via = s->config->comm;
    if (via == VIA_NCCL && !gpu_group_is(&s->devices))
        return status_fail(STATUS_USAGE, "--comm nccl needs GPUs, not --devices %s",
                           s->config->devices);
    if (gpu_group_is(&s->devices) && s->world.size * s->devices.n > 1)
        TRY(gpu_group_find(via, session_leads(s), &s->nccl));
    return s->nccl ? STATUS_OK : world_check_data(&s->world);
}

/* Opens the decoder of --decode gpu. If the GPU has none, warns, and the CPU decodes. */
static enum status open_decoder(struct session *s)
{
    if (s->config->decode != DECODE_GPU)
        return STATUS_OK;
    if (!gpu_group_is(&s->devices))
        return status_fail(STATUS_USAGE, "--decode gpu needs a GPU, not --devices %s",
                           s->config->devices);
    enum status st = s->config->dummy ? STATUS_OK : gpu_decoder_open(s->device, &s->decoder);
    if (st != STATUS_UNSUPPORTED)
        return st;
    if (session_leads(s))
        fprintf(stderr, "ampscale: warning: --decode gpu: %s; the CPU decodes\n", status_message());
    return STATUS_OK;
}

static enum status open_loaders(struct session *s)
{
    if (!s->config->training_only)
        TRY(open_loader(s, false, &s->val_loader));
    if (s->config->evaluate)
        return STATUS_OK;
    TRY(open_loader(s, true, &s->train_loader));
    s->train_batches = loader_batches(s->train_loader);
    s->train_steps = (s->train_batches + s->config->accumulate - 1) / s->config->accumulate;
    TRY(array_new(&s->rates, s->train_steps));
    TRY(array_new(&s->own, s->train_steps));
    for (int p = 0; p < RANK_OWN_PARTS; p++)
        TRY(array_new(&s->part[p], s->train_steps));
    return STATUS_OK;
}

/* Returns `option`, except that OPTION_AUTO becomes OPTION_OFF for a short run. A measurement of
 * whether the option makes steps faster takes as long as about a dozen steps. A short run would not
 * gain that much time. */
static enum option settle_option(const struct session *s, enum option option)
{
    enum { STEPS_MIN = 32 };
    const struct train_config *c = s->config;
    int64_t steps = c->steps > 0 ? c->steps : c->epochs * s->train_steps;
    return option == OPTION_AUTO && steps < STEPS_MIN ? OPTION_OFF : option;
}

/* Opens the engine for full training batches, an epoch's smaller last batch, and validation. */
static enum status open_engine(struct session *s)
{
    const struct train_config *c = s->config;
    struct engine_config e = {.program = {.policy = s->policy,
                                          .emulate = c->emulate,
                                          .fuse = c->fuse,
                                          .label_smoothing = (float)c->label_smoothing,
                                          .mixes = c->mixup > 0,
                                          .momentum = (float)c->momentum,
                                          .weight_decay = (float)c->weight_decay,
                                          .norm_decays = c->norm_weight_decay >= 0,
                                          .norm_weight_decay = (float)c->norm_weight_decay,
                                          .clip = (float)c->clip_grad_norm,
                                          .nesterov = c->nesterov,
                                          .lars = (float)c->lars},
                              .graph = s->graph,
                              .scaled = s->scaled,
                              .scaler = c->scaler,
                              .devices = &s->devices,
                              .threads = threads_of(s),
                              .accumulate = c->accumulate,
                              .sync_bn = c->sync_bn,
                              .deterministic = c->deterministic,
                              .conv_algorithm = s->identity.conv_algorithm,
                              .plans = c->plans,
                              .no_graph = c->no_graph,
                              .wgrad_stream = settle_option(s, c->wgrad_stream),
                              .pdl = settle_option(s, c->pdl),
                              .ranks = s->world.comm,
                              .comm_timeout = c->comm_timeout,
                              .via = c->comm,
                              .dp_reduce = c->dp_reduce,
                              .bucket_mb = c->bucket_mb,
                              .grad_compress = c->grad_compress,
                              .first = s->device,
                              .inject = session_faults(s),
                              .ladder = &s->ladder,
                              .nccl = s->nccl};
    memcpy(e.program.mean, train_image_mean, sizeof e.program.mean);
    memcpy(e.program.std, train_image_std, sizeof e.program.std);
    if (!c->evaluate)
        e.rows[USE_TRAIN] = c->batch;
    /* A new run that ends within its first epoch needs no program for the epoch's smaller last
     * batch or for validation. To save time, these programs are not planned. */
    if (c->steps > 0 && c->steps < s->train_steps && !c->resume && c->start_epoch <= 0)
        return engine_open(&e, &s->engine);
    if (!c->evaluate && !c->drop_last)
        e.rows[USE_TAIL] = (int)(loader_images(s->train_loader) % c->batch);
    if (!c->training_only)
        e.rows[USE_VAL] = c->val_batch ? c->val_batch : c->batch;
    return engine_open(&e, &s->engine);
}

enum status session_choose_dir(struct session *s)
{
    const struct train_config *c = s->config;
    char prefix[4096];
    bool is_run = false;
    if (c->evaluate && c->out)
        TRY(dir_look(c->out, "run.json", &is_run));
    if (c->out && !is_run)
        return path_format(s->dir, sizeof s->dir, "%s", c->out);
    if (c->out)
        TRY(path_format(prefix, sizeof prefix, "%s/evaluation", c->out));
    else
        TRY(path_format(prefix, sizeof prefix, RUNS_DIR "/%s", c->arch));
    /* Sets s->dir to the first of PREFIX-001, PREFIX-002, ... that does not exist. */
    for (int i = 1; i < 1000; i++) {
        bool taken;
        TRY(path_format(s->dir, sizeof s->dir, "%s-%03d", prefix, i));
        TRY(path_taken(s->dir, &taken));
        if (!taken)
            return STATUS_OK;
    }
    return status_fail(STATUS_USAGE,
                       "every name from '%s-001' on is taken; name a folder with --out", prefix);
}

/* Finds the settings that a resumed run keeps. Reads them from the checkpoint that will be loaded
 * or, with --resume auto, from the newest checkpoint that names a fusion. Without any, *kept has
 * the configured algorithm of convolutions, and FUSE_COUNT: the fusion is not known. */
static enum status recorded_kept(const struct session *s, struct train_identity *kept)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    const struct train_config *c = s->config;
    char path[4096];
    *kept = (struct train_identity){.fuse = FUSE_COUNT, .conv_algorithm = c->conv_algorithm};
    if (!c->resume || c->evaluate)
        return STATUS_OK;
    if (strcmp(c->resume, "auto") != 0)
        TRY(checkpoint_kept(c->resume, kept));
    for (size_t i = 0;
         i < 2 && *s->dir && strcmp(c->resume, "auto") == 0 && kept->fuse == FUSE_COUNT; i++) {
        TRY(path_format(path, sizeof path, "%s/%s", s->dir, names[i]));
        TRY(checkpoint_kept(path, kept));
    }
    return STATUS_OK;
}

/* Chooses the algorithm of convolutions and the first rung: as configured or, if the run resumes,
 * as its checkpoint says. */
static enum status settle_ladder(struct session *s)
{
    const struct train_config *c = s->config;
    const struct backend *b = s->devices.backend;
    struct train_identity recorded;
    if (session_leads(s))
        TRY(recorded_kept(s, &recorded));
    TRY(world_share(&s->world, &recorded, sizeof recorded));
    bool known = recorded.fuse != FUSE_COUNT && !c->fuse_named;
    bool keeps = c->conv_algorithm == CONV_AUTO && b == &backend_cpu;
    s->identity.conv_algorithm = keeps ? recorded.conv_algorithm : c->conv_algorithm;
    enum fuse_choice choice = known ? FUSE_RESUMED : c->fuse_named ? FUSE_NAMED : FUSE_FREE;
    ladder_begin(&s->ladder, b->capture_begin != NULL, known ? recorded.fuse : c->fuse, choice,
                 engine_may_replay(b, c->no_graph, c->sync_bn));
    return STATUS_OK;
}

static enum status give_up_graphs(struct session *s, const char *why)
{
    TRY(ladder_fall(&s->ladder, FAILED_CAPTURE, status_fail(STATUS_LIBRARY, "%s", why)));
    engine_drop_graphs(s->engine, why);
    return STATUS_OK;
}

/* If a device of any rank has stopped using graphs, makes all ranks stop using graphs, so that all
 * ranks are equally fast. */
static enum status share_graphs(struct session *s)
{
    const char *why = engine_graphs_lost(s->engine);
    double lost = why != NULL;
    if (s->world.size > 1)
        TRY(comm_sum(s->world.comm, &lost, 1));
    if (lost == 0)
        return STATUS_OK;
    TRY(give_up_graphs(s, why ? why : "another rank cannot replay graphs"));
    if (session_leads(s))
        ladder_warn(&s->ladder);
    return STATUS_OK;
}

void session_watch_graphs(struct session *s)
{
    const char *why = engine_graphs_lost(s->engine);
    if (why && ladder_graphs(&s->ladder) && give_up_graphs(s, why) == STATUS_OK)
        ladder_warn(&s->ladder);
}

/* Handles failure `st` of the engine's rehearsal. STATUS_OK: the engine is closed, and the caller
 * opens it on the next rung. Several ranks cannot change the rung together, because some may be
 * waiting in an all-reduce. With several ranks, returns the failure, with advice to the user in its
 * message. */
static enum status leave_rung(struct session *s, enum status st)
{
    const char *lost = engine_graphs_lost(s->engine);
    if (s->world.size > 1)
        return ladder_explain(&s->ladder, lost ? FAILED_CAPTURE : FAILED_STEP, st);
    if (lost)
        st = status_fail(st, "%s", lost);
    TRY(engine_fall(s->engine, lost ? FAILED_CAPTURE : FAILED_STEP, st));
    ladder_warn(&s->ladder);
    engine_close(s->engine);
    s->engine = NULL;
    return STATUS_OK;
}

/* Opens the engine on the first rung on which all of its programs run. */
static enum status open_on_ladder(struct session *s)
{
    enum status st;
    TRY(settle_ladder(s));
    do {
        TRY(open_engine(s));
        if (engine_comm_why(s->engine)[0]) /* NCCL does not connect the GPUs */
            TRY(world_check_data(&s->world));
        TRY(session_agree(s));
        st = s->ladder.applies ? engine_rehearse(s->engine) : STATUS_OK;
        if (st != STATUS_OK)
            TRY(leave_rung(s, st));
    } while (st != STATUS_OK);
    return share_graphs(s);
}

/* Records why the job ends. The communication thread calls it. */
static void record_end_of_job(void *context, enum status st, const char *message)
{
    struct session *s = context;
    struct record *record = atomic_load(&s->ending);
    if (record)
        record_fail(record, st, message);
}

/* Connects the ranks. All ranks but rank 0 write their progress to /dev/null. */
static enum status open_world(struct session *s)
{
    const struct train_config *c = s->config;
    const struct world_config w = {.rendezvous = c->rendezvous,
                                   .via = c->comm,
                                   .place = c->place,
                                   .job = c->out,
                                   .secret_file = c->secret_file,
                                   .insecure = c->insecure,
                                   .timeout_s = c->comm_timeout,
                                   .join_s = c->join_timeout,
                                   .alone = train_mode_is_alone(c->mode),
                                   .ending = record_end_of_job,
                                   .context = s};
    s->mode = c->mode;
    TRY(device_list_parse(c->devices, &s->devices));
    TRY(world_check_launcher(&w));
    TRY(train_mode_settle(&s->mode, &s->devices, c->devices, world_launched(&w)));
    TRY(world_open(&w, &s->world));
    s->lr_factor = train_config_lr_factor(c, s->world.size);
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
    if (session_leads(s) && !c->dummy)
        dataset_warn(s->train_data ? s->train_data : s->val_data, stderr);
    storage_open(&s->storage, c->data, NULL);
    TRY(gpu_group_open_first(&s->devices, &s->world, threads_of(s), &s->device));
    TRY(device_choose_conv(s->device, c->conv_algorithm, s->policy.operand));
    count_threads(s);
    TRY(rank_load_begin(&s->world, &s->load));
    TRY(find_nccl(s));
    TRY(open_decoder(s));
    TRY(open_loaders(s));
    const struct dataset *data = s->val_data ? s->val_data : s->train_data;
    TRY(graph_build(c->arch, data->classes, c->image_size, &s->graph));
    s->inject = c->inject;
    TRY(inject_settle(&s->inject, s->graph, c->seed, s->world.size));
    if (session_leads(s))
        TRY(session_choose_dir(s));
    TRY(session_identify(s));
    TRY(open_on_ladder(s));
    s->identity.fuse = ladder_fuse(&s->ladder);
    TRY(session_load(s));
    if (!c->evaluate)
        TRY(engine_set_scale(s->engine, &s->state.scaler));
    return session_begin_record(s, argc, argv);
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
    if (!comm_speaks(s->world.comm))
        return status_fail(st, "%s", "");
    /* Rank 0 prints before the ranks leave the job, because a launcher may kill all ranks after one
     * rank has exited. */
    if (s->record)
        record_fail(s->record, st, status_message());
    fprintf(stderr, "ampscale: %s\n", status_message());
    return status_fail(st, "%s", "");
}

enum status session_close(struct session *s, enum status st)
{
    struct first_failure first = {0};
    first_failure_keep(&first, st);
    first_failure_keep(&first, telemetry_stop(s->telemetry));
    const char *lost = telemetry_lost(s->telemetry);
    if (lost)
        text_print(stderr, "ampscale: warning: telemetry: %s", lost);
    atomic_store(&s->ending, NULL);
    if (s->claim > 0)
        fd_close(&s->claim);
    if (s->record && st != STATUS_OK && *first.message)
        record_fail(s->record, st, first.message);
    if (s->on_save) {
        first_failure_keep(&first, record_sync(s->record));
        first_failure_keep(&first, session_end_saves(s));
        on_save_close(s->on_save);
    }
    first_failure_keep(&first, record_close(s->record));
    telemetry_close(s->telemetry);
    rank_samples_free(&s->samples);
    run_free(s->expected);
    engine_idle(s->engine); /* waits, because the engine may still be reading batches; on a broken
                             * device, the wait ends early */
    loader_close(s->train_loader);
    loader_close(s->val_loader);
    if (!stop_requested()) /* after a stop, a worker may still use the decoder */
        gpu_decoder_drop(s->decoder);
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
    return first_failure_return(&first);
}
