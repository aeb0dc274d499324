/* How good the gate is, measured: how often it raises a false alarm, and how often it finds a
 * slowdown.
 *
 *     build/tests/compare/compare_experiment --program build/cli/ampscale --out FILE [--trials N]
 *
 * A trial is a comparison as a user makes it with scripts/interleave, three times over. In each of
 * its rounds three runs of one and the same program train by turns of some milliseconds on one
 * core, in an order that is drawn anew: one for the base, one that is unchanged, and one that
 * `--inject` slows down. Then compare_compare, with its defaults, holds the unchanged runs against
 * the base, the base against them, and the slowed ones against the base. A regression in either of
 * the first two is a false alarm; one in the third is a slowdown caught. What the same runs would
 * have come to without pairs is noted beside it.
 *
 * Trials that are done stand in FILE.partial; a second call goes on from there. FILE, whole or
 * absent, is the record that `ampscale report` tells of. */
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "compare/compare.h"
#include "compare/repeats.h"
#include "results/journal.h"
#include "results/lines.h"
#include "tests/compare/turns.h"

#include <argp.h>
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA = 1, ROUNDS_MAX = 100, PATH_SIZE = 4096, LINE_PRECISION = 9 };

enum arm { BASE, UNCHANGED, SLOWED, ARMS };

static const char *const arm_names[] = {"base", "unchanged", "slowed"};

struct experiment {
    const char *program, *out;
    const char *inject; /* the value of --inject */
    int64_t trials, rounds, steps, slice /* ms */, seed;
    char scratch[PATH_SIZE]; /* of one trial's runs */
    char partial[PATH_SIZE];
    json_t *settings; /* of which all trials of a record are */
    json_t *done;     /* array: the trials */
    json_t *machine;  /* what run.json says of where the first run took place */
};

/* ---- runs ---- */

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    return remove(path);
}

/* The command that trains for about a third of a second: the smallest network that there is, a
 * core, tensors that come out of nowhere, no validation, no sensors. */
static enum status start(const struct experiment *e, enum arm arm, int64_t round, struct turn *t)
{
    char out[PATH_SIZE + 64], steps[32];
    snprintf(out, sizeof out, "%s/%s/r%03d", e->scratch, arm_names[arm], (int)round);
    snprintf(steps, sizeof steps, "%lld", (long long)e->steps);
    const char *argv[] = {e->program,
                          "train",
                          "--dummy",
                          "--arch=resnet8",
                          "--image-size=32",
                          "--classes=10",
                          "--batch-size=2",
                          "--dummy-train=100000",
                          "--dummy-val=1",
                          "--val-batch-size=1",
                          "--threads=1",
                          "--telemetry=0",
                          "--print-freq=1000000",
                          "--steps",
                          steps,
                          "--out",
                          out,
                          arm == SLOWED ? "--inject" : NULL,
                          e->inject,
                          NULL};
    return turn_begin((char *const *)argv, t);
}

