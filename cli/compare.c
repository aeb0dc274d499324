/* ampscale compare: compares new runs with the runs of a base. */
#include "cli/cli.h"

#include "base/json.h"
#include "compare/compare.h"
#include "compare/compare_formats.h"
#include "compare/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALLOWED_MAX = 64, EXIT_REGRESSION = 3 };

struct compare_args {
    char **base, **new; /* (n_base), (n_new) in argv */
    int n_base, n_new;
    const char *history, *record; /* NULL: none */
    int64_t last;
    struct compare_config config;
    double general; /* threshold of metrics that have no threshold of their own */
    bool chosen;    /* --metric was given */
    const char *allowed[ALLOWED_MAX];
    struct compare_files files;
    bool json, regression;
};

/* "3", or "images_per_s=5". */
static enum status take_threshold(const struct setting *setting, const char *arg, void *args)
{
    struct compare_args *a = args;
    char name[32];
    const char *equals = strchr(arg, '=');
    enum metric_id id;
    double percent;
    if (!equals) {
        TRY(setting_real(setting->flag, arg, 0, 100, &percent));
        a->general = percent / 100;
        return STATUS_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - arg), arg);
    TRY(metric_find("--threshold", name, &id));
    TRY(setting_real(setting->flag, equals + 1, 0, 100, &percent));
    a->config.threshold[id] = percent / 100;
    return STATUS_OK;
}

/* Makes a metric gating. The first metric that is given replaces the default gating metrics. */
static enum status take_metric(const struct setting *setting, const char *name, void *args)
{
    struct compare_args *a = args;
    bool all = strcmp(name, "all") == 0;
    enum metric_id id = METRIC_IMAGES_PER_S;
    (void)setting;
    if (!all)
        TRY(metric_find("--metric", name, &id));
    for (int i = 0; i < METRICS && (all || !a->chosen); i++)
        a->config.role[i] = all ? COMPARE_OPTION : COMPARE_INFORMATIONAL;
    a->chosen = true;
    a->config.role[id] = COMPARE_DECIDES;
    return STATUS_OK;
}

#define SETTINGS_OF struct compare_args
static const struct setting compare_settings[] = {
    {"threshold", 0, "PERCENT", NULL,
     "Largest accepted loss against BASE in percent, for all metrics (default 3); NAME=PERCENT "
     "sets it for one metric",
     TAKEN_BY(take_threshold)},
    {"alpha", 0, "P", "0.01", "Significance level", AS_REAL(config.alpha, 1e-12, 0.5)},
    {"metric", 0, "NAME", NULL,
     "Make this metric gating, instead of images_per_s_mean, images_per_s, the metrics that "
     "'ampscale record' found and, if runs were validated, val_top1; all: every metric; may be "
     "given several times",
     TAKEN_BY(take_metric)},
    {"pair", 0, "auto|never|always", "auto",
     "Whether to compare pairs of runs that were neighbours in time; auto: if the runs of both "
     "sides took turns; always: fail if the runs did not take turns",
     AS_CHOICE(config.pairing)},
    {"history", 0, "DIR", NULL,
     "Compare with the last accepted runs of this history that have the same configuration and "
     "hardware, instead of BASE; new runs that the history already has are skipped",
     AS_TEXT(history)},
    {"last", 0, "N", "30", "Number of runs to take from the history",
     AS_INTEGER(last, COMPARE_LEAST_REPEATS, 1000)},
    {"record", 0, "DIR", NULL,
     "Add the new runs to this history, which is made if missing; the new runs count as accepted "
     "if they passed, or if there was nothing to compare them with",
     AS_TEXT(record)},
    {"allow-different", 0, "NAME", NULL,
     "Compare even if this field of configuration or hardware, or a field below it, differs; may "
     "be given several times",
     AS_LIST(allowed, config.n_allowed)},
    {"markdown", 0, "FILE", NULL,
     "Write the verdict and the results that are not equivalent as Markdown, for a comment or the "
     "summary page of a CI job",
     AS_TEXT(files.markdown)},
    {"junit", 0, "FILE", NULL, "Write JUnit XML with a test case for each metric",
     AS_TEXT(files.junit)},
    JSON_ROW(json),
    {"benchmark-action", 0, "FILE", NULL, "Write NEW's medians in the format customBiggerIsBetter",
     AS_TEXT(files.benchmark_action)},
    {NULL, 0, "RUN", NULL, NULL, AS_ARGUMENTS(base, n_base)},
    {0},
};

/* Assigns the folders to the two sides. If the base is a history, or there is no base, all go to
 * the new side. If there are two folders and no "--", one goes to each side. */
