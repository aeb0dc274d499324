/* ampscale compare: whether new runs are as good as those of a base. */
#include "cli/cli.h"
#include "compare/confirm.h"
#include "compare/formats.h"
#include "compare/history.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_THRESHOLD = 256,
    KEY_ALPHA,
    KEY_METRIC,
    KEY_PAIR,
    KEY_HISTORY,
    KEY_LAST,
    KEY_RECORD,
    KEY_CONFIRM,
    KEY_CONFIRM_OUT,
    KEY_ALLOW_DIFFERENT,
    KEY_MARKDOWN,
    KEY_JUNIT,
    KEY_JSON,
    KEY_BENCHMARK_ACTION,
};

enum { ALLOWED_MAX = 64, EXIT_REGRESSION = 3 };

static const struct argp_option options[] = {
    {"threshold", KEY_THRESHOLD, "PERCENT", 0,
     "How much worse than BASE is too much, for all metrics (default 3); NAME=PERCENT for one", 0},
    {"alpha", KEY_ALPHA, "P", 0, "Significance level (default 0.01)", 0},
    {"metric", KEY_METRIC, "NAME", 0,
     "Let this metric decide, in place of images_per_s and, where runs were validated, val_top1; "
     "all: every one; may be given several times",
     0},
    {"pair", KEY_PAIR, "auto|never|always", 0,
     "Judge by pairs of neighbours in time: where the runs of both sides took turns (default "
     "auto), not at all, or nothing but such runs",
     0},
    {"history", KEY_HISTORY, "DIR", 0,
     "In place of BASE: the last accepted runs of the same configuration and hardware in this "
     "history, the new ones left out",
     0},
    {"last", KEY_LAST, "N", 0, "Take so many runs of the history (default 30)", 0},
    {"record", KEY_RECORD, "DIR", 0,
     "Add the new runs to this history, which they may begin: as accepted when they passed, or "
     "when there is nothing to hold them against",
     0},
    {"confirm", KEY_CONFIRM, "COMMAND", 0,
     "Measure again what looks like a regression before calling it one: run this for each repeat, "
     "without a shell, {out} in it being the folder of the run, {name} the configuration and "
     "{side} base or new; without {side} the new side alone",
     0},
    {"confirm-out", KEY_CONFIRM_OUT, "DIR", 0,
     "A new folder for what is measured again (default compare-confirm)", 0},
    {"allow-different", KEY_ALLOW_DIFFERENT, "NAME", 0,
     "Compare although this field of configuration or hardware, or all behind it, differs; may be "
     "given several times",
     0},
    {"markdown", KEY_MARKDOWN, "FILE", 0, "Write the tables for a job's summary", 0},
    {"junit", KEY_JUNIT, "FILE", 0, "Write a test case for each metric", 0},
    {"json", KEY_JSON, "FILE", 0, "Write the comparison as JSON", 0},
    {"benchmark-action", KEY_BENCHMARK_ACTION, "FILE", 0,
     "Write NEW's medians as customBiggerIsBetter", 0},
    {0},
};

struct compare_args {
    char **base, **new; /* in argv */
    int n_base, n_new;
    const char *history, *record; /* NULL: none */
    int64_t last;
    const char *confirm, *confirm_out; /* command, or NULL; folder */
    struct compare_config config;
    double general; /* threshold of metrics that have none of their own */
    bool chosen;    /* what decides was chosen */
    char *allowed[ALLOWED_MAX];
    struct compare_files files;
};

/* "3", or "images_per_s=5". */
static enum status parse_threshold(const char *arg, struct compare_args *a)
{
    char name[32];
    const char *equals = strchr(arg, '=');
    enum metric_id id;
    double percent;
    if (!equals) {
        TRY(cli_double("--threshold", arg, 0, 100, &percent));
        a->general = percent / 100;
        return STATUS_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - arg), arg);
    TRY(metric_find("--threshold", name, &id));
    TRY(cli_double("--threshold", equals + 1, 0, 100, &percent));
    a->config.threshold[id] = percent / 100;
    return STATUS_OK;
}

