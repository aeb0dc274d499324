/* ampscale accept --node-list: the results of many nodes, held against each other. */
#include "accept/fleet_report.h"
#include "accept/jsonl.h"
#include "base/file.h"
#include "cli/accept_commands.h"
#include "cli/cli.h"
#include "launch/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_NODE_LIST = 512, KEY_EXPECT, KEY_WITHIN, KEY_WARN_WITHIN, KEY_WAIT };

static const struct argp_option options[] = {
    {"node-list", KEY_NODE_LIST, "FILE|DIR", 0,
     "Hold the results of nodes against each other: a results-summary.jsonl, the folder of a node, "
     "or one of many such; more may follow",
     0},
    {"expect", KEY_EXPECT, "FILE", 0, "Nodes that have to be among them, one a line", 0},
    {"within", KEY_WITHIN, "PERCENT", 0,
     "How much worse than the fleet's median fails where no spec says it (default 10)", 0},
    {"warn-within", KEY_WARN_WITHIN, "PERCENT", 0,
     "How much worse than the fleet's median warns (default 5)", 0},
    {"wait", KEY_WAIT, "S", 0,
     "As ranks of a job: seconds that a node waits for the others when it has ended (default: an "
     "hour and twice what the battery is said to take)",
     0},
    {0},
};

struct accept_fleet_args accept_fleet_default(void)
{
    return (struct accept_fleet_args){.within = 10, .warn_within = 5};
}

enum status accept_fleet_path(struct accept_fleet_args *a, const char *path)
{
    if (a->n == ACCEPT_PATHS_MAX)
        return status_fail(STATUS_USAGE, "more than %d files and folders of results",
                           ACCEPT_PATHS_MAX);
    a->path[a->n++] = path;
    return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct accept_fleet_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_NODE_LIST:
        st = accept_fleet_path(a, arg);
        break;
    case KEY_EXPECT:
        a->expect = arg;
        break;
    case KEY_WITHIN:
        st = cli_double("--within", arg, 0.1, 99, &a->within);
        break;
    case KEY_WARN_WITHIN:
        st = cli_double("--warn-within", arg, 0.1, 99, &a->warn_within);
        break;
    case KEY_WAIT:
        st = cli_double("--wait", arg, 1, 1e8, &a->wait_s);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

const struct argp accept_fleet_argp = {.options = options, .parser = parse};

void accept_node_name(const char *host, int local_rank, char *out, size_t size)
{
    size_t n = 0;
    for (; *host && n + 16 < size; host++)
        out[n++] = isascii((unsigned char)*host) && (isalnum((unsigned char)*host) || *host == '.')
                       ? *host
                       : '-';
    out[n] = '\0';
    if (!node_name_ok(out))
        n = (size_t)snprintf(out, size, "node");
    if (local_rank > 0)
        snprintf(out + n, size - n, "-%d", local_rank);
}

/* The spec by which the nodes are judged. *found false: there is none, and none is needed. */
static enum status find_spec(const struct fleet_input *in, const char *name,
                             struct accept_spec *spec, bool *found)
{
    *found = name || *in->spec;
    if (name)
        return accept_spec_load(name, NULL, 0, spec);
    if (!*in->spec)
        return STATUS_OK;
    if (!*in->spec_file)
        return status_fail(
            STATUS_DATA, "the results are of the spec '%s', which is not beside them; give --spec",
            in->spec);
    return accept_spec_load(in->spec_file, NULL, 0, spec);
}

static enum status expected_names(const struct launch_hosts *hosts, char ***names)
{
    *names = calloc((size_t)hosts->n + 1, sizeof **names);
    if (!*names)
        return status_fail(STATUS_OOM, "no memory for %d names", hosts->n);
    for (int i = 0; i < hosts->n; i++) {
        if (!node_name_ok(hosts->v[i].name))
            return status_fail(STATUS_USAGE, "--expect: '%s' cannot be the name of a node",
                               hosts->v[i].name);
        (*names)[i] = hosts->v[i].name;
    }
    return STATUS_OK;
}

static enum status put_out(const struct fleet_input *in, const struct fleet *fleet, bool strict,
                           const char *out)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(fleet_write(fleet, strict, out));
    TRY(path_format(path, sizeof path, "%s/%s", out, FLEET_SUMMARY));
    return fleet_input_write(in, path);
}

enum status accept_fleet_judge(const struct accept_fleet_args *a, const struct fleet_input *in,
                               const struct accept_spec *spec, const struct launch_hosts *expected,
                               const char *out, bool strict, int *code)
{
    struct fleet fleet = {0};
    char **names = NULL;
    double warn = a->warn_within < a->within ? a->warn_within : a->within;
    enum status st;
    CHECK(expected_names(expected, &names));
    const struct fleet_config c = {.bounds = {.warn = warn / 100, .fail = a->within / 100},
                                   .spec = spec,
                                   .better = in->better,
                                   .level = in->level ? in->level : ACCEPT_LEVEL_MAX,
                                   .expected = names,
                                   .n_expected = expected->n};
    CHECK(fleet_judge(&in->nodes, &c, &fleet));
    if (out)
        CHECK(put_out(in, &fleet, strict, out));
    fleet_print(&fleet, strict, stdout);
    *code = fleet_exit_code(&fleet, strict);
done:
    fleet_free(&fleet);
    free(names);
    return st;
}

enum status accept_fleet_work(const struct accept_fleet_args *a, const char *spec_name,
                              const char *out, bool strict, int *code)
{
    struct fleet_input in = {{0}};
    struct accept_spec spec = {{0}};
    struct launch_hosts expected = {0};
    bool found = false;
    enum status st = STATUS_OK;
    for (int i = 0; i < a->n; i++)
        CHECK(fleet_input_add(&in, a->path[i]));
    CHECK(find_spec(&in, spec_name, &spec, &found));
    if (a->expect)
        CHECK(launch_hosts_read(&expected, a->expect));
    CHECK(accept_fleet_judge(a, &in, found ? &spec : NULL, &expected, out, strict, code));
done:
    if (found)
        accept_spec_free(&spec);
    launch_hosts_free(&expected);
    fleet_input_free(&in);
    return st;
}
