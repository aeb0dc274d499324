/* ampscale pair: a second look at nodes that failed, between the ranks of a job. */
#include "accept/pair_run.h"
#include "base/file.h"
#include "cli/accept_commands.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"
#include "launch/hosts.h"
#include "results/nodes.h"
#include "runners/inject.h"
#include "runners/world.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_FAILING = 256,
    KEY_PARTNERS,
    KEY_SEED,
    KEY_MIB,
    KEY_SAMPLES,
    KEY_WITHIN,
    KEY_LATENCY_WITHIN,
    KEY_OUT,
    KEY_INJECT,
};

static const struct argp_option options[] = {
    {"failing", KEY_FAILING, "NODE,...|FILE", 0,
     "Nodes that failed before, by name or rank, or a file of names", 0},
    {"partners", KEY_PARTNERS, "N", 0, "Good nodes that each meets (default 2)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of who meets whom (default 1)", 0},
    {"mib", KEY_MIB, "N", 0,
     "Size of a meeting's long allreduce (default 64); the short one has 8 bytes", 0},
    {"samples", KEY_SAMPLES, "N", 0, "How often each allreduce is timed (default 20)", 0},
    {"within", KEY_WITHIN, "PERCENT", 0,
     "How much worse than among good nodes steps and the long allreduce may be (default 10)", 0},
    {"latency-within", KEY_LATENCY_WITHIN, "PERCENT", 0,
     "How much longer than among good nodes the short allreduce may take (default 100)", 0},
    {"out", KEY_OUT, "DIR", 0, "Write pair.json into this folder", 0},
    {"inject", KEY_INJECT, "FAULT", OPTION_HIDDEN, "Commit a fault, to see what catches it", 0},
    {0},
};