/* The arms of a round, in an order drawn from seed, trial and round. */
static void draw_order(const struct experiment *e, int64_t trial, int64_t round,
                       enum arm order[ARMS])
{
    struct rng rng = rng_at((uint64_t)e->seed, RNG_TEST, (uint64_t)trial, (uint64_t)round);
    for (int i = 0; i < ARMS; i++)
        order[i] = (enum arm)i;
    for (int i = ARMS - 1; i > 0; i--) {
        int k = (int)rng_below(&rng, (uint32_t)i + 1);
        enum arm other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
}

/* Trains once with each arm, by turns in that order. */
static enum status train(const struct experiment *e, const enum arm order[ARMS], int64_t round)
{
    struct turn turn[ARMS];
    int begun = 0;
    enum status st = STATUS_OK;
    for (; st == STATUS_OK && begun < ARMS; begun += st == STATUS_OK)
        st = start(e, order[begun], round, &turn[begun]);
    if (st == STATUS_OK)
        st = turns_take(turn, ARMS, e->slice);
    turns_end(turn, begun);
    return st;
}

/* ---- judging ---- */

/* Whether `new` is a regression against `base`; and, where `into` is not NULL, the numbers. */
static enum status judge(const struct experiment *e, enum arm base, enum arm new,
                         enum compare_pairing pairing, bool *regression, json_t *into)
{
    char sides[2][PATH_SIZE + 64], *dir[] = {sides[0], sides[1]};
    char *allowed[] = {"config.inject"};
    struct compare_config config = compare_defaults();
    struct compare_report report;
    config.pairing = pairing;
    config.allowed = allowed;
    config.n_allowed = 1;
    snprintf(sides[0], sizeof sides[0], "%s/%s", e->scratch, arm_names[base]);
    snprintf(sides[1], sizeof sides[1], "%s/%s", e->scratch, arm_names[new]);
    TRY(compare_compare(&dir[0], 1, &dir[1], 1, &config, &report));
    *regression = report.verdicts[COMPARE_REGRESSION] > 0;
    enum status st = STATUS_OK;
    if (!*regression && !compare_passed(&report))
        st = status_fail(STATUS_DATA, "the runs could not be judged: %s",
                         report.cell[0].missing[0] ? report.cell[0].missing : "they differ");
    for (int i = 0; st == STATUS_OK && into && i < report.cell[0].n_results; i++) {
        const struct compare_result *r = &report.cell[0].result[i];
        if (r->decides)
            json_object_set_new(into, metrics[r->metric].name,
                                json_pack("{s:b, s:o, s:o, s:o, s:o, s:s}", "paired", r->is.paired,
                                          "ratio", metric_json(r->is.ratio), "low",
                                          metric_json(r->is.low), "high", metric_json(r->is.high),
                                          "p", metric_json(r->is.p), "verdict",
                                          compare_verdict_str(r->verdict)));
    }
    compare_report_free(&report);
    return st;
}

/* Whether `new` is a regression against the base, with the numbers of each metric that decides; and
 * whether it were without pairs. With `both`, also when the base is named as the new side. */
static enum status judge_arm(const struct experiment *e, enum arm new, bool both, json_t *into)
{
    static const enum compare_pairing how[] = {COMPARE_PAIR_AUTO, COMPARE_PAIR_NEVER};
    static const char *const names[] = {"regression", "sides_regression"};
    for (int i = 0; i < 2; i++) {
        bool found, reverse = false;
        TRY(judge(e, BASE, new, how[i], &found, i == 0 ? into : NULL));
        if (both)
            TRY(judge(e, new, BASE, how[i], &reverse, NULL));
        json_object_set_new(into, names[i], json_boolean(found || reverse));
    }
    return STATUS_OK;
}

/* A metric of an arm's runs, in the order in which they ran. */
static enum status add_values(const struct experiment *e, enum arm arm, enum metric_id id,
                              json_t *into)
{
    char dir[PATH_SIZE + 64];
    struct repeats r = {0};
    json_t *list = json_array();
    snprintf(dir, sizeof dir, "%s/%s", e->scratch, arm_names[arm]);
    enum status st = repeats_add(dir, &r); /* by name, which is the order */
    for (int64_t i = 0; st == STATUS_OK && i < r.n; i++)
        json_array_append_new(list, metric_json(r.repeat[i].value[id]));
    repeats_free(&r);
    json_object_set_new(into, arm_names[arm], list);
    return st;
}

/* Where the runs take place, told by the first that is asked. */
static enum status learn_machine(struct experiment *e)
{
    static const char *const parts[] = {"device", "libraries", "host", "version", "commit"};
    char dir[PATH_SIZE + 64];
    struct run *run;
    if (json_object_size(e->machine) > 0)
        return STATUS_OK;
    snprintf(dir, sizeof dir, "%s/base/r000", e->scratch);
    TRY(run_load(dir, &run));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *part = json_object_get(run->info, parts[i]);
        if (part)
            json_object_set(e->machine, parts[i], part);
    }
    run_free(run);
    return STATUS_OK;
}

