/* Runs the test suites of nodes as the ranks of a job, and judges their results. */
#include "accept/fleet_job.h"

#include "accept/accept_result.h"
#include "accept/fleet.h"
#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/launcher.h"
#include "base/process.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/text_new.h"
#include "base/words.h"
#include "comm/world.h"
#include "launch/hosts.h"
#include "results/nodes.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- gathering the results of nodes from files and folders ---
 *
 * A node's report becomes a line in SuperBench's format: "<check>/<metric>" with the median of its
 * repeats, and "<check>/return_code" with 0 for a check that passed, warned or was skipped, 4 for
 * one that failed and 5 for one that is missing. Text metrics are left out. The speeds of a
 * disturbed check count as not measured. "hardware" is the device's description. */

#define FLEET_SUMMARY "results-summary.jsonl"

/* Must be initialised with {0}. */
struct fleet_input {
    struct nodes nodes;
    json_t *better; /* value for fleet_config.better, with the reports' metrics; NULL:
                     * no report */
    json_t *why;    /* {node: why it has no values, "node/check": why the check has
                     * no speeds}, as text; NULL: no report */
    json_t *places; /* {node: path of its report} */
    json_t *hosts;  /* {host: first node on it} */
    char version[ACCEPT_NAME_SIZE]; /* of the program that measured the first node */
    struct words remarks; /* versions of the program that differ; nodes measured on one host */
    int level;            /* highest level of the reports */
    char spec[ACCEPT_NAME_SIZE];      /* name of the reports' spec; "": no report */
    char spec_file[ACCEPT_PATH_SIZE]; /* spec.json of the first report that has it; "": no report
                                       * has it */
};

/* Sets the key "check/metric" to `value`, and takes over the caller's reference to `value`. */
static void set(json_t *object, const char *check, const char *metric, json_t *value)
{
    char key[NODE_METRIC_MAX];
    snprintf(key, sizeof key, "%s/%s", check, metric);
    json_put(object, key, value);
}

static void set_check(const struct fleet_input *in, json_t *node, const struct accept_result *check)
{
    char text[NOISE_TEXT_MAX];
    int code = check->verdict == VERDICT_FAIL      ? status_exit_code(STATUS_MISMATCH)
               : check->verdict == VERDICT_MISSING ? status_exit_code(STATUS_DATA)
                                                   : 0;
    bool disturbed = host_noise_judge(&check->noise, text);
    if (disturbed)
        set(in->why, json_text_at(node, "node"), check->name,
            json_sprintf("check '%s' was disturbed: %s; repeat on an idle node", check->name,
                         text));
    set(node, check->name, "return_code", json_integer(code));
    for (int i = 0; i < check->n_metrics; i++) {
        const struct accept_metric *m = &check->metric[i];
        if (m->text)
            continue;
        set(node, check->name, m->name,
            json_finite(disturbed && accept_is_speed(m) ? NAN : accept_metric_median(m)));
        set(in->better, check->name, m->name, json_integer(m->better));
    }
}

static void open_lists(struct fleet_input *in)
{
    json_t **list[] = {&in->better, &in->why, &in->places, &in->hosts};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!*list[i])
            *list[i] = json_object();
}

/* Remarks on a version of the program that is not the first node's, and on a host of several
 * nodes. */
static enum status add_remarks(struct fleet_input *in, const struct accept_report *r,
                               const char *name)
{
    const char *other = json_text_at(in->hosts, r->node);
    if (!*in->version)
        strcpy(in->version, r->version);
    if (strcmp(in->version, r->version) != 0)
        TRY(words_add(&in->remarks, "'%s' was measured by ampscale %s, other nodes by %s", name,
                      r->version, in->version));
    if (!*other) {
        json_put(in->hosts, r->node, json_utf8(name));
        return STATUS_OK;
    }
    return words_add(&in->remarks,
                     "'%s' and '%s' were measured on hosts named '%s': ranks on one host share its "
                     "hardware; --name names hosts apart",
                     other, name, r->node);
}

