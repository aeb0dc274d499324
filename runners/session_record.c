/* Compares the settings of a run between ranks, begins its record, and opens its sensors. */
#include "runners/session.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "engine/gpu_group.h"
#include "model/exchange.h"
#include "runners/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool session_emulates(const struct session *s)
{
    return s->policy.operand != DTYPE_F32 &&
           (s->config->emulate || !device_native(engine_device(s->engine), s->policy.operand));
}

static struct train_setting setting_of(const struct session *s)
{
    const struct train_config *c = s->config;
    return (struct train_setting){
        .mode = s->mode,
        .decode = c->dummy                   ? NULL
                  : s->decoder               ? "gpu"
                  : c->decode == DECODE_FAST ? "fast"
                                             : "exact",
        .ranks = s->world.size,
        .devices = s->devices.n,
        .classes = s->graph->classes,
        .epoch_steps = s->train_steps,
        .fuse = ladder_fuse(&s->ladder),
        .conv = s->devices.backend == &backend_cpu ? conv_algorithm_str(s->identity.conv_algorithm)
                                                   : NULL,
        .graphs = engine_replays_graphs(s->engine),
        .wgrad_stream = engine_uses_wgrad_stream(s->engine),
        .pdl = engine_uses_pdl(s->engine),
        .emulated = session_emulates(s),
        .oversubscribed = *s->crowd != '\0',
        .comm = engine_comm_name(s->engine),
        .inject = session_faults(s),
        .data = s->identity.data,
        .data_before = s->state.data_before,
    };
}

enum status session_agree(struct session *s)
{
    enum status st;
    char data[32], layout[32];
    uint64_t hash;
    json_t *o;
    const struct train_setting setting = setting_of(s);
    if (s->world.size == 1)
        return STATUS_OK;
    TRY(network_layout_hash(engine_network(s->engine), &hash));
    snprintf(data, sizeof data, "%016" PRIx64, s->identity.data);
    snprintf(layout, sizeof layout, "%016" PRIx64, hash);
    TRY(train_config_json(s->config, &setting, TRAIN_PRIVATE, &o));
    json_put(o, "fingerprint of the data", json_utf8(data));
    json_put(o, "fingerprint of the layout of weights (processor and library)", json_utf8(layout));
    st = world_agree(&s->world, o);
    s->agreed = st == STATUS_USAGE;
    json_decref(o);
    return st;
}

/* Opens the sensors of this rank's own devices, for samples and energy. */
static enum status open_telemetry(struct session *s)
{
    struct telemetry_config c = {.seconds = s->config->telemetry,
                                 .gpu = gpu_group_is(&s->devices),
                                 .n = s->devices.n,
                                 .index = s->devices.index};
    return c.seconds > 0 ? telemetry_open(&c, &s->telemetry) : STATUS_OK;
}

static enum status take_sample(void *context, struct telemetry_record *row, int n)
{
    return record_telemetry(context, row, n);
}

/* Starts sampling on a rank other than 0, which keeps its samples until the run ends. All
 * processors of a host count as one device, which only the host's first rank samples. */
static enum status start_samples(struct session *s)
{
    int number = 0;
    if (!s->telemetry)
        return STATUS_OK;
    if (!gpu_group_is(&s->devices))
        TRY(world_local_rank(&s->world, &number));
    return number > 0 ? STATUS_OK : telemetry_start(s->telemetry, rank_samples_take, &s->samples);
}

/* Makes the folder with the chosen name. If several runs start at the same time and choose the same
 * name, the run that makes the folder first keeps the name, and the other runs choose again. */
static enum status claim_dir(struct session *s)
{
    TRY(dir_make(s->config->out ? s->config->out : RUNS_DIR));
    while (mkdir(s->dir, 0777) != 0) {
        if (errno != EEXIST)
            return status_fail(STATUS_IO, "cannot make folder '%s': %s", s->dir, strerror(errno));
        TRY(session_choose_dir(s));
    }
    return STATUS_OK;
}

/* Whether the run in a folder began at the checkpoint `from`, and has recorded no other. */
static enum status has_only_begun(const char *dir, const char *from, bool *begun)
{
    struct run *run;
    TRY(run_load(dir, &run));
    json_t *recorded = json_utf8(from);
    *begun = strcmp(run_config_text(run, "resume", ""), json_string_value(recorded)) == 0 &&
             run->checkpoints == 0 && !run->summary;
    json_decref(recorded);
    run_free(run);
    return STATUS_OK;
}

static bool nothing_left(const struct session *s)
{
    const struct train_config *c = s->config;
    return s->state.epoch >= c->epochs || (c->steps && s->state.step >= c->steps) ||
           (c->desired_acc > 0 && s->state.best_top1 >= c->desired_acc);
}

/* Appends to the record of a resumed run, or creates a new one. The record of --expect is opened
 * first, so that a run that cannot be compared with it leaves no folder. */