struct pair_args {
    const char *failing; /* nodes or a file of them; NULL: not said */
    const char *out;     /* NULL: nowhere */
    int partners, mib, samples;
    int64_t seed;
    double within, latency_within; /* percent */
    struct inject faults;
    struct bench_net net;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct pair_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->net;
        break;
    case KEY_FAILING:
        a->failing = arg;
        break;
    case KEY_PARTNERS:
        st = bench_int("--partners", arg, 1, 1000, &a->partners);
        break;
    case KEY_SEED:
        st = cli_int("--seed", arg, 0, INT64_MAX, &a->seed);
        break;
    case KEY_MIB:
        st = bench_int("--mib", arg, 1, 65536, &a->mib);
        break;
    case KEY_SAMPLES:
        st = bench_int("--samples", arg, 1, BENCH_ITERS_MAX, &a->samples);
        break;
    case KEY_WITHIN:
        st = cli_double("--within", arg, 0.1, 99, &a->within);
        break;
    case KEY_LATENCY_WITHIN:
        st = cli_double("--latency-within", arg, 0.1, 1e6, &a->latency_within);
        break;
    case KEY_OUT:
        a->out = arg;
        break;
    case KEY_INJECT:
        st = inject_parse(arg, &a->faults);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* The ranks of a job as nodes. */
struct look {
    struct world world;
    bool *suspect;               /* (ranks) */
    const char **name;           /* (ranks) */
    char (*text)[NODE_NAME_MAX]; /* (ranks) behind the names */
};

static enum status name_ranks(struct look *l)
{
    const struct world *w = &l->world;
    size_t n = (size_t)w->size;
    l->suspect = calloc(n, sizeof *l->suspect);
    l->name = calloc(n, sizeof *l->name);
    l->text = calloc(n, sizeof *l->text);
    if (!l->suspect || !l->name || !l->text)
        return status_fail(STATUS_OOM, "no memory for %d ranks", w->size);
    for (int r = 0; r < w->size; r++) {
        int before = 0;
        for (int k = 0; k < r; k++)
            before += strcmp(w->info[k].host, w->info[r].host) == 0;
        accept_node_name(w->info[r].host, before, l->text[r], sizeof l->text[r]);
        l->name[r] = l->text[r];
    }
    return STATUS_OK;
}

/* By name, or by rank. */
static enum status mark(struct look *l, const char *node)
{
    char *end;
    long rank = strtol(node, &end, 10);
    for (int r = 0; r < l->world.size; r++) {
        if (strcmp(l->name[r], node) == 0) {
            l->suspect[r] = true;
            return STATUS_OK;
        }
    }
    if (!isdigit((unsigned char)*node) || *end != '\0' || rank >= l->world.size)
        return status_fail(STATUS_USAGE,
                           "--failing '%s': no node of this job is called so, and no rank; rank 0 "
                           "is '%s', and there are %d",
                           node, l->name[0], l->world.size);
    l->suspect[rank] = true;
    return STATUS_OK;
}

/* Rank 0 reads the list, and all have its word. */
static enum status mark_failing(const struct pair_args *a, struct look *l)
{
    struct launch_hosts hosts = {0};
    enum status st = STATUS_OK;
    if (l->world.rank == 0) {
        CHECK(path_exists(a->failing) ? launch_hosts_read(&hosts, a->failing)
                                      : launch_hosts_parse(&hosts, a->failing));
        for (int i = 0; i < hosts.n; i++)
            CHECK(mark(l, hosts.v[i].name));
    }
    CHECK(world_share(&l->world, l->suspect, (size_t)l->world.size * sizeof *l->suspect));
done:
    launch_hosts_free(&hosts);
    return st;
}

static enum status agree(const struct pair_config *c, struct world *w)
{
    json_t *settings = json_pack(
        "{s:i, s:I, s:f, s:f, s:I, s:i, s:s, s:i, s:i, s:i, s:s}", "partners", c->partners, "seed",
        (json_int_t)c->seed, "within", c->within, "latency-within", c->latency_within, "mib",
        (json_int_t)(c->bytes >> 20), "samples", c->samples, "net", c->net.net, "batch-size",
        c->net.batch, "image-size", c->net.image_size, "rounds", c->net.rounds, "precision",
        c->net.precision ? c->net.precision : "fp32");
    if (!settings)
        return status_fail(STATUS_OOM, "no memory for settings");
    enum status st = world_agree(w, settings);
    json_decref(settings);
    return st;
}

/* Rank 0's part. */
static enum status report(const struct pair_config *c, const struct pair_result *r, bool json,
                          const char *out)
{
    char path[4096];
    json_t *o = pair_json(c, r);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    enum status st = STATUS_OK;
    json_decref(o);
    if (!text)
        return status_fail(STATUS_OOM, "no memory for the report");
    if (out) {
        CHECK(dir_make(out));
        CHECK(path_format(path, sizeof path, "%s/pair.json", out));
        CHECK(file_replace(path, text, strlen(text)));
    }
    if (json)
        puts(text);
    else
        pair_print(c, r, stdout);
done:
    free(text);
    return st;
}

static enum status look_again(const struct pair_args *a, struct look *l, int *code)
{
    struct pair_result r = {{0}};
    struct world *w = &l->world;
    struct pair_config c = {.partners = a->partners,
                            .seed = (uint64_t)a->seed,
                            .within = a->within / 100,
                            .latency_within = a->latency_within / 100,
                            .bytes = (int64_t)a->mib << 20,
                            .samples = a->samples,
                            .net = bench_net_config_of(&a->net)};
    TRY(name_ranks(l));
    TRY(agree(&c, w));
    TRY(mark_failing(a, l));
    c.suspect = l->suspect;
    c.name = l->name;
    c.drag = inject_drag(&a->faults, w->rank);
    c.progress = w->rank == 0 ? stderr : NULL;
    if (c.net.threads == 0) {
        const struct train_config train = train_config_default();
        c.net.threads = world_threads(w, &train, 1);
    }
    TRY(pair_run(&c, w->comm, &r));
    enum status st = STATUS_OK;
    if (w->rank == 0) {
        st = report(&c, &r, a->net.common.json, a->out);
        *code = pair_exit_code(r.finding, r.n);
    }
    pair_result_free(&r);
    return st;
}

static enum status work(const struct pair_args *a, int *code)
{
    const struct device_list host = {.n = 1};
    const struct train_config train = train_config_default();
    struct look l = {{0}};
    if (!a->failing)
        return status_fail(STATUS_USAGE, "pair needs to know who failed: give --failing");
    if (!comm_under_mpi())
        return status_fail(STATUS_USAGE, "pair runs as the ranks of a job, one a node: 'ampscale "
                                         "launch --hosts a,b,c -- pair ...'");
    enum status st = world_open(&train, &host, &l.world);
    if (st == STATUS_OK)
        st = look_again(a, &l, code);
    fflush(stdout); /* comm_fail may end the process */
    if (st != STATUS_OK && l.world.size > 1)
        comm_fail(l.world.comm, st, status_message());
    world_close(&l.world);
    free(l.suspect);
    free(l.name);
    free(l.text);
    return st;
}

int cmd_pair(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_net_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "A second look at nodes that failed an acceptance, as the ranks of a job, one a "
               "node: each trains alone, and meets good ones in a collective. What fails with whom "
               "tells a node from a link.\v"
               "Exit status: 0 all is well the second time, 4 something fails again, 5 not "
               "everything could be told, 2 wrong usage, 1 the program could not do its work."};
    struct pair_args a = {.partners = 2,
                          .mib = 64,
                          .samples = 20,
                          .seed = 1,
                          .within = 10,
                          .latency_within = 100,
                          .net = bench_net_default()};
    int exit_code = 0;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = work(&a, &exit_code);
    return st == STATUS_OK ? exit_code : cli_fail(st);
}
