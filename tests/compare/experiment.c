/* Measures the error rates of `ampscale compare`: how often it raises a false alarm, finds a
 * slowdown, or is inconclusive.
 *
 *     build/tests/compare/compare_experiment --program build/cli/ampscale --out FILE
 *
 * In each round, runs of the same program train in turns, in a random order (workload.h): a run of
 * the base, an unchanged run, and a run for each slowdown, which `--inject` causes. A trial takes
 * the runs of some rounds. It compares them with the runs of the base by compare's defaults, as a
 * user does after scripts/interleave. A regression between the base and unchanged runs, in either
 * direction, is a false alarm. The verdict on the same runs without pairs is recorded too.
 *
 * "nd" trains new rounds for each trial. All other workloads train a pool of rounds, from which
 * each trial draws without repetition. FILE.partial has the completed trials, and a second call
 * continues after them. FILE is written at the end. It is the record that `ampscale report` shows.
 */
#include "tests/compare/experiment.h"
#include "base/clock.h"
#include "base/lines.h"
#include "compare/compare.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA = 2 };

MUST_CHECK static enum status push(json_t *list, json_t *value)
{
    return json_array_append_new(list, value) == 0
               ? STATUS_OK
               : status_fail(STATUS_OOM, "no memory for the experiment");
}

/* ---- judging ---- */

/* The result of comparing `new` with `base` by the gating metric. */
static enum status judge(const struct experiment *e, const char *dir, int base, int new,
                         enum compare_pairing pairing, struct compare_result *result)
{
    char sides[2][PATH_SIZE], *side[] = {sides[0], sides[1]};
    const char *allowed[] = {"config.inject"};
    struct compare_config config = compare_defaults();
    struct compare_report report;
    bool found = false;
    config.pairing = pairing;
    config.allowed = allowed;
    config.n_allowed = 1;
    TRY(path_format(sides[0], sizeof sides[0], "%s/%s", dir, e->arm[base]));
    TRY(path_format(sides[1], sizeof sides[1], "%s/%s", dir, e->arm[new]));
    TRY(compare_compare(&side[0], 1, &side[1], 1, &config, &report));
    for (int i = 0; i < report.cell[0].n_results; i++)
        if (report.cell[0].result[i].decides) {
            *result = report.cell[0].result[i];
            found = true;
        }
    enum status st = STATUS_OK;
    if (!found || report.n_cells != 1 || report.family != 1)
        st = status_fail(STATUS_DATA, "the runs could not be judged: %s",
                         report.cell[0].missing[0] ? report.cell[0].missing : "they differ");
    compare_report_free(&report);
    return st;
}

/* Adds {"ratio", "low", "high", "p", "verdict", "sides": the verdict without pairs} of an arm. For
 * unchanged runs, a regression of the base relative to them also counts as a regression. */
static enum status judge_arm(const struct experiment *e, const char *dir, int arm, json_t *into)
{
    struct compare_result r[4];
    const char *verdict[2];
    TRY(judge(e, dir, BASE, arm, COMPARE_PAIR_AUTO, &r[0]));
    TRY(judge(e, dir, BASE, arm, COMPARE_PAIR_NEVER, &r[1]));
    TRY(judge(e, dir, arm, BASE, COMPARE_PAIR_AUTO, &r[2]));
    TRY(judge(e, dir, arm, BASE, COMPARE_PAIR_NEVER, &r[3]));
    for (int i = 0; i < 2; i++) {
        bool reverse = arm == UNCHANGED && r[2 + i].verdict == COMPARE_REGRESSION;
        verdict[i] = compare_verdict_str(reverse ? COMPARE_REGRESSION : r[i].verdict);
    }
    return json_put(into, e->arm[arm],
                    json_pack("{s:b, s:o, s:o, s:o, s:o, s:s, s:s}", "paired", r[0].is.paired,
                              "ratio", json_finite(r[0].is.ratio), "low", json_finite(r[0].is.low),
                              "high", json_finite(r[0].is.high), "p", json_finite(r[0].is.p),
                              "verdict", verdict[0], "sides", verdict[1]));
}

/* The throughput of each arm's runs, in the order in which they ran. */
static enum status add_values(const struct experiment *e, const char *dir, json_t *into)
{
    char path[PATH_SIZE];
    enum status st = STATUS_OK;
    for (int arm = 0; st == STATUS_OK && arm < e->n_arms; arm++) {
        struct repeats r = {0};
        json_t *list = json_array();
        CHECK(path_format(path, sizeof path, "%s/%s", dir, e->arm[arm]));
        CHECK(repeats_add(path, &r)); /* sorted by name, which is the order of the rounds */
        for (int64_t i = 0; i < r.n; i++)
            CHECK(push(list, json_finite(r.repeat[i].value[METRIC_IMAGES_PER_S])));
    done:
        repeats_free(&r);
        if (st == STATUS_OK)
            st = json_put(into, e->arm[arm], list);
        else
            json_decref(list);
    }
    return st;
}

