/* ampscale accept as the ranks of a job: a battery on each node, and the fleet judged at the end.
 *
 * A rank's battery is a process of its own, as each of its checks is, so that whatever ends it
 * leaves the rank to say so. The ranks join MPI when all batteries have ended, and not before: what
 * crashes or hangs takes nobody with it, and what has been measured lies in each node's folder by
 * then. Nobody waits for ever: where the ranks do not meet, rank 0 judges what it sees of the
 * nodes' folders. Batteries must not take themselves for ranks: what the launcher has put into the
 * environment is kept from them. */
#include "accept/plan.h"
#include "base/file.h"
#include "base/process.h"
#include "base/words.h"
#include "cli/accept_commands.h"
#include "launch/place.h"
#include "runners/world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REPORT_BYTES_MAX = 64 << 20,
    WHY_SIZE = 512,
    GRACE_SECONDS = 30,  /* for a battery to stop its check in order */
    WAIT_SECONDS = 3600, /* for other nodes, beyond twice the plan */
};

/* What all ranks are told alike. */
struct fleet_job {
    const struct accept_fleet_args *args;
    const struct accept_spec *spec;
    const char *out; /* the nodes' folders are in it */
    bool strict;
    double wait_s; /* for the other nodes, when the own one's battery has ended */
};

/* This rank, and what its battery came to. */
struct fleet_rank {
    struct launch_place place;
    char name[NODE_NAME_MAX], dir[ACCEPT_PATH_SIZE];
    char *report;       /* as JSON; NULL: there is none, */
    char why[WHY_SIZE]; /* for this reason */
};

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

enum status accept_leave_job(struct words *kept)
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

/* --- the battery --- */

/* Takes in how the battery has ended. An end that was asked for, and a wrong command line, are this
 * rank's too. */
static enum status take_end(const struct process_end *end, struct fleet_rank *n)
{
    char path[ACCEPT_PATH_SIZE];
    size_t size;
    bool judged = end->code == 0 || end->code == status_exit_code(STATUS_MISMATCH) ||
                  end->code == status_exit_code(STATUS_DATA);
    if (end->received)
        return status_fail(STATUS_INTERRUPTED, "interrupted by %s; --resume runs what is missing",
                           strsignal(end->received));
    if (end->code == status_exit_code(STATUS_USAGE))
        return status_fail(STATUS_USAGE, "%s", end->message); /* "": it has been said */
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, n->dir));
    if (judged && path_exists(path))
        return file_read(path, REPORT_BYTES_MAX, &n->report, &size);
    if (end->code > 128)
        return status_fail(STATUS_DATA, "its battery was ended by a signal: %s",
                           strsignal(end->code - 128));
    return status_fail(STATUS_DATA, "its battery ended with exit code %d%s%s", end->code,
                       *end->message ? ": " : "", end->message);
}

/* Rank 0's speaks for all; what the others say is in their folders. */
static enum status run_battery(const struct words *command, struct fleet_rank *n)
{
    char log[ACCEPT_PATH_SIZE], out[ACCEPT_PATH_SIZE];
    struct words line = {0}, kept = {0};
    struct process_signals signals = {.fd = -1};
    struct process_end end;
    enum status st;
    CHECK(path_format(log, sizeof log, "%s/battery.log", n->dir));
    CHECK(path_format(out, sizeof out, "%s/battery.txt", n->dir));
    CHECK(words_add_list(&line, command->n, command->v));
    CHECK(words_add(&line, "--out"));
    CHECK(words_add(&line, "%s", n->dir));
    CHECK(dir_make(n->dir));
    CHECK(process_signals_open(&signals));
    CHECK(accept_leave_job(&kept));
    const struct process_config c = {.argv = line.v,
                                     .log = n->place.rank == 0 ? NULL : log,
                                     .out = out,
                                     .signals = &signals,
                                     .grace_s = GRACE_SECONDS};
    CHECK(process_run(&c, &end));
    CHECK(take_end(&end, n));
done:
    process_signals_close(&signals);
    words_free(&line);
    enum status back = return_to_job(&kept); /* after a failure, too: the ranks still meet */
    return st != STATUS_OK ? st : back;
}

/* --- the meeting --- */

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

/* What a node has sent: its report, or why there is none. */
static enum status take_report(struct fleet_input *in, const char *text, const char *name)
{
    enum status st = *text == '{' ? add_text(in, text, name) : status_fail(STATUS_DATA, "%s", text);
    if (st != STATUS_DATA)
        return st;
    fprintf(stderr, "ampscale: node '%s': %s\n", name, status_message());
    return fleet_input_unfinished(in, name);
}

/* One rank's report, or why it has none, with a NUL at its end, to all. */
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
            st = take_report(in, text, name);
        free(text);
        TRY(st);
    }
    return STATUS_OK;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

static enum status add_nodes(const struct launch_host *host, struct launch_hosts *nodes)
{
    for (int k = 0; k < host->slots; k++) {
        char name[NODE_NAME_MAX];
        accept_node_name(host->name, k, name, sizeof name);
        TRY(launch_hosts_parse(nodes, name));
    }
    return STATUS_OK;
}

static bool is_among(const struct launch_hosts *nodes, const char *name)
{
    for (int i = 0; i < nodes->n; i++)
        if (strcmp(nodes->v[i].name, name) == 0)
            return true;
    return false;
}

/* The nodes that the launcher was told of. None where it was told of none, or calls this one
 * something else than it calls itself: then the names say nothing of the others either. */