/* The first one takes the place of what decides by default. */
static enum status parse_metric(const char *name, struct compare_args *a)
{
    bool all = strcmp(name, "all") == 0;
    enum metric_id id = METRIC_IMAGES_PER_S;
    if (!all)
        TRY(metric_find("--metric", name, &id));
    if (!a->chosen)
        memset(a->config.role, 0, sizeof a->config.role);
    a->chosen = true;
    for (int i = 0; i < METRICS && all; i++)
        a->config.role[i] = i == METRIC_IMAGES_PER_S ? COMPARE_DECIDES : COMPARE_OPTION;
    if (!all)
        a->config.role[id] = COMPARE_DECIDES;
    return STATUS_OK;
}

static enum status parse_pairing(const char *arg, struct compare_args *a)
{
    static const char *const names[] = {[COMPARE_PAIR_AUTO] = "auto",
                                        [COMPARE_PAIR_NEVER] = "never",
                                        [COMPARE_PAIR_ALWAYS] = "always"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(arg, names[i]) == 0) {
            a->config.pairing = (enum compare_pairing)i;
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE, "--pair '%s': give auto, never or always", arg);
}

static enum status parse_allowed(char *arg, struct compare_args *a)
{
    if (a->config.n_allowed == ALLOWED_MAX)
        return status_fail(STATUS_USAGE, "--allow-different more than %d times", ALLOWED_MAX);
    a->allowed[a->config.n_allowed++] = arg;
    return STATUS_OK;
}

/* Whether there are new runs alone. */
static bool new_alone(const struct compare_args *a)
{
    return a->history || (a->record && !a->new && a->n_base == 1);
}

