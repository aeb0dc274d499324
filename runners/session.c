/* Opening a run: data, device, network, weights, folder. */
#include "runners/session.h"

#include "base/file.h"
#include "base/rng.h"
#include "runners/trainer.h"

#include <errno.h>
#include <inttypes.h>
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
    TRY(dataset_open(c->data, "val", &s->val_data));
    if (c->evaluate)
        return STATUS_OK;
    TRY(dataset_open(c->data, "train", &s->train_data));
    return dataset_check_pair(s->train_data, s->val_data);
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
        .rank = 0,
        .world = 1,
        .max_bad_images = c->max_bad_images,
    };
    return loader_open(&l, out);
}

static enum status open_loaders(struct session *s)
{
    TRY(open_loader(s, false, &s->val_loader));
    if (s->config->evaluate)
        return STATUS_OK;
    TRY(open_loader(s, true, &s->train_loader));
    s->train_batches = loader_batches(s->train_loader);
    s->rates = calloc((size_t)s->train_batches + 1, sizeof *s->rates);
    return s->rates ? STATUS_OK : status_fail(STATUS_OOM, "no memory for an epoch's rates");
}

/* A program for full training batches, one for the last batch of an epoch where it is smaller, and
 * one for validation. */
static enum status open_network(struct session *s)
{
    const struct train_config *c = s->config;
    struct program_config base = {.label_smoothing = (float)c->label_smoothing,
                                  .momentum = (float)c->momentum,
                                  .weight_decay = (float)c->weight_decay,
                                  .nesterov = c->nesterov};
    struct program_config config[USE_COUNT];
    int use[USE_COUNT], n = 0;
    base.policy = s->policy;
    base.check_finite = s->scaled;
    memcpy(base.mean, train_image_mean, sizeof base.mean);
    memcpy(base.std, train_image_std, sizeof base.std);
    if (!c->evaluate) {
        int tail = (int)(loader_images(s->train_loader) % c->batch);
        base.train = true;
        base.batch = c->batch;
        use[n] = USE_TRAIN;
        config[n++] = base;
        base.batch = tail;
        if (tail && !c->drop_last) {
            use[n] = USE_TAIL;
            config[n++] = base;
        }
    }
    base.train = false;
    base.label_smoothing = 0; /* validation reports the plain cross entropy */
    base.batch = c->val_batch ? c->val_batch : c->batch;
    use[n] = USE_VAL;
    config[n++] = base;
    TRY(graph_build(c->arch, s->val_data->classes, c->image_size, &s->graph));
    TRY(network_open(s->dev, s->graph, config, n, &s->net));
    for (int i = 0; i < n; i++)
        s->program[use[i]] = network_program(s->net, i);
    return STATUS_OK;
}

static enum status open_device(struct session *s)
{
    TRY(device_open(s->config->devices, s->config->threads, &s->dev));
    for (int i = 0; i < MARK_COUNT; i++)
        TRY(s->dev->backend->event_open(s->dev, &s->mark[i]));
    return STATUS_OK;
}

/* runs/<arch>-001, -002 ...: the first that does not exist. */
static enum status choose_dir(struct session *s)
{
    if (s->config->out)
        return path_format(s->dir, sizeof s->dir, "%s", s->config->out);
    for (int i = 1; i < 1000; i++) {
        TRY(path_format(s->dir, sizeof s->dir, "runs/%s-%03d", s->config->arch, i));
        if (!path_exists(s->dir))
            return STATUS_OK;
    }
    return status_fail(STATUS_USAGE, "runs/ is full; name a folder with --out");
}

/* Loads the newest checkpoint of the folder that is whole; one that is not costs a warning. */
static enum status resume_auto(struct session *s)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    enum status st = STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        TRY(path_format(path, sizeof path, "%s/%s", s->dir, names[i]));
        if (!path_exists(path))
            continue;
        st = checkpoint_load(path, s->net, s->graph, &s->identity, &s->state);
        if (st == STATUS_OK) {
            s->resumed = true;
            return STATUS_OK;
        }
        if (st != STATUS_DATA)
            return st;
        fprintf(stderr, "ampscale: warning: %s\n", status_message());
    }
    return st; /* none at all: begin afresh; none that is whole: say so */
}

static enum status load_weights(struct session *s)
{
    const struct train_config *c = s->config;
    TRY(network_init(s->net, c->seed));
    if (c->init)
        TRY(weights_load(c->init, s->net, s->graph));
    if (!c->resume)
        return STATUS_OK;
    if (c->evaluate)
        return weights_load(c->resume, s->net, s->graph);
    if (strcmp(c->resume, "auto") == 0)
        return resume_auto(s);
    TRY(checkpoint_load(c->resume, s->net, s->graph, &s->identity, &s->state));
    s->resumed = true;
    return STATUS_OK;
}