static void find_expected(const struct fleet_rank *n, struct launch_hosts *nodes)
{
    const char *list = getenv(LAUNCH_HOSTS_VARIABLE);
    struct launch_hosts hosts = {0};
    enum status st = launch_hosts_parse(&hosts, list ? list : "");
    for (int i = 0; i < hosts.n && st == STATUS_OK; i++)
        st = add_nodes(&hosts.v[i], nodes);
    if (st != STATUS_OK || !is_among(nodes, n->name))
        launch_hosts_free(nodes);
    launch_hosts_free(&hosts);
}

static bool in_sight(const struct fleet_input *in, const char *name)
{
    for (int i = 0; i < in->nodes.n; i++)
        if (strcmp(in->nodes.node[i].name, name) == 0)
            return true;
    return false;
}

/* Names, as many as fit. */
struct names {
    char text[WHY_SIZE];
    size_t used;
};

static void add_name(struct names *n, const char *name)
{
    if (n->used < sizeof n->text)
        n->used += (size_t)snprintf(n->text + n->used, sizeof n->text - n->used, "%s%s",
                                    n->used ? ", " : "", name);
}

/* One line on why the ranks have not met, and on who is missing, as far as the folder and the
 * launcher tell. */
static void say_absent(const struct fleet_input *in, const struct launch_hosts *expected,
                       const char *why, const char *out)
{
    struct names names = {.used = 0};
    struct comm_place place;
    int unseen = 0;
    for (int i = 0; i < in->nodes.n; i++)
        if (in->nodes.node[i].n == 0)
            add_name(&names, in->nodes.node[i].name);
    for (int i = 0; i < expected->n; i++)
        if (!in_sight(in, expected->v[i].name))
            add_name(&names, expected->v[i].name);
    if (expected->n == 0 && comm_place_find(environment, &place) == STATUS_OK)
        unseen = place.size - in->nodes.n;
    fprintf(stderr, "ampscale: %s; %s%s", why,
            names.used ? "without results: " : "all nodes in sight have results", names.text);
    if (unseen > 0)
        fprintf(stderr, "; %d of %d nodes left nothing in '%s'", unseen, place.size, out);
    fputc('\n', stderr);
}

/* The ranks have not met, for the reason that this thread's message tells. Rank 0 judges what it
 * sees; who cannot be seen was not measured. */
static enum status judge_apart(const struct fleet_job *j, const struct fleet_rank *n, int *code)
{
    struct launch_hosts expected = {0};
    struct fleet_input in = {{0}};
    char why[WHY_SIZE];
    enum status st;
    snprintf(why, sizeof why, "%s", status_message());
    if (n->place.rank != 0)
        return status_fail(STATUS_DATA, "%s; what node '%s' measured is in '%s'", why, n->name,
                           n->dir);
    CHECK(fleet_input_add(&in, j->out));
    find_expected(n, &expected);
    say_absent(&in, &expected, why, j->out);
    CHECK(accept_fleet_judge(j->args, &in, j->spec, &expected, j->out, j->strict, code));
    if (*code == 0)
        *code = status_exit_code(STATUS_DATA);
done:
    launch_hosts_free(&expected);
    fleet_input_free(&in);
    return st;
}

/* The first rank to give up ends the job: rank 0, which can judge, is to be that one. A wrong
 * launcher stays a wrong command line. */
static enum status meet(const struct fleet_job *j, const struct fleet_rank *n, int *code)
{
    const struct device_list host = {.n = 1};
    const struct launch_hosts none = {0};
    struct train_config train = train_config_default();
    struct world w = {0};
    struct fleet_input in = {{0}};
    train.join_timeout = n->place.rank == 0 ? j->wait_s : 2 * j->wait_s;
    enum status st = world_open(&train, &host, &w);
    if (st != STATUS_OK && st != STATUS_USAGE && !w.comm)
        return judge_apart(j, n, code);
    if (st == STATUS_OK)
        st = gather(&w, n->report ? n->report : n->why, &in);
    if (st == STATUS_OK && w.rank == 0)
        st = accept_fleet_judge(j->args, &in, j->spec, &none, j->out, j->strict, code);
    fflush(stdout); /* comm_fail may end the process */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    world_close(&w);
    fleet_input_free(&in);
    return st;
}

/* --- a rank --- */

static enum status name_node(const char *out, struct fleet_rank *n)
{
    char host[HOST_NAME_MAX_LEN] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "?");
    accept_node_name(host, n->place.local_rank, n->name, sizeof n->name);
    return path_format(n->dir, sizeof n->dir, "%s/%s", out, n->name);
}

enum status accept_rank_work(const struct accept_fleet_args *a, const struct accept_spec *spec,
                             const struct accept_options *options, const struct words *command,
                             bool strict, int *code)
{
    struct fleet_job j = {.args = a, .spec = spec, .out = options->dir, .strict = strict};
    struct fleet_rank n = {.report = NULL};
    TRY(launch_place_read(environ, &n.place));
    TRY(name_node(options->dir, &n));
    TRY(accept_plan_seconds(spec, options, &j.wait_s));
    j.wait_s = a->wait_s > 0 ? a->wait_s : WAIT_SECONDS + 2 * j.wait_s;
    enum status st = run_battery(command, &n);
    if (st == STATUS_INTERRUPTED || st == STATUS_USAGE) {
        free(n.report);
        return st;
    }
    if (st != STATUS_OK)
        snprintf(n.why, sizeof n.why, "%s", status_message());
    st = meet(&j, &n, code);
    free(n.report);
    return st;
}
