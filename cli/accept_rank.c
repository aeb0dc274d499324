/* ampscale accept as the ranks of a job: a battery on each node, and the fleet judged at the end.
 *
 * The ranks join MPI when all batteries have ended, and not before: a check that crashes or hangs
 * takes nobody with it, and what has been measured lies in each node's folder by then. Checks must
 * not take themselves for ranks: what the launcher has put into the environment is kept from them.
 */
#include "accept/judge.h"
#include "accept/report.h"
#include "base/file.h"
#include "cli/accept_commands.h"
#include "launch/place.h"
#include "launch/words.h"
#include "runners/world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPORT_BYTES_MAX = 64 << 20 };

/* Whether a variable ("NAME=value") tells a process of its job. */
static bool of_launcher(const char *variable)
{
    static const char *const begins[] = {
        "OMPI_",     "PMIX_",         "PMI_",  "PRTE_",         "HYD",         "MPIR_",
        "MPI_LOCAL", "SLURM_PROCID=", "RANK=", "SLURM_LOCALID", "LOCAL_RANK=", "WORLD_SIZE="};
    if (strncmp(variable, "OMPI_ALLOW_", 11) == 0) /* what the user says of himself */
        return false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(variable, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* Takes the launcher's variables out of the environment, into `kept`. */
static enum status leave_job(struct words *kept)
{
    for (char **v = environ; *v; v++)
        if (of_launcher(*v))
            TRY(words_add(kept, "%s", *v));
    for (int i = 0; i < kept->n; i++) {
        char *name = strndup(kept->v[i], strcspn(kept->v[i], "="));
        if (!name)
            return status_fail(STATUS_OOM, "no memory for the environment");
        unsetenv(name);
        free(name);
    }
    return STATUS_OK;
}

/* And back, as copies that the C library owns: MPI may take some out again. */
static enum status return_to_job(struct words *kept)
{
    enum status st = STATUS_OK;
    for (int i = 0; i < kept->n; i++) {
        char *value = strchr(kept->v[i], '=');
        *value++ = '\0';
        if (setenv(kept->v[i], value, 1) != 0)
            st = status_fail(STATUS_OOM, "no memory for the environment");
    }
    words_free(kept);
    return st;
}

/* Runs the battery; *text is the report, which the caller frees, NULL where there is none. */
static enum status run_battery(const struct accept_spec *spec, const struct accept_options *o,
                               bool strict, char **text)
{
    struct words kept = {0};
    struct accept_report report;
    enum status st = leave_job(&kept);
    if (st == STATUS_OK)
        st = accept_run(spec, o, &report);
    enum status back = return_to_job(&kept); /* with a battery that failed, too: ranks still meet */
    TRY(st);
    st = back == STATUS_OK ? accept_write(&report, strict, o->dir) : back;
    json_t *object = accept_report_json(&report);
    *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    accept_report_free(&report);
    return st == STATUS_OK && !*text ? status_fail(STATUS_OOM, "no memory for a report") : st;
}

static enum status add_text(struct fleet_input *in, const char *text, const char *name)
{
    struct accept_report r;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    enum status st = object ? accept_report_parse(object, &r)
                            : status_fail(STATUS_DATA, "the report of '%s' is damaged", name);
    json_decref(object);
    TRY(st);
    st = fleet_input_report(in, &r, name, name);
    accept_report_free(&r);
    return st;
}

/* One rank's report, with a NUL at its end, to all; it is empty where the battery has failed. */
static enum status share_report(struct world *w, int rank, const char *own, char **out)
{
    int64_t bytes = rank == w->rank ? (int64_t)strlen(own) + 1 : 0;
    struct comm_op size = {.kind = COMM_BROADCAST,
                           .type = DTYPE_U8,
                           .root = rank,
                           .recv = &bytes,
                           .count = sizeof bytes};
    *out = NULL;
    TRY(comm_run(w->comm, &size));
    if (bytes < 1 || bytes > REPORT_BYTES_MAX)
        return status_fail(STATUS_DATA, "a report of %lld bytes", (long long)bytes);
    *out = calloc(1, (size_t)bytes);
    if (!*out)
        return status_fail(STATUS_OOM, "no memory for a report of %lld bytes", (long long)bytes);
    if (rank == w->rank)
        memcpy(*out, own, (size_t)bytes);
    struct comm_op text = {
        .kind = COMM_BROADCAST, .type = DTYPE_U8, .root = rank, .recv = *out, .count = bytes};
    TRY(comm_run(w->comm, &text));
    (*out)[bytes - 1] = '\0';
    return STATUS_OK;
}

/* Gathers all ranks' reports on rank 0. */
static enum status gather(struct world *w, const char *own, struct fleet_input *in)
{
    for (int r = 0; r < w->size; r++) {
        char name[NODE_NAME_MAX], *text;
        int before = 0;
        for (int k = 0; k < r; k++)
            before += strcmp(w->info[k].host, w->info[r].host) == 0;
        accept_node_name(w->info[r].host, before, name, sizeof name);
        enum status st = share_report(w, r, own, &text);
        if (st == STATUS_OK && w->rank == 0)
            st = *text ? add_text(in, text, name) : fleet_input_unfinished(in, name);
        free(text);
        TRY(st);
    }
    return STATUS_OK;
}

static enum status meet(const struct accept_fleet_args *a, const struct accept_spec *spec,
                        const char *out, bool strict, const char *own, int *code)
{
    const struct device_list host = {.n = 1};
    const struct train_config train = train_config_default();
    const struct launch_hosts none = {0};
    struct world w = {0};
    struct fleet_input in = {{0}};
    enum status st = world_open(&train, &host, &w);
    if (st == STATUS_OK)
        st = gather(&w, own, &in);
    if (st == STATUS_OK && w.rank == 0)
        st = accept_fleet_judge(a, &in, spec, &none, out, strict, code);
    fflush(stdout); /* comm_fail may end the process */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    world_close(&w);
    fleet_input_free(&in);
    return st;
}

enum status accept_rank_work(const struct accept_fleet_args *a, const struct accept_spec *spec,
                             const struct accept_options *options, bool strict, int *code)
{
    char name[NODE_NAME_MAX], dir[ACCEPT_PATH_SIZE], host[HOST_NAME_MAX_LEN] = "", *text = NULL;
    struct accept_options o = *options;
    struct launch_place place;
    TRY(launch_place_read(environ, &place));
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "?");
    accept_node_name(host, place.local_rank, name, sizeof name);
    TRY(path_format(dir, sizeof dir, "%s/%s", options->dir, name));
    o.dir = dir;
    o.progress = place.rank == 0 ? stderr : NULL;
    enum status st = run_battery(spec, &o, strict, &text);
    if (st == STATUS_INTERRUPTED || st == STATUS_USAGE) {
        free(text);
        return st;
    }
    if (st != STATUS_OK)
        fprintf(stderr, "ampscale: node '%s': %s\n", name, status_message());
    st = meet(a, spec, options->dir, strict, text ? text : "", code);
    free(text);
    return st;
}