/* Adds a report under a node's name; `from` is its place in messages. fleet_input_unfinished adds a
 * node without values; `why` is the reason, or NULL if its test suite has begun and not ended. */
static enum status fleet_input_report(struct fleet_input *in, const struct accept_report *r,
                                      const char *name, const char *from)
{
    if (*in->spec && strcmp(in->spec, r->spec) != 0)
        return status_fail(STATUS_DATA,
                           "'%s' holds results of the spec '%s', but other folders hold results of "
                           "'%s'; judge the nodes of each spec separately",
                           from, r->spec, in->spec);
    snprintf(in->spec, sizeof in->spec, "%s", r->spec);
    if (r->level > in->level)
        in->level = r->level;
    json_t *node = NULL;
    enum status st;
    open_lists(in);
    node = json_new("{s:s, s:s}", "node", name, "hardware", r->device);
    for (int i = 0; i < r->n_checks; i++)
        set_check(in, node, &r->check[i]);
    CHECK(nodes_add(&in->nodes, node));
    json_put(in->places, name, json_utf8(from));
    CHECK(add_remarks(in, r, name));
done:
    json_decref(node);
    return st;
}

static enum status fleet_input_unfinished(struct fleet_input *in, const char *name, const char *why)
{
    json_t *node;
    open_lists(in);
    if (why)
        json_put(in->why, name, text_json(why));
    node = json_new("{s:s}", "node", name);
    enum status st = nodes_add(&in->nodes, node);
    json_decref(node);
    return st;
}

/* Adds a node whose results cannot be read, for the reason of this thread's message. */
static enum status add_unread(struct fleet_input *in, const char *dir, const char *name)
{
    char why[ACCEPT_REASON_SIZE];
    const char *last = strrchr(dir, '/');
    snprintf(why, sizeof why, "its results cannot be read: %s", status_message());
    fprintf(stderr, "ampscale: node '%s' is skipped: %s\n", dir, why);
    return fleet_input_unfinished(in, name ? name : last && last[1] ? last + 1 : dir, why);
}

/* Adds the report in `dir` as the node `name`. If `name` is NULL, uses the host's name instead. */
static enum status add_node(struct fleet_input *in, const char *dir, const char *name)
{
    char spec[ACCEPT_PATH_SIZE];
    struct accept_report r;
    bool exists;
    TRY(path_format(spec, sizeof spec, "%s/spec.json", dir));
    enum status st = accept_report_load(dir, &r);
    if (st == STATUS_DATA || st == STATUS_IO)
        return add_unread(in, dir, name);
    TRY(st);
    const char *other = json_text_at(in->places, name ? name : r.node);
    if (*other)
        st = status_fail(STATUS_DATA,
                         "'%s' and '%s' are both results of a node '%s'; give the folder that "
                         "holds them, to use the folders' names, or measure with --name",
                         other, dir, name ? name : r.node);
    else
        st = status_context(fleet_input_report(in, &r, name ? name : r.node, dir), "'%s'", dir);
    accept_report_free(&r);
    TRY(st);
    TRY(path_look(spec, &exists));
    if (exists && !*in->spec_file)
        memcpy(in->spec_file, spec, sizeof spec);
    return STATUS_OK;
}

/* Adds the nodes that have folders in `dir`; increments *found for each. */
static enum status add_folders(struct fleet_input *in, const char *dir, int *found)
{
    char path[ACCEPT_PATH_SIZE];
    struct words name = {0};
    enum status st;
    CHECK(dir_list(dir, "", &name));
    for (int i = 0; i < name.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, name.v[i]));
        bool has, begun = false;
        enum status looked = dir_look(path, ACCEPT_FILE, &has);
        if (looked == STATUS_OK && !has)
            looked = dir_look(path, "spec.json", &begun);
        if (looked != STATUS_OK)
            CHECK(add_unread(in, path, name.v[i]));
        else if (has)
            CHECK(add_node(in, path, name.v[i]));
        else if (begun)
            CHECK(fleet_input_unfinished(in, name.v[i], NULL));
        else
            continue;
        ++*found;
    }