static uint64_t data_fingerprint(const struct session *s)
{
    return hash_splitmix64(dataset_fingerprint(s->train_data)) ^ dataset_fingerprint(s->val_data);
}

static void apply_start_epoch(struct session *s)
{
    if (s->config->start_epoch < 0)
        return;
    s->state = (struct train_state){.epoch = s->config->start_epoch,
                                    .step = s->config->start_epoch * s->train_batches,
                                    .best_top1 = s->state.best_top1,
                                    .scaler = s->state.scaler};
}

/* A run that goes on where it stopped appends to its record; any other begins one. */
static enum status open_record(struct session *s, int argc, char *const *argv)
{
    enum status st;
    char about[256];
    s->dev->backend->describe(s->dev, about, sizeof about);
    json_t *config = train_config_json(s->config, s->graph->classes, s->dev->backend->emulates);
    json_t *libraries = json_object();
    if (s->dev->backend->library)
        json_object_set_new(libraries, s->dev->backend->library,
                            json_string(s->dev->backend->library_version()));
    struct run_info info = {.argc = argc,
                            .argv = argv,
                            .seed = s->config->seed,
                            .device = about,
                            .config = config,
                            .libraries = libraries};
    if (!config || !libraries)
        st = status_fail(STATUS_OOM, "no memory for the record");
    else if (s->config->resume)
        st = record_resume(s->dir, &info, s->state.step, s->state.epoch, &s->record);
    else
        st = record_create(s->dir, &info, &s->record);
    json_decref(config);
    json_decref(libraries);
    if (st == STATUS_OK)
        atomic_file_sweep(s->dir); /* the record's lock makes the folder ours */
    return st;
}

static enum status open_parts(struct session *s, int argc, char *const *argv)
{
    const struct train_config *c = s->config;
    TRY(train_config_check(c));
    TRY(train_config_policy(c, &s->policy));
    s->scaled = train_config_scaled(c, &s->policy);
    s->state.scaler = scaler_begin(&c->scaler);
    TRY(open_data(s));
    TRY(open_loaders(s));
    TRY(open_device(s));
    TRY(open_network(s));
    if (c->evaluate)
        return load_weights(s);
    TRY(choose_dir(s));
    s->identity = (struct train_identity){.arch = c->arch,
                                          .classes = s->graph->classes,
                                          .image_size = c->image_size,
                                          .batch = c->batch,
                                          .seed = c->seed,
                                          .data = data_fingerprint(s),
                                          .precision = c->precision};
    TRY(load_weights(s));
    apply_start_epoch(s);
    return open_record(s, argc, argv);
}

enum status session_open(struct session *s, const struct train_config *config, int argc,
                         char *const *argv, FILE *out)
{
    *s = (struct session){.config = config, .out = out};
    enum status st = open_parts(s, argc, argv);
    if (st != STATUS_OK && session_close(s) != STATUS_OK)
        return st; /* the first failure is the one to tell */
    return st;
}

enum status session_close(struct session *s)
{
    enum status st = record_close(s->record);
    loader_close(s->train_loader);
    loader_close(s->val_loader);
    network_close(s->net);
    graph_free(s->graph);
    for (int i = 0; i < MARK_COUNT; i++)
        if (s->mark[i])
            s->dev->backend->event_close(s->mark[i]);
    device_close(s->dev);
    dataset_free(s->train_data);
    dataset_free(s->val_data);
    free(s->rates);
    *s = (struct session){0};
    return st;
}

enum status session_checkpoint(struct session *s)
{
    char path[4096], prev[4096], temp[4096];
    TRY(path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, s->dir));
    TRY(path_format(prev, sizeof prev, "%s/" CHECKPOINT_PREV_NAME, s->dir));
    TRY(path_format(temp, sizeof temp, "%s.tmp.%ld", prev, (long)getpid()));
    TRY(record_sync(s->record)); /* a resumed run has every step that its checkpoint has */
    /* The old file gets its second name before the new one takes the first. File systems without
     * hard links do without a second checkpoint. */
    unlink(temp);
    bool linked = link(path, temp) == 0;
    enum status st = checkpoint_save(path, s->net, s->graph, &s->identity, &s->state);
    if (linked && (st != STATUS_OK || rename(temp, prev) != 0))
        unlink(temp);
    return st;
}
