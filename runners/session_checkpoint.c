/* Loads the state with which a run begins, and saves checkpoints. */
#include "runners/session.h"

#include "base/folder.h"
#include "base/rng.h"
#include "base/text.h"
#include "results/run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define KEPT_PREFIX "checkpoint-epoch-"
#define KEPT_SUFFIX ".safetensors"

static enum status data_fingerprint(const struct session *s, uint64_t *out)
{
    uint64_t train, val;
    *out = 0;
    if (s->val_data) {
        TRY(dataset_fingerprint(s->val_data, &val));
        *out = val;
    }
    if (!s->train_data) /* --evaluate needs no training data */
        return STATUS_OK;
    TRY(dataset_fingerprint(s->train_data, &train));
    *out ^= hash_splitmix64(train);
    return STATUS_OK;
}

enum status session_identify(struct session *s)
{
    const struct train_config *c = s->config;
    s->identity = (struct train_identity){.arch = c->arch,
                                          .classes = s->graph->classes,
                                          .image_size = c->image_size,
                                          .batch = c->batch,
                                          .ranks = s->world.size,
                                          .batches = s->train_batches,
                                          .seed = c->seed,
                                          .data_changed = c->data_changed,
                                          .precision = c->precision};
    return data_fingerprint(s, &s->identity.data);
}

/* Checks a folder without a checkpoint. STATUS_DATA if the run had written a checkpoint: that file
 * has been lost. STATUS_USAGE if the run is complete or of another program. Warns if the run was
 * killed before its first checkpoint; the run then starts again at step 0. */
static enum status check_unlost(const struct session *s)
{
    char from[4096];
    bool begun;
    struct run *run;
    TRY(dir_look(s->dir, "run.json", &begun));
    if (!begun)
        return STATUS_OK;
    TRY(run_load(s->dir, &run));
    int64_t steps = run->n_steps;
    bool each = s->config->checkpoint_every <= 1 && !s->config->no_checkpoint;
    each = each && run->n_epochs > 1 && isfinite(run->epoch[run->n_epochs - 1].train_loss);
    bool lost = run->checkpoints > 0 || each; /* weights that are not finite are not written */
    bool ended = run->summary || run_config(run, "command");
    text_clean(from, sizeof from, run_config_text(run, "resume", ""));
    run_free(run);
    if (lost)
        return status_fail(STATUS_DATA,
                           "cannot resume '%s': the record has %" PRId64
                           " steps, but " CHECKPOINT_NAME
                           " is missing; restore it, or start a new run in another --out",
                           s->dir, steps);
    if (ended)
        return status_fail(STATUS_USAGE,
                           "'%s' holds a run without a checkpoint; name another folder by --out",
                           s->dir);
    if (*from && strcmp(from, "auto") != 0)
        return status_fail(STATUS_USAGE,
                           "'%s' began at '%s' and has no checkpoint yet: give --resume %s again",
                           s->dir, from, from);
    if (steps > 0)
        text_print(stderr,
                   "ampscale: warning: '%s' has %" PRId64
                   " recorded steps but no checkpoint yet: starting again at step 0",
                   s->dir, steps);
    return STATUS_OK;
}

/* Loads the newest intact checkpoint of the folder; warns about a damaged one. */
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

/* Loads the weights of --init. For training, their last layer may have another number of
 * classes. */
static enum status load_init(const struct session *s, struct network *net)
{
    const struct train_config *c = s->config;
    int64_t classes = s->graph->classes;
    TRY(weights_load(c->init, net, s->graph, c->evaluate ? NULL : &classes));
    if (classes != s->graph->classes)
        fprintf(stderr,
                "ampscale: warning: '%s' has %" PRId64
                " classes, but the data have %d: training starts with a new last layer\n",
                c->init, classes, s->graph->classes);
    return STATUS_OK;
}

static enum status load_weights(struct session *s)
{
    const struct train_config *c = s->config;
    struct network *net = engine_network(s->engine);
    TRY(network_init(net, c->seed));
    if (c->init)
        TRY(load_init(s, net));
    if (!c->resume)
        return STATUS_OK;
    if (c->evaluate)
        return weights_load(c->resume, net, s->graph, NULL);
    bool is_dir = false;
    if (c->out)
        TRY(path_look_dir(s->dir, &is_dir));
    if (is_dir) /* a process that stops there may still write a newer checkpoint */
        TRY(record_lock(s->dir, &s->claim));
    if (strcmp(c->resume, "auto") == 0)
        return resume_auto(s);
    TRY(checkpoint_load(c->resume, net, s->graph, &s->identity, &s->state));
    s->resumed = true;
    return STATUS_OK;
}

/* Applies --start-epoch, but --resume auto goes back to no epoch: a restart continues. Moves the
 * position back to the start of a step if the number of ranks or of micro-batches has changed. */
static enum status settle_position(struct session *s)
{
    const struct train_config *c = s->config;
    if (c->start_epoch > 0 && c->steps > 0 && c->start_epoch * s->train_steps >= c->steps)
        return status_fail(STATUS_USAGE, "--start-epoch %d: --steps %lld leave none to train",
                           c->start_epoch, (long long)c->steps);
    bool resumes = c->resume && strcmp(c->resume, "auto") == 0;
    if (c->start_epoch >= 0 && !(resumes && s->state.epoch >= c->start_epoch))
        s->state = (struct train_state){.epoch = c->start_epoch,
                                        .step = c->start_epoch * s->train_steps,
                                        .best_top1 = s->state.best_top1,
                                        .scaler = s->state.scaler,
                                        .data_before = s->state.data_before};
    if (s->state.batch > s->train_batches)
        s->state.batch = s->train_batches;
    if (s->state.batch < s->train_batches)
        s->state.batch -= s->state.batch % c->accumulate;
    return STATUS_OK;
}