done:
    words_free(&name);
    return st;
}

/* Adds the results at `path`:
 *   a file            lines in SuperBench's format
 *   a node's folder   its report, under the name of its host
 *   a folder of nodes' folders   each report, under the name of its folder; a node whose suite has
 *                     not ended is added without values
 *   any other folder  the file results-summary.jsonl in it
 * A report that cannot be read is named on stderr, and its node added without values. STATUS_DATA
 * for damaged lines, two nodes of the same name, and reports of different specs. */
static enum status fleet_input_add(struct fleet_input *in, const char *path)
{
    char file[ACCEPT_PATH_SIZE];
    int found = 0;
    bool is_dir, has;
    TRY(path_look_dir(path, &is_dir));
    if (!is_dir)
        return nodes_read(path, &in->nodes);
    TRY(dir_look(path, ACCEPT_FILE, &has));
    if (has)
        return add_node(in, path, NULL);
    TRY(add_folders(in, path, &found));
    if (found > 0)
        return STATUS_OK;
    TRY(path_format(file, sizeof file, "%s/%s", path, FLEET_SUMMARY));
    TRY(path_look(file, &has));
    if (!has)
        return status_fail(STATUS_DATA, "no results of nodes in '%s': it has neither %s nor %s",
                           path, ACCEPT_FILE, FLEET_SUMMARY);
    return nodes_read(file, &in->nodes);
}

static void fleet_input_free(struct fleet_input *in)
{
    nodes_free(&in->nodes);
    json_decref(in->better);
    json_decref(in->why);
    json_decref(in->places);
    words_free(&in->remarks);
    json_decref(in->hosts);
    *in = (struct fleet_input){0};
}

/* Writes all nodes' lines. */
static enum status fleet_input_write(const struct fleet_input *in, const char *path)
{
    json_t *nodes = json_object();
    for (int i = 0; i < in->nodes.n; i++) {
        const struct node_row *row = &in->nodes.node[i];
        json_t *o = json_new("{s:s}", "node", row->name);
        json_put(nodes, row->name, o);
        if (*row->hardware)
            json_put(o, "hardware", json_utf8(row->hardware));
        for (int k = 0; k < row->n; k++)
            json_put(o, row->value[k].metric, json_finite(row->value[k].value));
    }
    enum status st = nodes_write(nodes, path);
    json_decref(nodes);
    return st;
}

/* --- the ranks of a job --- */

enum {
    REPORT_BYTES_MAX = 64 << 20,
    WHY_SIZE = 512,
    GRACE_SECONDS = 30,  /* time in which a signalled test suite must stop its check */
    WAIT_SECONDS = 3600, /* time to wait for other nodes, in addition to twice the planned time */
};

/* This rank, and the result of its test suite. */
struct fleet_rank {
    const struct fleet_options *options;
    const struct accept_spec *spec;
    double wait_s; /* seconds to wait for the other nodes after this rank's test suite has ended */
    struct launcher_place place;
    char name[NODE_NAME_MAX], dir[ACCEPT_PATH_SIZE];
    char *report;       /* as JSON; NULL: there is none */
    char why[WHY_SIZE]; /* why there is no report */
};

/* Writes the name of a node; `local_rank` counts the ranks of its host. */
static void node_name(const char *host, int local_rank, char *out, size_t size)
{
    size_t n = 0;
    for (; *host && n + 16 < size; host++)
        out[n++] = isascii((unsigned char)*host) && (isalnum((unsigned char)*host) || *host == '.')
                       ? *host
                       : '-';
    out[n] = '\0';
    if (!node_name_ok(out))
        snprintf(out, size, "node");
    if (local_rank > 0)
        text_append(out, size, "-%d", local_rank);
}

void fleet_rank_name(const struct rank_info *info, int rank, char *out, size_t size)
{
    int before = 0;
    for (int k = 0; k < rank; k++)
        before += strcmp(info[k].host, info[rank].host) == 0;
    node_name(info[rank].host, before, out, size);
}