/* Without "--" there is one folder on either side, or there are new runs alone. */
static enum status check(struct compare_args *a)
{
    if (new_alone(a)) {
        if (a->new)
            return status_fail(STATUS_USAGE, "--history is the base: give new runs alone");
        a->new = a->base;
        a->n_new = a->n_base;
        return a->n_new > 0 ? STATUS_OK : status_fail(STATUS_USAGE, "no new runs: give NEW...");
    }
    if (!a->new && a->n_base == 2) {
        a->new = a->base + 1;
        a->n_base = a->n_new = 1;
    }
    if (a->n_base == 0 || a->n_new == 0)
        return status_fail(STATUS_USAGE, "nothing to compare: give BASE NEW, or BASE... -- NEW...");
    for (int i = 0; i < a->n_new; i++)
        if (a->new[i][0] == '-')
            return status_fail(STATUS_USAGE, "'%s' behind '--': flags come before it", a->new[i]);
    return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct compare_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_THRESHOLD:
        st = parse_threshold(arg, a);
        break;
    case KEY_ALPHA:
        st = cli_double("--alpha", arg, 1e-12, 0.5, &a->config.alpha);
        break;
    case KEY_METRIC:
        st = parse_metric(arg, a);
        break;
    case KEY_PAIR:
        st = parse_pairing(arg, a);
        break;
    case KEY_HISTORY:
        a->history = arg;
        break;
    case KEY_LAST:
        st = cli_int("--last", arg, COMPARE_LEAST_REPEATS, 1000, &a->last);
        break;
    case KEY_RECORD:
        a->record = arg;
        break;
    case KEY_CONFIRM:
        a->confirm = arg;
        break;
    case KEY_CONFIRM_OUT:
        a->confirm_out = arg;
        break;
    case KEY_ALLOW_DIFFERENT:
        st = parse_allowed(arg, a);
        break;
    case KEY_MARKDOWN:
        a->files.markdown = arg;
        break;
    case KEY_JUNIT:
        a->files.junit = arg;
        break;
    case KEY_JSON:
        a->files.json = arg;
        break;
    case KEY_BENCHMARK_ACTION:
        a->files.benchmark_action = arg;
        break;
    case ARGP_KEY_ARGS:
        a->base = state->argv + state->next;
        a->n_base = state->argc - state->next;
        break;
    case ARGP_KEY_END:
        st = check(a);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* Why a comparison without a regression has not passed, and the way out. */
static enum status not_judged(const struct compare_report *r)
{
    if (r->refused > 0)
        return status_fail(STATUS_DATA,
                           "configuration or hardware differs in %d of %lld cells; compare runs of "
                           "the same, or give --allow-different NAME",
                           r->refused, (long long)r->n_cells);
    return status_fail(STATUS_DATA,
                       "not everything could be judged: %d cells are incomplete, %d metrics have "
                       "not enough repeats; give %" PRId64 " complete runs or more a side",
                       r->incomplete, r->undecided, compare_enough_repeats(r));
}

static enum status hold_against(const struct compare_args *a, struct compare_report *report)
{
    const struct compare_rolling rolling = {.dir = a->history, .most = a->last};
    return a->history ? compare_compare_history(&rolling, a->new, a->n_new, &a->config, report)
                      : compare_compare(a->base, a->n_base, a->new, a->n_new, &a->config, report);
}

/* Nothing where no regression was found, or none is to be confirmed. */
static enum status confirm(const struct compare_args *a, struct compare_report *report)
{
    char line[256];
    const struct compare_confirm c = {.command = a->confirm,
                                      .dir = a->confirm_out,
                                      .base = a->base,
                                      .n_base = a->n_base,
                                      .new = a->new,
                                      .n_new = a->n_new,
                                      .history = a->history,
                                      .last = a->last};
    if (!a->confirm || report->verdicts[COMPARE_REGRESSION] == 0)
        return STATUS_OK;
    TRY(compare_confirm(&c, &a->config, report, stdout));
    compare_conclusion(report, line, sizeof line);
    printf("With what was measured again, %s\n", line);
    return STATUS_OK;
}

static enum status compare(struct compare_args *a, bool *regression)
{
    struct compare_report report;
    for (int i = 0; i < METRICS; i++)
        if (isnan(a->config.threshold[i]))
            a->config.threshold[i] = a->general;
    a->config.allowed = a->allowed;
    TRY(hold_against(a, &report));
    compare_print(&report, stdout);
    enum status st = confirm(a, &report);
    if (st == STATUS_OK)
        st = compare_write(&report, &a->files);
    *regression = report.verdicts[COMPARE_REGRESSION] > 0;
    if (st == STATUS_OK && a->record)
        st = compare_record(a->record, a->new, a->n_new, compare_passed(&report));
    if (st == STATUS_OK && !*regression && !compare_passed(&report))
        st = not_judged(&report);
    compare_report_free(&report);
    return st;
}

/* Whether the new runs are there to be recorded alone: without a base, or to begin the history that
 * is to be the base from then on. */
static bool only_records(const struct compare_args *a)
{
    if (!a->history)
        return a->new == a->base;
    return a->record && strcmp(a->history, a->record) == 0 && !history_exists(a->history);
}

static enum status record(const struct compare_args *a)
{
    TRY(compare_record(a->record, a->new, a->n_new, true));
    if (a->history)
        printf("'%s' held no history: these runs begin it, and were held against nothing\n",
               a->history);
    return STATUS_OK;
}

int cmd_compare(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "BASE NEW\n--record DIR NEW\n--history DIR RUN...\nRUN... -- RUN...",
        .doc =
            "Compares new runs with those of a base: the ratio of each metric, with its "
            "interval, and a rank test; where the runs of both sides took turns, within pairs of "
            "neighbours in time. A regression is significant and larger than the threshold, in "
            "a metric that decides; what does not is shown in brackets. BASE and NEW are folders "
            "of runs, or studies, which are compared "
            "cell by cell; before '--' come the runs of the base, behind it the new ones. Flags "
            "come before '--'. With --history, or --record and "
            "no BASE, all runs are new ones.",
    };
    struct compare_args a = {
        .last = 30, .confirm_out = "compare-confirm", .config = compare_defaults()};
    bool regression = false;
    int exit_code, split = 1;
    a.general = a.config.threshold[0];
    for (int i = 0; i < METRICS; i++)
        a.config.threshold[i] = NAN;
    /* getopt would move '--' in front of all folders. */
    while (split < argc && strcmp(argv[split], "--") != 0)
        split++;
    if (split < argc) {
        a.new = argv + split + 1;
        a.n_new = argc - split - 1;
    }
    if (!cli_parse(&argp, split, argv, &a, &exit_code))
        return exit_code;
    enum status st = only_records(&a) ? record(&a) : compare(&a, &regression);
    if (st != STATUS_OK)
        return cli_fail(st);
    return regression ? EXIT_REGRESSION : 0;
}
