/* Ranks: joining, agreeing, sharing. */
#include "runners/world.h"

#include "base/host.h"
#include "base/stop.h"

#include <config.h> /* the build's, not this room's */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { VERDICT_MAX = 512 };

static bool stopping(void)
{
    return stop_requested() != NULL;
}

static enum status choose_mode(const struct train_config *c, const struct device_list *devices,
                               bool launched, enum train_mode *mode)
{
    bool many = devices->n > 1;
    enum train_mode fits = launched ? (many ? MODE_DDP2 : MODE_DDP) : (many ? MODE_DP : MODE_ND);
    *mode = c->mode == MODE_AUTO ? fits : c->mode;
    bool processes = *mode == MODE_DDP || *mode == MODE_DDP2;
    if (processes && !launched)
        return status_fail(STATUS_USAGE,
                           "--mode %s needs processes: start it with 'ampscale launch --nproc N -- "
                           "train ...', mpirun or srun",
                           train_mode_str(*mode));
    if (!processes && launched)
        return status_fail(STATUS_USAGE,
                           "--mode %s is one process, but a launcher started several; use --mode "
                           "ddp, or start it without the launcher",
                           train_mode_str(*mode));
    bool shared = *mode == MODE_DP || *mode == MODE_DDP2;
    if (many && !shared)
        return status_fail(STATUS_USAGE,
                           "--mode %s has one device in a process, not --devices %s; use --mode %s",
                           train_mode_str(*mode), c->devices, processes ? "ddp2" : "dp");
    if (!many && shared)
        return status_fail(STATUS_USAGE,
                           "--mode %s has several devices in a process; name them, as in --devices "
                           "cpu:2",
                           train_mode_str(*mode));
    return STATUS_OK;
}

static void describe_self(struct rank_info *self)
{
    if (gethostname(self->host, sizeof self->host - 1) != 0)
        snprintf(self->host, sizeof self->host, "?");
    self->pid = (int32_t)getpid();
    if (sched_getaffinity(0, sizeof self->cores, &self->cores) != 0)
        CPU_ZERO(&self->cores);
}

static enum status introduce(struct world *w)
{
    struct rank_info self = {{0}};
    w->info = calloc((size_t)w->size, sizeof *w->info);
    if (!w->info)
        return status_fail(STATUS_OOM, "no memory for %d ranks", w->size);
    describe_self(&self);
    struct comm_op gather = {.kind = COMM_ALLGATHER,
                             .type = DTYPE_U8,
                             .send = &self,
                             .recv = w->info,
                             .count = sizeof self};
    TRY(comm_run(w->comm, &gather));
    for (int i = 0; i < w->size; i++)
        w->info[i].host[HOST_NAME_MAX_LEN - 1] = '\0';
    return STATUS_OK;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

static enum status meet(const struct train_config *c, struct comm **comm)
{
    struct comm_tcp_config tcp = {.address = c->rendezvous, .timeout_s = c->comm_timeout};
    TRY(comm_place_find(environment, &tcp.place));
    return comm_open_tcp(&tcp, comm);
}

static enum status join(const struct train_config *c, bool launched, struct comm **comm)
{
    struct comm_mpi_config mpi = {.timeout_s = c->comm_timeout,
                                  .join_s = c->comm_timeout > 0 ? c->join_timeout : 0,
                                  .stop_requested = stopping};
    if (c->rendezvous)
        return meet(c, comm);
    return launched ? comm_open_mpi(&mpi, comm) : comm_open_solo(comm);
}

/* Processes that the launcher started, as far as it tells; 0: it does not. */
static int launched_size(void)
{
    struct comm_place place;
    return comm_place_find(environment, &place) == STATUS_OK ? place.size : 0;
}

static bool is_one_process(enum train_mode mode)
{
    return mode == MODE_ND || mode == MODE_DP;
}

/* A launcher of one process, as srun is for a job's only task, leaves modes of one process be. */
static bool is_launched(const struct train_config *c)
{
    if (c->rendezvous)
        return true;
    return comm_under_mpi() && !(is_one_process(c->mode) && launched_size() == 1);
}

enum status world_check_launcher(const struct train_config *c)
{
    int size = launched_size();
    const char *mpi = comm_srun_mpi();
    if (c->rendezvous || comm_under_mpi() || is_one_process(c->mode) || size <= 1)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "a launcher started %d processes that cannot find each other: give %s%s%s "
                       "--rendezvous HOST:PORT; --mode nd lets each train alone",
                       size, mpi ? "srun --mpi=" : "", mpi ? mpi : "",
                       mpi ? ", or all of them" : "all of them");
}

enum status world_open(const struct train_config *c, const struct device_list *devices,
                       struct world *w)
{
    bool launched = is_launched(c);
    *w = (struct world){0};
    TRY(choose_mode(c, devices, launched, &w->mode));
    TRY(join(c, launched, &w->comm));
    w->rank = comm_rank(w->comm);
    w->size = comm_size(w->comm);
    return introduce(w);
}

void world_close(struct world *w)
{
    comm_close(w->comm);
    free(w->info);
    *w = (struct world){0};
}

const char *world_network(const struct world *w)
{
    bool mpi = strcmp(comm_name(w->comm), "mpi") == 0;
    return mpi ? comm_mpi_version() : comm_name(w->comm);
}

enum status world_local_rank(const struct world *w, int *local_rank)
{
    if (w->size > 1)
        TRY(comm_local_rank_find(environment, local_rank));
    if (w->size > 1 && *local_rank >= 0)
        return STATUS_OK;
    *local_rank = 0;
    for (int i = 0; i < w->rank; i++)
        *local_rank += strcmp(w->info[i].host, w->info[w->rank].host) == 0;
    return STATUS_OK;
}