/* --- judging --- */

/* Judges the nodes; those of `expected` (may be empty) must be among the results. */
static enum status judge_input(const struct fleet_options *o, const struct fleet_input *in,
                               const struct accept_spec *spec, const struct launch_hosts *expected,
                               int *code)
{
    struct fleet fleet = {0};
    char **names = NULL, path[ACCEPT_PATH_SIZE];
    double warn = o->warn_within < o->within ? o->warn_within : o->within;
    enum status st;
    CHECK(array_new(&names, expected->n));
    for (int i = 0; i < expected->n; i++) {
        names[i] = expected->v[i].name;
        CHECK(node_name_ok(names[i])
                  ? STATUS_OK
                  : status_fail(STATUS_USAGE, "--expect: '%s' cannot be the name of a node",
                                names[i]));
    }
    const struct fleet_config c = {.bounds = {.warn = warn / 100, .fail = o->within / 100},
                                   .spec = spec,
                                   .better = in->better,
                                   .why = in->why,
                                   .remarks = &in->remarks,
                                   .level = in->level ? in->level : ACCEPT_LEVEL_MAX,
                                   .expected = names,
                                   .n_expected = expected->n};
    CHECK(fleet_judge(&in->nodes, &c, &fleet));
    if (o->out) {
        CHECK(fleet_write(&fleet, o->strict, o->out));
        CHECK(path_format(path, sizeof path, "%s/%s", o->out, FLEET_SUMMARY));
        CHECK(fleet_input_write(in, path));
    }
    fleet_print(&fleet, o->strict, stdout);
    *code = verdict_exit_code(fleet.count, o->strict);
done:
    fleet_free(&fleet);
    free(names);
    return st;
}

enum status fleet_judge_paths(const struct fleet_options *o, const char *const *path, int n,
                              const char *spec_name, const char *expect, int *code)
{
    struct fleet_input in = {{0}};
    struct accept_spec spec = {{0}};
    struct launch_hosts expected = {0};
    enum status st = STATUS_OK;
    for (int i = 0; i < n; i++)
        CHECK(fleet_input_add(&in, path[i]));
    if (!spec_name && *in.spec_file)
        spec_name = in.spec_file;
    if (spec_name)
        CHECK(accept_spec_load(spec_name, NULL, 0, &spec));
    else if (*in.spec)
        CHECK(status_fail(
            STATUS_DATA,
            "the folder has results of the spec '%s', but not the spec's file; give --spec",
            in.spec));
    if (expect)
        CHECK(launch_hosts_read(&expected, expect));
    CHECK(judge_input(o, &in, spec_name ? &spec : NULL, &expected, code));
done:
    accept_spec_free(&spec);
    launch_hosts_free(&expected);
    fleet_input_free(&in);
    return st;
}

/* --- the test suite --- */

enum status fleet_leave_job(struct words *kept)
{
    for (char **v = environ; *v; v++)
        if (launcher_makes_rank(*v))
            TRY(words_add(kept, "%s", *v));
    for (int i = 0; i < kept->n; i++) {
        char *name;
        TRY(text_new(&name, "%.*s", (int)strcspn(kept->v[i], "="), kept->v[i]));
        unsetenv(name);
        free(name);
    }
    return STATUS_OK;
}

/* Sets the launcher's environment variables again, and frees `kept`. setenv() copies each variable:
 * the environment does not point into `kept`, and MPI can safely remove a variable. */
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

/* Reads the report of a test suite that has ended. If the suite was interrupted or its command line
 * was wrong, this rank fails with the same status. */