static enum status begin_record(struct session *s, const struct run_info *info)
{
    if (s->config->expect)
        TRY(expected_open(s->config->expect, info->config, info->libraries, info->device,
                          &s->expected));
    const char *from = s->config->resume;
    char file[4096]; /* PATH_MAX */
    bool same = true, taken = false, begun = false;
    bool given = from && strcmp(from, "auto") != 0 && !s->config->evaluate;
    if (given && !realpath(from, file)) /* a parent folder may be unreadable */
        TRY(path_format(file, sizeof file, "%s", from));
    if (given) { /* else another process may begin a run meanwhile */
        TRY(path_same(dirname(file), s->dir, &same));
        TRY(s->config->out ? dir_make(s->dir) : claim_dir(s));
        if (s->claim <= 0)
            TRY(record_lock(s->dir, &s->claim));
        TRY(dir_look(s->dir, "run.json", &taken));
    }
    if (taken)
        TRY(has_only_begun(s->dir, from, &begun));
    if (taken && !begun && !same) /* the checkpoint is of another folder */
        return status_fail(STATUS_USAGE, "'%s' already holds a run; name another folder by --out",
                           s->dir);
    if (given && !s->config->no_checkpoint) {
        TRY(path_format(file, sizeof file, "%s/" CHECKPOINT_NAME, s->dir));
        TRY(path_same(from, file, &same));
        if (taken && !same && nothing_left(s))
            return status_fail(STATUS_USAGE, "--resume '%s' leaves nothing to train", from);
        /* for --resume auto if the run is lost before the next; it would not see changed data */
        if ((!same || s->config->start_epoch >= 0) && !s->state.data_before)
            TRY(session_checkpoint(s));
    }
    struct run_info locked = *info;
    locked.lock = s->claim;
    s->claim = -1;
    if (from && !s->config->evaluate)
        return record_resume(s->dir, &locked, s->state.step, s->state.epoch, &s->record);
    if (!s->config->out || strcmp(s->dir, s->config->out) != 0)
        TRY(claim_dir(s));
    return record_create(s->dir, info, &s->record);
}

/* Returns the choices of one form: the number of chains that could be fused, of those that are, and
 * of those that are not because the device's library failed, with its first message. */
static json_t *form_json(const struct fusion *f, int n, const char *form)
{
    int chains = 0, taken = 0, failed = 0;
    const char *why = NULL;
    for (int i = 0; i < n; i++) {
        if (strcmp(f[i].form, form) != 0)
            continue;
        chains++;
        taken += f[i].taken;
        failed += f[i].why[0] != '\0';
        why = !why && f[i].why[0] ? f[i].why : why;
    }
    return json_new("{s:s, s:i, s:i, s:i, s:o*}", "form", form, "chains", chains, "taken", taken,
                    "failed", failed, "why", why ? text_json(why) : NULL);
}

/* Returns the choices of FUSE_AUTO on the first device, by form; NULL if there are none. */
static json_t *fusions_json(const struct session *s)
{
    int n;
    const struct fusion *f = program_fusions(network_program(engine_network(s->engine), 0), &n);
    if (n == 0)
        return NULL;
    json_t *fusions = json_array();
    for (int i = 0; i < n; i++) {
        bool first = true;
        for (int k = 0; k < i && first; k++)
            first = strcmp(f[k].form, f[i].form) != 0;
        if (first)
            json_add(fusions, form_json(f, n, f[i].form));
    }
    return fusions;
}

static enum status open_record(struct session *s, int argc, char *const *argv)
{
    enum status st;
    char about[256];
    const struct train_setting setting = setting_of(s);
    const struct backend *b = s->devices.backend;
    engine_device(s->engine)->backend->describe(engine_device(s->engine), about, sizeof about);
    json_t *config = NULL;
    json_t *libraries = json_object();
    json_t *ranks = s->world.size > 1 ? world_json(&s->world) : NULL;
    json_t *hardware = s->telemetry ? telemetry_facts(s->telemetry) : NULL;
    json_t *ladder = s->ladder.applies ? ladder_json(&s->ladder) : NULL;
    json_t *fusions = fusions_json(s);
    CHECK(train_config_json(s->config, &setting, 0, &config));
    if (b->library)
        json_put(libraries, b->library, json_utf8(b->library_version()));
    if (world_is_mpi(&s->world))
        json_put(libraries, "MPI", json_utf8(comm_mpi_version()));
    struct run_info info = {.argc = argc,
                            .argv = argv,
                            .seed = s->config->seed,
                            .device = about,
                            .config = config,
                            .libraries = libraries,
                            .ranks = ranks,
                            .hardware = hardware,
                            .ladder = ladder,
                            .fusions = fusions,
                            .observer = s->config->observer};
    st = begin_record(s, &info);
done:
    json_decref(config);
    json_decref(libraries);
    json_decref(ranks);
    json_decref(hardware);
    json_decref(ladder);
    json_decref(fusions);
    TRY(st);
    atomic_store(&s->ending, s->record);
    atomic_file_sweep(s->dir); /* safe, because the record's lock excludes other runs */
    const struct on_save_config save = {s->config->on_save, s->dir, s->config->on_save_timeout};
    if (save.command)
        TRY(on_save_open(&save, &s->on_save));
    return s->telemetry ? telemetry_start(s->telemetry, take_sample, s->record) : STATUS_OK;
}

enum status session_begin_record(struct session *s, int argc, char *const *argv)
{
    TRY(open_telemetry(s));
    return session_leads(s) ? open_record(s, argc, argv) : start_samples(s);
}

double session_joules(struct session *s)
{
    bool host = !gpu_group_is(&s->devices);
    return host && s->world.size > 1 ? NAN : telemetry_joules(s->telemetry);
}