enum status session_load(struct session *s)
{
    if (session_leads(s))
        TRY(load_weights(s));
    TRY(world_share(&s->world, &s->state, sizeof s->state));
    TRY(world_share(&s->world, &s->resumed, sizeof s->resumed));
    TRY(engine_share(s->engine));
    return s->config->evaluate ? STATUS_OK : settle_position(s);
}

enum status session_checkpoint_prepare(struct session *s, const struct train_state *state,
                                       struct atomic_file *f)
{
    char path[4096];
    *f = (struct atomic_file){0};
    if (!session_leads(s))
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, s->dir));
    if (s->record) /* must have every step that the checkpoint includes */
        TRY(record_sync(s->record));
    return checkpoint_prepare(path, engine_network(s->engine), s->graph, &s->identity, state, f);
}

/* First links the latest checkpoint to a temporary name. Then renames the new file to the name of
 * the latest checkpoint. Last, renames the temporary name to the name of the previous checkpoint.
 * On a file system without hard links, no previous checkpoint is kept. */
enum status session_checkpoint_commit(struct session *s, struct atomic_file *f)
{
    enum status st;
    char prev[4096], temp[sizeof f->temp];
    bool linked = false, from = false;
    if (!session_leads(s) || !*f->path) /* no checkpoint was prepared (--on-nan) */
        return STATUS_OK;
    CHECK(path_format(prev, sizeof prev, "%s/" CHECKPOINT_PREV_NAME, s->dir));
    CHECK(path_temporary(prev, temp, sizeof temp));
    if (!s->record) /* a run begins here: the same command finds the file of --resume again */
        CHECK(path_same(s->config->resume, prev, &from));
    linked = !from && link(f->path, temp) == 0;
    CHECK(atomic_file_commit(f));
    linked = linked && rename(temp, prev) != 0;
    if (!s->record)
        goto done;
    CHECK(record_checkpoint(s->record, s->state.step));
    CHECK(on_save_request(s->on_save, s->record, s->state.step, true, true));
done:
    if (linked)
        unlink(temp);
    atomic_file_abandon(f); /* no effect after the commit */
    return st;
}

enum status session_checkpoint(struct session *s)
{
    struct atomic_file f;
    TRY(session_checkpoint_prepare(s, &s->state, &f));
    return session_checkpoint_commit(s, &f);
}

/* Returns the epoch in the name of a kept checkpoint; -1 for any other name. */
static int64_t kept_epoch(const char *name)
{
    int64_t epoch;
    int used = 0;
    bool kept = sscanf(name, KEPT_PREFIX "%" SCNd64 KEPT_SUFFIX "%n", &epoch, &used) == 1;
    return kept && name[used] == '\0' && used > 0 ? epoch : -1;
}

/* Removes the kept checkpoints up to `epoch`, except the newest ones, whose number is
 * --keep-checkpoints. */
static enum status remove_kept(const struct session *s, int64_t epoch)
{
    struct words names = {0};
    char path[4096];
    enum status st;
    int n = 0;
    CHECK(dir_list(s->dir, KEPT_SUFFIX, &names));
    for (int i = names.n - 1; i >= 0; i--) { /* the order of the names is the order of the epochs */
        int64_t e = kept_epoch(names.v[i]);
        if (e < 0 || e > epoch || ++n <= s->config->keep_checkpoints)
            continue;
        CHECK(path_format(path, sizeof path, "%s/%s", s->dir, names.v[i]));
        CHECK(file_remove(path));
    }
done:
    words_free(&names);
    return st;
}

enum status session_keep_checkpoint(struct session *s, int64_t epoch)
{
    char latest[4096], kept[4096], temp[4096 + 32];
    if (!session_leads(s) || s->config->keep_checkpoints == 0)
        return STATUS_OK;
    TRY(path_format(latest, sizeof latest, "%s/" CHECKPOINT_NAME, s->dir));
    TRY(path_format(kept, sizeof kept, "%s/" KEPT_PREFIX "%04" PRId64 KEPT_SUFFIX, s->dir, epoch));
    TRY(path_temporary(kept, temp, sizeof temp));
    if (link(latest, temp) != 0)
        return status_fail(STATUS_IO, "--keep-checkpoints: cannot link '%s': %s", latest,
                           strerror(errno));
    if (rename(temp, kept) != 0) {
        int error = errno;
        unlink(temp);
        return status_fail(STATUS_IO, "--keep-checkpoints: cannot write '%s': %s", kept,
                           strerror(error));
    }
    unlink(temp); /* rename leaves both names if they link to the same file */
    return remove_kept(s, epoch);
}

enum status session_saved_records(struct session *s, bool now)
{
    if (!s->on_save || record_flushes(s->record) == s->flushes)
        return STATUS_OK;
    s->flushes = record_flushes(s->record);
    return on_save_request(s->on_save, s->record, s->state.step, false, now);
}

/* The other ranks wait while rank 0 runs this function. Rank 0 waits at most half of comm_timeout
 * for the command; otherwise the other ranks could time out and report rank 0 as lost. */
enum status session_end_saves(struct session *s)
{
    double wait_s = s->config->on_save_timeout, patience_s = s->config->comm_timeout / 2;
    if (s->world.size > 1 && patience_s > 0 && patience_s < wait_s)
        wait_s = patience_s;
    return on_save_end(s->on_save, s->record, s->state.step, wait_s);
}