static enum status take_end(const struct process_end *end, struct fleet_rank *n)
{
    char path[ACCEPT_PATH_SIZE];
    size_t size;
    bool exists, judged = end->code == 0 || end->code == status_exit_code(STATUS_MISMATCH) ||
                          end->code == status_exit_code(STATUS_DATA);
    if (stop_requested())
        return status_fail(STATUS_INTERRUPTED,
                           "interrupted by %s; --resume runs the remaining checks",
                           stop_requested());
    if (end->code == status_exit_code(STATUS_USAGE))
        return status_fail(STATUS_USAGE, "%s", end->message); /* "": already reported */
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, n->dir));
    TRY(path_look(path, &exists));
    if (judged && exists)
        return file_read(path, REPORT_BYTES_MAX, &n->report, &size);
    if (end->code > 128)
        return status_fail(STATUS_DATA, "the node's test suite was ended by a signal: %s",
                           strsignal(end->code - 128));
    return status_fail(STATUS_DATA, "the node's test suite ended with exit code %d%s%s", end->code,
                       *end->message ? ": " : "", end->message);
}

/* Runs the test suite. Rank 0's suite logs to rank 0's stderr. The suites of the other ranks log to
 * files in their folders. */
static enum status run_suite(const struct words *command, struct fleet_rank *n)
{
    char log[ACCEPT_PATH_SIZE], out[ACCEPT_PATH_SIZE];
    struct words line = {0}, kept = {0};
    struct process_signals signals = {.fd = -1};
    struct process_end end;
    enum status st;
    CHECK(path_format(log, sizeof log, "%s/battery.log", n->dir));
    CHECK(path_format(out, sizeof out, "%s/battery.txt", n->dir));
    CHECK(words_add_list(&line, command->n, command->v));
    CHECK(words_add_all(&line, "--out", n->dir, NULL));
    CHECK(dir_make(n->dir));
    CHECK(process_signals_open(&signals));
    CHECK(fleet_leave_job(&kept));
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
    enum status back = return_to_job(&kept); /* also after a failure, because the rank still joins
                                              * MPI */
    return st != STATUS_OK ? st : back;
}

/* --- the ranks meet --- */

/* Adds a node from the text that it sent: its report as JSON, or the reason why it has no
 * report. */
static enum status take_report(struct fleet_input *in, const char *text, const char *name)
{
    struct accept_report r;
    json_t *object = NULL;
    enum status st = *text == '{' ? json_parse(text, strlen(text), name, &object)
                                  : status_fail(STATUS_DATA, "%s", text);
    st = st == STATUS_OK ? accept_report_parse(object, &r) : st;
    json_decref(object);
    if (st == STATUS_OK) {
        st = fleet_input_report(in, &r, name, name);
        accept_report_free(&r);
    }
    if (st != STATUS_DATA)
        return st;
    fprintf(stderr, "ampscale: node '%s': %s\n", name, status_message());
    return fleet_input_unfinished(in, name, NULL);
}