/* Takes the description of the machine from the first run of the base, unless it is known. */
static enum status learn_machine(struct experiment *e, const char *dir)
{
    static const char *const parts[] = {"device", "libraries", "host", "version", "commit"};
    char path[PATH_SIZE];
    struct run *run;
    if (json_object_size(e->machine) > 0)
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/%s/r000", dir, e->arm[BASE]));
    TRY(run_load(path, &run));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *part = json_object_get(run->info, parts[i]);
        if (part)
            json_object_set(e->machine, parts[i], part);
    }
    run_free(run);
    return STATUS_OK;
}

/* ---- the record ---- */

/* Adds a line to the record, and appends it to the partial record on disk. The first line describes
 * the experiment. */
static enum status keep(struct experiment *e, json_t *line)
{
    if (json_array_size(e->lines) == 0)
        TRY(journal_write_json(
            &e->journal, json_pack("{s:O, s:O}", "settings", e->settings, "machine", e->machine),
            JSON_COMPACT));
    TRY(push(e->lines, json_incref(line)));
    TRY(journal_write_json(&e->journal, line, JSON_COMPACT | JSON_REAL_PRECISION(9)));
    return journal_flush(&e->journal, true);
}

static enum status take_line(void *context, char *line, size_t size)
{
    struct experiment *e = context;
    json_t *o = json_loadb(line, size, 0, NULL), *settings = json_object_get(o, "settings");
    enum status st = STATUS_OK;
    if (settings && !json_equal(settings, e->settings))
        st = status_fail(STATUS_DATA, "the line belongs to another experiment; remove the file");
    else if (settings)
        json_object_update(e->machine, json_object_get(o, "machine"));
    else if (o)
        st = push(e->lines, json_incref(o));
    json_decref(o);
    return st;
}

/* Returns the number of a workload's lines {"workload", "trial" or "pool", ...} that have the
 * member `key`. */
static int64_t count_lines(const struct experiment *e, const struct workload *w, const char *key)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(e->lines); i++) {
        const json_t *line = json_array_get(e->lines, i);
        n += strcmp(json_text_at(line, "workload"), w->name) == 0 && json_object_get(line, key);
    }
    return n;
}

/* Counts each verdict on an arm: {"REGRESSION": 3, ...}. */
static json_t *verdicts(const json_t *trials, const char *arm, const char *key)
{
    json_t *counts = json_object();
    for (size_t i = 0; i < json_array_size(trials); i++) {
        const char *v = json_text_at(json_object_get(json_array_get(trials, i), arm), key);
        json_object_set_new(counts, v,
                            json_integer(json_integer_value(json_object_get(counts, v)) + 1));
    }
    return counts;
}

static json_t *workload_json(const struct experiment *e, const struct workload *w)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I}", "workload", w->name, "about", w->about,
                          "slice_ms", (json_int_t)w->slice_ms, "steps", (json_int_t)w->steps,
                          "pool_rounds", (json_int_t)w->pool);
    json_t *trials = json_array(), *arms = json_array();
    for (size_t i = 0; i < json_array_size(e->lines); i++) {
        json_t *line = json_array_get(e->lines, i);
        if (strcmp(json_text_at(line, "workload"), w->name) != 0)
            continue;
        if (json_object_get(line, "pool"))
            json_object_set(o, "pool", json_object_get(line, "pool"));
        else
            json_array_append(trials, line);
    }
    for (int arm = UNCHANGED; arm < e->n_arms; arm++)
        json_array_append_new(arms, json_pack("{s:s, s:o, s:o}", "arm", e->arm[arm], "pairs",
                                              verdicts(trials, e->arm[arm], "verdict"), "sides",
                                              verdicts(trials, e->arm[arm], "sides")));
    json_object_set_new(o, "arms", arms);
    json_object_set_new(o, "trials", trials);
    return o;
}