static enum status run_trial(struct experiment *e, int64_t trial, json_t **out)
{
    uint64_t begin = clock_ns();
    enum status st;
    json_t *o = json_object(), *unchanged = json_object(), *slowed = json_object();
    json_t *median = json_object(), *max = json_object();
    for (int64_t round = 0; round < e->rounds; round++) {
        enum arm order[ARMS];
        draw_order(e, trial, round, order);
        CHECK(train(e, order, round));
    }
    CHECK(learn_machine(e));
    CHECK(judge_arm(e, UNCHANGED, true, unchanged));
    CHECK(judge_arm(e, SLOWED, false, slowed));
    for (int arm = 0; arm < ARMS; arm++) {
        CHECK(add_values(e, (enum arm)arm, METRIC_IMAGES_PER_S, median));
        CHECK(add_values(e, (enum arm)arm, METRIC_IMAGES_PER_S_MAX, max));
    }
    json_object_set_new(o, "trial", json_integer(trial));
    json_object_set_new(o, "seconds", json_real((double)(clock_ns() - begin) * 1e-9));
    json_object_set(o, "unchanged", unchanged);
    json_object_set(o, "slowed", slowed);
    json_object_set(o, metrics[METRIC_IMAGES_PER_S].name, median);
    json_object_set(o, metrics[METRIC_IMAGES_PER_S_MAX].name, max);
    *out = json_incref(o);
done:
    json_decref(o);
    json_decref(unchanged);
    json_decref(slowed);
    json_decref(median);
    json_decref(max);
    nftw(e->scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return st;
}

/* ---- the record ---- */

/* The first line of the partial record says what its trials are of; the others are trials. */
static enum status resume(struct experiment *e, bool *begun)
{
    struct lines l;
    char *line;
    size_t size;
    enum status st;
    *begun = false;
    if (!path_exists(e->partial))
        return STATUS_OK;
    TRY(lines_open(&l, e->partial));
    CHECK(lines_next(&l, &line, &size));
    for (bool first = true; line; first = false) {
        json_t *o = json_loadb(line, size, 0, NULL);
        if (first && !json_equal(json_object_get(o, "settings"), e->settings))
            st = status_fail(STATUS_DATA, "'%s' is of another experiment; remove it", e->partial);
        else if (first)
            json_object_update(e->machine, json_object_get(o, "machine"));
        else if (o)
            json_array_append(e->done, o);
        json_decref(o);
        CHECK(st);
        *begun = true;
        CHECK(lines_next(&l, &line, &size));
    }
done:
    lines_close(&l);
    return st;
}

/* Appends an object as a line, which is on disk when this returns. */
static enum status append(struct journal *j, const json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(LINE_PRECISION));
    if (!text)
        return status_fail(STATUS_OOM, "no memory for a trial");
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL */
    enum status st = journal_write(j, text, n + 1);
    free(text);
    TRY(st);
    return journal_flush(j, true);
}

static int64_t count(const struct experiment *e, const char *arm, const char *verdict)
{
    int64_t n = 0;
    size_t i;
    json_t *trial;
    json_array_foreach(e->done, i, trial)
    {
        n += json_is_true(json_object_get(json_object_get(trial, arm), verdict));
    }
    return n;
}

static void tell(const struct experiment *e)
{
    printf("%zu trials: %lld false alarms, %lld slowdowns caught; without pairs %lld and %lld\n",
           json_array_size(e->done), (long long)count(e, "unchanged", "regression"),
           (long long)count(e, "slowed", "regression"),
           (long long)count(e, "unchanged", "sides_regression"),
           (long long)count(e, "slowed", "sides_regression"));
    fflush(stdout);
}

static enum status write_record(const struct experiment *e)
{
    struct atomic_file f;
    json_t *o = json_deep_copy(e->machine);
    json_object_set_new(o, "kind", json_string("gate-quality"));
    json_object_set_new(o, "schema", json_integer(SCHEMA));
    json_object_update(o, e->settings);
    json_object_set_new(o, "false_alarms", json_integer(count(e, "unchanged", "regression")));
    json_object_set_new(o, "caught", json_integer(count(e, "slowed", "regression")));
    json_object_set_new(o, "sides_false_alarms",
                        json_integer(count(e, "unchanged", "sides_regression")));
    json_object_set_new(o, "sides_caught", json_integer(count(e, "slowed", "sides_regression")));
    json_object_set(o, "outcomes", e->done);
    enum status st = atomic_file_open(&f, e->out);
    if (st == STATUS_OK) {
        json_dumpf(o, f.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(LINE_PRECISION));
        fputc('\n', f.stream);
        st = atomic_file_commit(&f);
    }
    json_decref(o);
    return st;
}