int world_threads(const struct world *w, const struct train_config *c, int devices)
{
    int sharing = 0;
    const struct rank_info *self = &w->info[w->rank];
    if (c->threads)
        return c->threads;
    for (int i = 0; i < w->size; i++)
        sharing +=
            CPU_EQUAL(&w->info[i].cores, &self->cores) && strcmp(w->info[i].host, self->host) == 0;
    int threads = host_cores() / (sharing * devices);
    return threads > 0 ? threads : 1;
}

/* Writes how `own` differs from rank 0's settings; "" where it does not. */
static void compare(const struct world *w, const json_t *first, json_t *own,
                    char verdict[VERDICT_MAX])
{
    const char *key;
    json_t *value;
    *verdict = '\0';
    json_object_foreach(own, key, value)
    {
        const json_t *other = json_object_get(first, key);
        if (json_equal(value, other))
            continue;
        char *mine = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        char *theirs = other ? json_dumps(other, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
        snprintf(verdict, VERDICT_MAX,
                 "rank %d (host %s) has %s = %.120s, but rank 0 (host %s) has %.120s; all ranks "
                 "need the same",
                 w->rank, w->info[w->rank].host, key, mine ? mine : "?", w->info[0].host,
                 theirs ? theirs : "none");
        free(mine);
        free(theirs);
        return;
    }
}

/* Rank 0's settings as text to everybody. */
static enum status share_text(struct world *w, char **text)
{
    int64_t length = *text ? (int64_t)strlen(*text) + 1 : 0;
    TRY(world_share(w, &length, sizeof length));
    if (length <= 0 || length > 1 << 20)
        return status_fail(STATUS_INVALID, "rank 0 sent settings of %lld bytes", (long long)length);
    char *shared = w->rank == 0 ? *text : malloc((size_t)length);
    if (!shared)
        return status_fail(STATUS_OOM, "no memory for settings");
    enum status st = world_share(w, shared, (size_t)length);
    if (w->rank == 0)
        return st;
    free(*text);
    *text = shared;
    shared[length - 1] = '\0';
    return st;
}

/* The lowest rank that differs speaks for all. */
static enum status judge(struct world *w, const char own[VERDICT_MAX])
{
    char(*all)[VERDICT_MAX] = calloc((size_t)w->size, sizeof *all);
    if (!all)
        return status_fail(STATUS_OOM, "no memory for %d ranks", w->size);
    struct comm_op gather = {
        .kind = COMM_ALLGATHER, .type = DTYPE_U8, .send = own, .recv = all, .count = VERDICT_MAX};
    enum status st = comm_run(w->comm, &gather);
    for (int i = 0; i < w->size && st == STATUS_OK; i++)
        if (all[i][0])
            st = status_fail(STATUS_USAGE, "%.*s", VERDICT_MAX - 1, all[i]);
    free(all);
    return st;
}

/* A checksum over this program's file; two builds of one version differ in it. */
static enum status add_program(json_t *settings)
{
    unsigned char piece[65536];
    char text[16];
    uLong crc = 0;
    size_t n;
    FILE *f = fopen("/proc/self/exe", "rb");
    if (!f)
        return status_fail(STATUS_IO, "cannot read this program's own file '/proc/self/exe'");
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        crc = crc32(crc, piece, (uInt)n);
    fclose(f);
    snprintf(text, sizeof text, "%08lx", crc);
    if (json_object_set_new(settings, "program version", json_string(AMPSCALE_VERSION)) != 0 ||
        json_object_set_new(settings, "program file", json_string(text)) != 0)
        return status_fail(STATUS_OOM, "no memory for settings");
    return STATUS_OK;
}

enum status world_agree(struct world *w, json_t *settings)
{
    enum status st;
    char verdict[VERDICT_MAX] = "";
    json_t *first = NULL, *own = NULL;
    TRY(add_program(settings));
    char *text = json_dumps(settings, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text)
        return status_fail(STATUS_OOM, "no memory for settings");
    own = json_loads(text, 0, NULL); /* numbers as they come out of the text, on both sides */
    CHECK(share_text(w, &text));
    first = json_loads(text, 0, NULL);
    if (!first || !own) {
        st = status_fail(STATUS_INVALID, "rank 0 sent settings that cannot be read");
        goto done;
    }
    compare(w, first, own, verdict);
    CHECK(judge(w, verdict));
done:
    json_decref(first);
    json_decref(own);
    free(text);
    return st;
}

/* How many cores the ranks of a rank's host may use together; 0 where that is not known. */
static int cores_together(const struct world *w, int rank)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < w->size; i++) {
        if (strcmp(w->info[i].host, w->info[rank].host) != 0)
            continue;
        if (CPU_COUNT(&w->info[i].cores) == 0)
            return 0;
        CPU_OR(&all, &all, &w->info[i].cores);
    }
    return CPU_COUNT(&all);
}

json_t *world_json(const struct world *w)
{
    json_t *ranks = json_array();
    for (int i = 0; i < w->size; i++) {
        int cores = cores_together(w, i);
        json_t *rank = json_pack("{s:i, s:s, s:i}", "rank", i, "host", w->info[i].host, "pid",
                                 (int)w->info[i].pid);
        if (cores > 0)
            json_object_set_new(rank, "host_cores", json_integer(cores));
        if (json_array_append_new(ranks, rank) != 0) {
            json_decref(ranks);
            return NULL;
        }
    }
    return ranks;
}

enum status world_share(struct world *w, void *data, size_t bytes)
{
    struct comm_op op = {
        .kind = COMM_BROADCAST, .type = DTYPE_U8, .recv = data, .count = (int64_t)bytes};
    return comm_run(w->comm, &op);
}

enum status world_sum(struct world *w, double *values, int n)
{
    return comm_sum(w->comm, values, n);
}