static enum status write_record(const struct experiment *e)
{
    json_t *o = json_deep_copy(e->machine), *list = json_array();
    json_object_set_new(o, "kind", json_string("gate-quality"));
    json_object_set_new(o, "schema", json_integer(SCHEMA));
    json_object_update(o, e->settings);
    for (const struct workload *w = workloads; w->name; w++)
        if (count_lines(e, w, "trial") > 0)
            json_array_append_new(list, workload_json(e, w));
    json_object_set_new(o, "workloads", list);
    return json_write(o, e->out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}

/* ---- trials ---- */

static enum status run_trial(struct experiment *e, const struct workload *w, const char *pool,
                             int64_t trial)
{
    uint64_t begin = clock_ns();
    char dir[PATH_SIZE];
    enum status st;
    json_t *o = json_pack("{s:s, s:I}", "workload", w->name, "trial", (json_int_t)trial);
    json_t *part = w->pool ? json_array() : json_object(); /* drawn rounds, or values of all runs */
    CHECK(path_format(dir, sizeof dir, "%s/trial", e->scratch.path));
    if (w->pool) {
        CHECK(experiment_draw(e, w, pool, dir, trial, part));
    } else {
        CHECK(experiment_train(e, w, dir, trial, e->rounds));
        CHECK(learn_machine(e, dir));
        CHECK(add_values(e, dir, part));
    }
    CHECK(json_put(o, w->pool ? "rounds" : "images_per_s", json_incref(part)));
    for (int arm = UNCHANGED; arm < e->n_arms; arm++)
        CHECK(judge_arm(e, dir, arm, o));
    CHECK(json_put(o, "seconds", json_real((double)(clock_ns() - begin) * 1e-9)));
    CHECK(keep(e, json_incref(o)));
    CHECK(dir_remove(dir));
done:
    json_decref(o);
    json_decref(part);
    return st;
}

/* Runs the trainings from which each trial takes its samples, and adds their throughput to the
 * record as {"base": [images/s, ...], ...}. */
static enum status train_pool(struct experiment *e, const struct workload *w, const char *pool)
{
    json_t *values = json_object();
    enum status st;
    CHECK(experiment_train(e, w, pool, w->pool, w->pool));
    CHECK(learn_machine(e, pool));
    CHECK(add_values(e, pool, values));
    CHECK(keep(e, json_pack("{s:s, s:O}", "workload", w->name, "pool", values)));
done:
    json_decref(values);
    return st;
}

static void print_progress(const struct experiment *e, const struct workload *w)
{
    json_t *o = workload_json(e, w);
    printf("%s, %zu trials:", w->name, json_array_size(json_object_get(o, "trials")));
    const json_t *arms = json_object_get(o, "arms");
    for (size_t i = 0; i < json_array_size(arms); i++) {
        const json_t *arm = json_array_get(arms, i);
        char *counts = json_dumps(json_object_get(arm, "pairs"), 0);
        printf(" %s %s", json_text_at(arm, "arm"), counts ? counts : "");
        free(counts);
    }
    printf("\n");
    fflush(stdout);
    json_decref(o);
}

/* If `one` is true, all processes use the same core, because on a shared machine a core may be slow
 * for a while when other cores are not. This is the last core, because the first core handles the
 * interrupts of devices. */
static enum status choose_cores(const struct experiment *e, bool one)
{
    cpu_set_t set = e->cores;
    int core = CPU_SETSIZE - 1;
    while (one && core > 0 && !CPU_ISSET(core, &set))
        core--;
    if (one) {
        CPU_ZERO(&set);
        CPU_SET(core, &set);
    }
    return sched_setaffinity(0, sizeof set, &set) == 0
               ? STATUS_OK
               : status_fail(STATUS_IO, "cannot choose cores: %s", strerror(errno));
}

static enum status run_workload(struct experiment *e, const struct workload *w)
{
    char pool[PATH_SIZE];
    int64_t done = count_lines(e, w, "trial");
    if (done >= e->trials)
        return STATUS_OK;
    if (w->pool && count_lines(e, w, "pool"))
        return status_fail(STATUS_DATA, "'%s' lacks the last trials of a pool; remove the file",
                           e->partial);
    TRY(choose_cores(e, w->slice_ms > 0));
    TRY(workload_prepare(w, e->program, e->scratch.path));
    TRY(path_format(pool, sizeof pool, "%s/pool", e->scratch.path));
    if (w->pool)
        TRY(train_pool(e, w, pool));
    for (int64_t trial = done; trial < e->trials; trial++) {
        TRY(run_trial(e, w, pool, trial));
        print_progress(e, w);
    }
    return w->pool ? dir_remove(pool) : STATUS_OK;
}

static enum status run_experiment(struct experiment *e)
{
    enum status st;
    if (path_exists(e->partial))
        TRY(lines_each(e->partial, false, take_line, e));
    TRY(journal_open(&e->journal, e->partial));
    for (const struct workload *w = workloads; w->name; w++)
        if (!e->only || strcmp(e->only, w->name) == 0)
            CHECK(run_workload(e, w));
    CHECK(write_record(e));
    remove(e->partial);
done:
    if (e->journal.stream) {
        enum status closed = journal_close(&e->journal);
        st = st == STATUS_OK ? closed : st;
    }
    return st;
}

/* ---- the command line ---- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct experiment *e = state->input;
    switch (key) {
    case 'p':
        e->program = arg;
        break;
    case 'o':
        e->out = arg;
        break;
    case 'w':
        e->only = arg;
        break;
    case 'd':
        e->slowdowns = arg;
        break;
    case 'n':
        e->trials = atoll(arg);
        break;
    case 'r':
        e->rounds = atoll(arg);
        break;
    case 's':
        e->seed = atoll(arg);
        break;
    case ARGP_KEY_END:
        if (!e->program || !e->out || e->trials < 1 || e->rounds < 1 || e->rounds > ROUNDS_MAX)
            argp_usage(state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static enum status name_arms(struct experiment *e)
{
    snprintf(e->arm[BASE], sizeof e->arm[BASE], "base");
    snprintf(e->arm[UNCHANGED], sizeof e->arm[UNCHANGED], "unchanged");
    e->n_arms = SLOWED;
    for (const char *s = e->slowdowns; *s; s += *s == ',') {
        char *end;
        long percent = strtol(s, &end, 10);
        if (end == s || percent < 1 || percent > 50 || (*end && *end != ',') ||
            e->n_arms == ARMS_MAX)
            return status_fail(STATUS_USAGE, "--slowdowns '%s': give percent, such as 2,3,5",
                               e->slowdowns);
        snprintf(e->arm[e->n_arms], sizeof e->arm[0], "%ld %% slower", percent);
        snprintf(e->inject[e->n_arms++], sizeof e->inject[0], "throttle=%ld%%", percent);
        s = end;
    }
    return STATUS_OK;
}

static enum status set_up(struct experiment *e)
{
    struct compare_config gate = compare_defaults();
    TRY(name_arms(e));
    if (sched_getaffinity(0, sizeof e->cores, &e->cores) != 0)
        return status_fail(STATUS_IO, "cannot find the usable cores: %s", strerror(errno));
    TRY(path_format(e->partial, sizeof e->partial, "%s.partial", e->out));
    TRY(temporary_dir_make(&e->scratch, "/tmp", "ampscale-gate"));
    e->lines = json_array();
    e->machine = json_object();
    /* The settings that a resumed record must share. The number of trials is not among them, so
     * that a short experiment can be resumed as a long one. */
    e->settings =
        json_pack("{s:I, s:I, s:s, s:s, s:f, s:f}", "rounds", (json_int_t)e->rounds, "seed",
                  (json_int_t)e->seed, "slowdowns", e->slowdowns, "metric", "images_per_s", "alpha",
                  gate.alpha, "threshold", gate.threshold[METRIC_IMAGES_PER_S]);
    return e->lines && e->machine && e->settings
               ? STATUS_OK
               : status_fail(STATUS_OOM, "out of memory before the experiment began");
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"program", 'p', "FILE", 0, "The ampscale program to run", 0},
        {"out", 'o', "FILE", 0, "The record to write", 0},
        {"workload", 'w', "NAME", 0, "nd, ddp, jpeg or amp (default: all)", 0},
        {"slowdowns", 'd', "LIST", 0, "Percent of the injected slowdowns (default 2,3,5)", 0},
        {"trials", 'n', "N", 0, "Trials of each workload (default 100)", 0},
        {"rounds", 'r', "N", 0, "Runs a side in each trial (default 10)", 0},
        {"seed", 's', "N", 0, "Seed of orders and draws (default 1)", 0},
        {0},
    };
    static const struct argp argp = {.options = options, .parser = parse};
    struct experiment e = {.slowdowns = "2,3,5", .trials = 100, .rounds = 10, .seed = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &e) != 0)
        return status_exit_code(STATUS_USAGE);
    enum status st = set_up(&e);
    if (st == STATUS_OK)
        st = run_experiment(&e);
    enum status removed = temporary_dir_remove(&e.scratch);
    st = st == STATUS_OK ? removed : st;
    json_decref(e.settings);
    json_decref(e.machine);
    json_decref(e.lines);
    if (st == STATUS_OK)
        return 0;
    fprintf(stderr, "compare_experiment: %s\n", status_message());
    return status_exit_code(st);
}