/* Gathers all ranks' reports on rank 0. */
static enum status gather(struct world *w, const char *own, struct fleet_input *in)
{
    for (int r = 0; r < w->size; r++) {
        char name[NODE_NAME_MAX], *text;
        fleet_rank_name(w->info, r, name, sizeof name);
        enum status st = world_text(w, r, own, REPORT_BYTES_MAX, &text);
        if (st == STATUS_OK && w->rank == 0)
            st = take_report(in, text, name);
        free(text);
        TRY(st);
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

/* Lists the nodes that the launcher started. The list is empty if the launcher names no nodes. It
 * is also empty if the launcher does not name this node, because launcher and nodes then use
 * different names. */
static void find_expected(const struct fleet_rank *n, struct launch_hosts *nodes)
{
    const char *list = getenv(LAUNCH_HOSTS_VARIABLE);
    struct launch_hosts hosts = {0};
    enum status st = launch_hosts_parse(&hosts, list ? list : "");
    for (int i = 0; i < hosts.n; i++)
        for (int k = 0; k < hosts.v[i].slots && st == STATUS_OK; k++) {
            char name[NODE_NAME_MAX];
            node_name(hosts.v[i].name, k, name, sizeof name);
            st = launch_hosts_parse(nodes, name);
        }
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

/* Reports in one line why the ranks did not all join, and lists the nodes without results. A node
 * is listed if it has a folder, or if the launcher names it. */
static void report_absent(const struct fleet_rank *n, const struct fleet_input *in,
                          const struct launch_hosts *expected, const char *why)
{
    char names[WHY_SIZE] = "";
    int unseen = expected->n == 0 && n->place.size > 0 ? n->place.size - in->nodes.n : 0;
    for (int i = 0; i < in->nodes.n; i++)
        if (in->nodes.node[i].n == 0)
            text_join(names, sizeof names, ", ", "%s", in->nodes.node[i].name);
    for (int i = 0; i < expected->n; i++)
        if (!in_sight(in, expected->v[i].name))
            text_join(names, sizeof names, ", ", "%s", expected->v[i].name);
    fprintf(stderr, "ampscale: %s; %s%s", why,
            *names ? "no results from: " : "all node folders that were found have results", names);
    if (unseen > 0)
        fprintf(stderr, "; %d of %d nodes wrote no folder in '%s'", unseen, n->place.size,
                n->options->out);
    fputc('\n', stderr);
}

/* If the ranks did not all join (status_message() says why), rank 0 judges the folders that it
 * sees. A node without such a folder counts as not measured. */
static enum status judge_apart(const struct fleet_rank *n, int *code)
{
    struct launch_hosts expected = {0};
    struct fleet_input in = {{0}};
    char why[WHY_SIZE];
    enum status st;
    snprintf(why, sizeof why, "%s", status_message());
    if (n->place.rank != 0)
        return status_fail(STATUS_DATA, "%s; the results of node '%s' are in '%s'", why, n->name,
                           n->dir);
    CHECK(fleet_input_add(&in, n->options->out));
    find_expected(n, &expected);
    report_absent(n, &in, &expected, why);
    CHECK(judge_input(n->options, &in, n->spec, &expected, code));
    if (*code == 0)
        *code = status_exit_code(STATUS_DATA);
done:
    launch_hosts_free(&expected);
    fleet_input_free(&in);
    return st;
}

/* Joins MPI; rank 0 judges. The first rank that stops waiting ends the job. Only rank 0 can judge.
 * It waits half as long as the other ranks, so that it judges before another rank ends the job.
 * Returns STATUS_USAGE for a wrong launcher. */
static enum status meet(const struct fleet_rank *n, int *code)
{
    const struct launch_hosts none = {0};
    struct world_config meeting = world_config_default();
    struct world w = {0};
    struct fleet_input in = {{0}};
    meeting.join_s = n->place.rank == 0 ? n->wait_s : 2 * n->wait_s;
    enum status st = world_open(&meeting, &w);
    if (st != STATUS_OK && st != STATUS_USAGE && !w.comm)
        return judge_apart(n, code);
    if (st == STATUS_OK)
        st = gather(&w, n->report ? n->report : n->why, &in);
    if (st == STATUS_OK && w.rank == 0)
        st = judge_input(n->options, &in, n->spec, &none, code);
    fflush(stdout); /* comm_fail may end the process */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    world_close(&w);
    fleet_input_free(&in);
    return st;
}

enum status fleet_run_rank(const struct fleet_options *o, const struct accept_spec *spec,
                           const struct accept_options *options, const struct words *command,
                           int *code)
{
    struct fleet_rank n = {.options = o, .spec = spec};
    char host[HOST_NAME_MAX_LEN] = "";
    TRY(launcher_place_find(&n.place));
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "?");
    node_name(host, n.place.local_rank, n.name, sizeof n.name);
    TRY(path_format(n.dir, sizeof n.dir, "%s/%s", o->out, n.name));
    TRY(accept_plan_seconds(spec, options, &n.wait_s));
    n.wait_s = o->wait_s > 0 ? o->wait_s : WAIT_SECONDS + 2 * n.wait_s;
    enum status st = run_suite(command, &n);
    if (st != STATUS_OK)
        snprintf(n.why, sizeof n.why, "%s", status_message());
    if (st != STATUS_INTERRUPTED && st != STATUS_USAGE)
        st = meet(&n, code);
    free(n.report);
    return st;
}