static enum status run_experiment(struct experiment *e)
{
    bool begun;
    enum status st;
    struct journal j = {0};
    CHECK(resume(e, &begun));
    CHECK(journal_open(&j, e->partial));
    for (int64_t trial = (int64_t)json_array_size(e->done); trial < e->trials; trial++) {
        json_t *o = NULL;
        CHECK(run_trial(e, trial, &o));
        json_array_append(e->done, o);
        if (!begun) {
            json_t *head = json_pack("{s:O, s:O}", "settings", e->settings, "machine", e->machine);
            st = append(&j, head);
            json_decref(head);
            begun = true;
        }
        if (st == STATUS_OK)
            st = append(&j, o);
        json_decref(o);
        CHECK(st);
        tell(e);
    }
    CHECK(write_record(e));
    remove(e->partial);
done:
    if (j.stream) {
        enum status closed = journal_close(&j);
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
    case 'i':
        e->inject = arg;
        break;
    case 'n':
        e->trials = atoll(arg);
        break;
    case 'r':
        e->rounds = atoll(arg);
        break;
    case 't':
        e->steps = atoll(arg);
        break;
    case 'l':
        e->slice = atoll(arg);
        break;
    case 's':
        e->seed = atoll(arg);
        break;
    case ARGP_KEY_END:
        if (!e->program || !e->out || e->trials < 1 || e->rounds < 1 || e->rounds > ROUNDS_MAX ||
            e->steps < 1 || e->slice < 1)
            argp_usage(state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* One core for all: on a shared machine one core may be slow for a while
 * and its neighbour not. The last, since the first serves the machine's devices. */
static enum status stay_on_one_core(void)
{
    cpu_set_t set;
    int core = CPU_SETSIZE - 1;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return status_fail(STATUS_IO, "cannot tell which cores are usable: %s", strerror(errno));
    while (core > 0 && !CPU_ISSET(core, &set))
        core--;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0
               ? STATUS_OK
               : status_fail(STATUS_IO, "cannot stay on core %d: %s", core, strerror(errno));
}

static enum status set_up(struct experiment *e)
{
    const char *tmp = getenv("TMPDIR");
    struct compare_config gate = compare_defaults();
    TRY(stay_on_one_core());
    TRY(path_format(e->partial, sizeof e->partial, "%s.partial", e->out));
    TRY(path_format(e->scratch, sizeof e->scratch, "%s/ampscale-gate-XXXXXX", tmp ? tmp : "/tmp"));
    if (!mkdtemp(e->scratch))
        return status_fail(STATUS_IO, "cannot make '%s': %s", e->scratch, strerror(errno));
    e->done = json_array();
    e->machine = json_object();
    /* The number of trials is not among them: a short try may go on as a long one. */
    e->settings =
        json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:f, s:f}", "rounds", (json_int_t)e->rounds,
                  "steps", (json_int_t)e->steps, "slice_ms", (json_int_t)e->slice, "seed",
                  (json_int_t)e->seed, "inject", e->inject, "metrics", "images_per_s", "alpha",
                  gate.alpha, "threshold", gate.threshold[METRIC_IMAGES_PER_S]);
    return e->done && e->machine && e->settings ? STATUS_OK
                                                : status_fail(STATUS_OOM, "no memory to begin");
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"program", 'p', "FILE", 0, "The ampscale that runs", 0},
        {"out", 'o', "FILE", 0, "The record to write", 0},
        {"inject", 'i', "FAULT", 0, "What slows runs down (default throttle=5%)", 0},
        {"trials", 'n', "N", 0, "Trials in all (default 200)", 0},
        {"rounds", 'r', "N", 0, "Runs a side in each trial (default 10)", 0},
        {"steps", 't', "N", 0, "Steps of a run (default 280)", 0},
        {"slice", 'l', "MS", 0, "Milliseconds of a turn (default 50)", 0},
        {"seed", 's', "N", 0, "Of the order of runs (default 1)", 0},
        {0},
    };
    static const struct argp argp = {.options = options, .parser = parse};
    struct experiment e = {
        .inject = "throttle=5%", .trials = 200, .rounds = 10, .steps = 280, .slice = 50, .seed = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &e) != 0)
        return status_exit_code(STATUS_USAGE);
    enum status st = set_up(&e);
    if (st == STATUS_OK)
        st = run_experiment(&e);
    json_decref(e.settings);
    json_decref(e.machine);
    json_decref(e.done);
    if (st == STATUS_OK)
        return 0;
    fprintf(stderr, "compare_experiment: %s\n", status_message());
    return status_exit_code(st);
}