static enum status check(struct compare_args *a)
{
    if (a->history || (a->record && !a->new && a->n_base == 1)) {
        if (a->new)
            return status_fail(STATUS_USAGE,
                               "--history takes the place of BASE: give new runs only");
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
            return status_fail(STATUS_USAGE, "'%s' follows '--': flags must come before it",
                               a->new[i]);
    return STATUS_OK;
}

/* Fails. The message names the first inconclusive result and the number of runs that would make it
 * conclusive. */
static enum status inconclusive(const struct compare_report *report,
                                const struct compare_cell *cell, const struct compare_result *r)
{
    bool more = metrics[r->metric].more_is_better;
    double worst = more ? 1 - r->is.low : r->is.high - 1;
    int64_t runs = r->deciding_runs;
    char of[64];
    snprintf(of, sizeof of, "%d of %d metrics %s inconclusive", report->inconclusive,
             report->family, report->inconclusive == 1 ? "is" : "are");
    if (runs == 0)
        return status_fail(STATUS_DATA,
                           "%s: %s of %s is 0 in runs of BASE, so that no ratio to BASE has an "
                           "interval; leave it out by --metric",
                           of, metrics[r->metric].name, cell->name);
    return status_fail(STATUS_DATA,
                       "%s: %s of %s may be up to %.1f %% worse, and the limit is %.3g %%; give "
                       "%s%" PRId64 " runs per side, or use a quieter machine",
                       of, metrics[r->metric].name, cell->name, 100 * worst, 100 * r->threshold,
                       runs < COMPARE_RUNS_MANY ? "about " : "more than ", runs);
}

/* Fails. The message says why a comparison without a regression has not passed, and what to do. */
static enum status not_judged(const struct compare_report *r)
{
    if (*r->lacking)
        return status_fail(
            STATUS_DATA,
            "nothing to compare with: %s; --record with the same folder begins a new "
            "base, --allow-different NAME ignores a field",
            r->lacking);
    if (r->refused > 0)
        return status_fail(STATUS_DATA,
                           "configuration or hardware differs in %d of %lld cell%s; compare runs "
                           "that agree, or give --allow-different NAME",
                           r->refused, (long long)r->n_cells, r->n_cells == 1 ? "" : "s");
    for (int64_t i = 0; i < r->n_cells && r->incomplete == 0 && r->undecided == 0; i++)
        for (int k = 0; k < r->cell[i].n_results; k++) {
            const struct compare_result *result = &r->cell[i].result[k];
            if (result->decides && result->verdict == COMPARE_INCONCLUSIVE)
                return inconclusive(r, &r->cell[i], result);
        }
    return status_fail(STATUS_DATA,
                       "not everything could be judged: %d cell%s incomplete, %d metric%s too few "
                       "repeats; give at least %" PRId64 " complete runs per side",
                       r->incomplete, r->incomplete == 1 ? " is" : "s are", r->undecided,
                       r->undecided == 1 ? " has" : "s have", compare_enough_repeats(r));
}

static enum status work(struct compare_args *a)
{
    struct compare_report report;
    TRY(check(a));
    if (!a->history && a->new == a->base)
        return compare_record(a->record, a->new, a->n_new, true);
    for (int i = 0; i < METRICS; i++)
        if (isnan(a->config.threshold[i]))
            a->config.threshold[i] = a->general;
    a->config.allowed = a->allowed;
    const struct compare_rolling rolling = {.dir = a->history,
                                            .most = a->last,
                                            .begins = a->record && a->history &&
                                                      strcmp(a->record, a->history) == 0};
    TRY(a->history ? compare_compare_history(&rolling, a->new, a->n_new, &a->config, &report)
                   : compare_compare(a->base, a->n_base, a->new, a->n_new, &a->config, &report));
    if (a->json)
        json_print(compare_json(&report), stdout, JSON_RECORD);
    else
        compare_print(&report, stdout);
    enum status st = compare_write(&report, &a->files);
    a->regression = report.verdicts[COMPARE_REGRESSION] > 0;
    if (st == STATUS_OK && a->record)
        st = compare_record(a->record, a->new, a->n_new, compare_passed(&report));
    if (st == STATUS_OK && !a->regression && !compare_passed(&report))
        st = not_judged(&report);
    compare_report_free(&report);
    return st;
}

static int run_compare(const struct cli_command *c, int argc, char **argv)
{
    struct compare_args *a = c->config;
    int exit_code, split = 1;
    a->config = compare_defaults();
    a->general = a->config.threshold[0];
    for (int i = 0; i < METRICS; i++)
        a->config.threshold[i] = NAN;
    /* getopt would move "--" before all folders, so the sides are split before it parses. */
    while (split < argc && strcmp(argv[split], "--") != 0)
        split++;
    if (split < argc) {
        a->new = argv + split + 1;
        a->n_new = argc - split - 1;
    }
    if (!cli_read(c, split, argv, &exit_code))
        return exit_code;
    enum status st = work(a);
    return st == STATUS_OK && a->regression ? EXIT_REGRESSION : cli_end(st);
}

const struct cli_command cmd_compare = {
    .name = "compare",
    .summary = "compare new runs with those of a base",
    .arguments = "BASE NEW\n--record DIR NEW\n--history DIR RUN...\nRUN... -- RUN...",
    .doc = "Compares new runs with those of a base: the ratio of each metric, its confidence "
           "interval, and a rank test; if the runs of both sides took turns, pairs of neighbours "
           "in time are compared. A regression is a change for the worse in a gating metric that "
           "is significant and larger than the threshold; a non-gating metric is shown in "
           "brackets. BASE and NEW are folders of runs, or studies, which are compared cell by "
           "cell; the runs of the base come before '--', the new ones after it. Flags come before "
           "'--'. With --history, or with --record and no BASE, all runs are new ones.\vExit "
           "status: 0 if everything passed, 1 on an error, 2 on wrong usage, 3 for a regression, 5 "
           "if a comparison is inconclusive or could not be judged: it has not passed.",
    .example = {{"Compare runs that scripts/interleave left in gate/base and gate/new",
                 "ampscale compare gate/base gate/new"},
                {"Begin a history with runs of a good version",
                 "ampscale compare --record history gate/base"},
                {"Compare with the history, add the new runs, and write a report for CI",
                 "ampscale compare --history history --record history --junit gate.xml gate/new"}},
    .part = {{compare_settings}},
    .prints = true,
    .config = &(struct compare_args){0},
    .run = run_compare};
