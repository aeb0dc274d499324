/* ampscale study: a matrix of runs, from its plan to its verdicts. */
#include "base/digits.h"
#include "base/file.h"
#include "base/output.h"
#include "base/process.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "cli/train.h"
#include "launch/hosts.h"
#include "report/report.h"
#include "study/study_run.h"

#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *study;
    const char *out;
    const char *only;
    bool dry_run, retry, print, analyse, no_report, quiet;
    struct plot_size pictures;
    struct launch_hosts hosts;
};

static enum status take_study_hosts(const struct setting *s, const char *text, void *arguments)
{
    return launch_hosts_parse(setting_member(s, arguments), text);
}

#define SETTINGS_OF struct arguments
static const struct setting study_settings[] = {
    {"out", 0, "DIR", NULL, "Folder of the study; an unfinished study in it is resumed",
     AS_TEXT(out)},
    {"dry-run", 0, NULL, NULL,
     "Print the command of each run, in order, then the number of runs and cells and, after "
     "complete runs, the time; run nothing",
     AS_SWITCH(dry_run)},
    {"only", 0, "REGEX", NULL,
     "Run only the runs whose CELL/rREPEAT matches this extended regular expression",
     AS_TEXT(only)},
    {"hosts", 0, "HOST:N,...", NULL,
     "Hosts that run the study, with the number of GPUs (or ranks) of each (default: this machine, "
     "or the hosts of the batch system)",
     TAKEN_BY(take_study_hosts), SETTING_AT(hosts)},
    {"retry", 0, NULL, NULL,
     "Try each run up to twice, and repeat runs that failed or were disturbed earlier",
     AS_SWITCH(retry)},
    {"analyse", 0, NULL, NULL, "Run nothing; analyse the runs in the folder", AS_SWITCH(analyse)},
    {"no-report", 0, NULL, NULL, "Write no figures, RESULTS.md or RESULTS.html",
     AS_SWITCH(no_report)},
    QUIET_ROW(quiet),
    {"print", 0, NULL, NULL, "Print the file of a preset and exit", AS_SWITCH(print)},
    {NULL, 0, "FILE", NULL, NULL, AS_TEXT(study)},
    {0},
};

/* ---- checking the values of the file ---- */

struct checking {
    const char *from;
    char bad[PROCESS_MESSAGE_SIZE]; /* the last error that is not printed yet; "": none */
};

/* Checks the words of a command line, and frees them. `place` says where the file has them. */
static enum status check_words(struct checking *c, const char *place, struct words *w,
                               enum status st)
{
    char message[PROCESS_MESSAGE_SIZE];
    st = st == STATUS_OK ? train_check_line(w->n, w->v) : st;
    words_free(w);
    if (st != STATUS_USAGE)
        return st;
    snprintf(message, sizeof message, "'%s': %s: %s", c->from, place, status_message());
    if (*c->bad && strcmp(c->bad, message) != 0)
        text_print(stderr, "ampscale: %s", c->bad);
    memcpy(c->bad, message, sizeof message);
    return STATUS_OK;
}

/* Checks a value of the list `key`, which train takes with `flag`. */
static enum status check_value(struct checking *c, const char *key, const char *flag,
                               const char *value, int64_t image_size)
{
    struct words w = {0};
    enum status st = words_add_all(&w, "ampscale train", "--dummy", flag, value, NULL);
    st = st == STATUS_OK ? words_add_flag(&w, "--image-size", "%" PRId64, image_size) : st;
    return check_words(c, key, &w, st);
}

static enum status check_flags(struct checking *c, const json_t *train)
{
    struct words w = {0};
    enum status st = words_add_all(&w, "ampscale train", "--dummy", NULL);
    for (size_t i = 0; st == STATUS_OK && train && i < json_array_size(train); i++)
        st = words_add(&w, "%s", json_string_value(json_array_get(train, i)));
    return check_words(c, "'train'", &w, st);
}

static enum status check_cell(struct checking *c, const struct study_plan *plan, int64_t cell)
{
    const struct study_run run = {.cell = cell, .repeat = 1};
    char place[ANALYSIS_NAME_SIZE + 16];
    struct words w = {0};
    enum status st = words_add(&w, "ampscale train");
    st = st == STATUS_OK ? study_train_words(plan, &run, "", &w) : st;
    snprintf(place, sizeof place, "cell '%s'", plan->cell[cell].name);
    return check_words(c, place, &w, st);
}

/* Checks each network, each precision and the flags of the spec and, if these are valid, the
 * command of each cell, as train does. STATUS_USAGE for a bad value; the message names its key. If
 * there are several, the others are reported on stderr, a line each. `from` is the file's name in
 * messages. */
static enum status check_values(const struct study_plan *plan, const char *from)
{
    const struct study_spec *s = plan->spec;
    struct checking c = {.from = from};
    for (int i = 0; i < s->archs.n; i++)
        TRY(check_value(&c, "'archs'", "-a", s->archs.v[i], s->image_size));
    for (int i = 0; i < s->precisions.n; i++) {
        const char *p = s->precisions.v[i];
        TRY(check_value(&c, "'precisions'", *p == 'O' ? "--opt-level" : "--precision", p, 224));
    }
    TRY(check_flags(&c, s->train));
    for (int64_t i = 0; !*c.bad && i < plan->n_cells; i++)
        TRY(check_cell(&c, plan, i));
    return *c.bad ? status_fail(STATUS_USAGE, "%s", c.bad) : STATUS_OK;
}

/* ---- results ---- */

/* Writes a number, or a dash if it is not finite. */
static void number(FILE *out, int width, int decimals, double x)
{
    if (isfinite(x))
        fprintf(out, " %*.*f", width, decimals, x);
    else
        fprintf(out, " %*s", width, "-");
}

/* Writes a text of `width` columns, with a minus for the dash of a number that is not known. */
static void column(FILE *out, int width, const char *text)
{
    fprintf(out, " %*s", width, strcmp(text, "\u2013") == 0 ? "-" : text);
}

/* Writes a median with its interval. */
static void measure(FILE *out, int width, const struct analysis_measure *m)
{
    char shown[DIGITS_SIZE];
    digits_interval(shown, m->median, m->low, m->high);
    column(out, width, shown);
}

/* Writes an efficiency with its interval. */
static enum status efficiency(FILE *out, const struct analysis *a, const struct analysis_cell *c,
                              bool wall)
{
    char shown[DIGITS_SIZE];
    struct scaling s;
    TRY(analysis_scaling(a, c, wall, &s));
    digits_interval(shown, s.efficiency, s.efficiency_low, s.efficiency_high);
    column(out, 22, shown);
    return STATUS_OK;
}

static enum status print_cell(const struct analysis *a, const struct analysis_cell *c, int width,
                              FILE *out)
{
    char wall[DIGITS_SIZE], label[ANALYSIS_TEXT_SIZE];
    double step = analysis_step_s(c);
    fprintf(out, "%-*s", width, analysis_name_label(c, label));
    measure(out, 24, &c->images_per_s);
    number(out, 3, 0, (double)c->images_per_s.n);
    digits_amount(wall, c->wall.median);
    column(out, 9, wall);
    number(out, 6, 2, c->speedup);
    TRY(efficiency(out, a, c, false));
    TRY(efficiency(out, a, c, true));
    number(out, 6, 2, c->real ? c->top1 : NAN);
    number(out, 6, 1, 100 * c->split[ANALYSIS_DATA] / step);
    number(out, 6, 1, 100 * c->split[ANALYSIS_COMM] / step);
    fprintf(out, "  %s%s%s\n", analysis_verdict_label(a, c, label), *c->missing ? ": " : "",
            c->missing);
    return STATUS_OK;
}

/* Prints a line for each cell: throughput, speed-up, efficiency, top-1, the shares of input and
 * communication, and the verdict or the reason why the cell has no result. Then prints the
 * bottleneck thresholds. */
static enum status print_table(const struct analysis *a, FILE *out)
{
    int width = 4;
    const char *key;
    json_t *value;
    for (int64_t i = 0; i < a->n_cells; i++) {
        char label[ANALYSIS_TEXT_SIZE];
        width = (int)fmax(width, (double)strlen(analysis_name_label(&a->cell[i], label)));
    }
    fprintf(out, "%-*s %24s %3s %9s %6s %22s %22s %6s %6s %6s\n", width, "cell", "images/s", "n",
            "wall", "speed", "eff%", "wall%", "top1%", "data%", "comm%");
    for (int64_t i = 0; i < a->n_cells; i++)
        TRY(print_cell(a, &a->cell[i], width, out));
    fprintf(out, "in brackets: 95 %% interval; bottleneck thresholds:");
    json_object_foreach(a->thresholds, key, value)
    {
        fprintf(out, " %s %.2f", key, json_number_value(value));
    }
    fprintf(out, "\n");
    return STATUS_OK;
}

/* Writes the command line to `out`, as in "ampscale study quick --out study-quick". Paths are cut
 * to their last part, because their folders do not exist on other machines. */
static enum status say_command(const struct arguments *a, char *out, size_t size)
{
    char study[PATH_MAX], dir[PATH_MAX], *line;
    struct words command = {0};
    enum status st;
    CHECK(path_format(study, sizeof study, "%s", a->study));
    CHECK(path_format(dir, sizeof dir, "%s", a->out));
    char *const word[] = {"ampscale", "study", basename(study), "--out", basename(dir)};
    CHECK(words_add_list(&command, sizeof word / sizeof *word, word));
    CHECK(words_shell(&command, &line));
    snprintf(out, size, "%s", line);
    free(line);
done:
    words_free(&command);
    return st;
}

/* Draws the figures and writes RESULTS.md and RESULTS.html into the study's folder. */
static enum status write_reports(const char *dir, const struct plot_size *pictures)
{
    char markdown[STUDY_PATH_SIZE], html[STUDY_PATH_SIZE];
    TRY(path_format(markdown, sizeof markdown, "%s/RESULTS.md", dir));
    TRY(path_format(html, sizeof html, "%s/RESULTS.html", dir));
    const struct report_config c = {.n = 1,
                                    .dir = &dir,
                                    .markdown = markdown,
                                    .html = html,
                                    .draw = true,
                                    .size = *pictures,
                                    .said = stderr};
    TRY(report_make(&c));
    text_print(stdout, "%s", markdown);
    text_print(stdout, "%s", html);
    return STATUS_OK;
}

/* Analyses the study, writes analysis.json and prints it. Sets *whole to true if no cell is
 * missing, else to false. */
static enum status sum_up(const struct arguments *a, const struct study_store *store, bool *whole)
{
    char command[ANALYSIS_TEXT_SIZE], path[STUDY_PATH_SIZE];
    struct analysis analysis;
    TRY(say_command(a, command, sizeof command));
    TRY(path_format(path, sizeof path, "%s/" ANALYSIS_FILE, a->out));
    TRY(study_collect(store, command, &analysis));
    enum status st = analysis_write(&analysis, path);
    st = st == STATUS_OK ? print_table(&analysis, stdout) : st;
    *whole = true;
    for (int64_t i = 0; i < analysis.n_cells; i++)
        *whole = *whole && !*analysis.cell[i].missing;
    analysis_free(&analysis);
    return st == STATUS_OK && !a->no_report ? write_reports(a->out, &a->pictures) : st;
}

/* Fails if one of the selected runs (--only; default: all runs) has failed or is missing. Otherwise
 * prints the number of missing runs that were not selected. If no run is missing, fails if a cell
 * is incomplete. */
static enum status check_left(const struct arguments *a, const struct study_left *left, bool whole)
{
    if (left->failed > 0)
        return status_fail(STATUS_DATA,
                           "%" PRId64 " %s of '%s' failed; the same command with --retry runs %s "
                           "again",
                           left->failed, left->failed == 1 ? "run" : "runs", a->out,
                           left->failed == 1 ? "it" : "them");
    if (left->pending > 0)
        return status_fail(STATUS_DATA,
                           "'%s' lacks %" PRId64 " %s; the same command without --analyse runs %s",
                           a->out, left->pending, left->pending == 1 ? "run" : "runs",
                           left->pending == 1 ? "it" : "them");
    if (left->others > 0)
        printf("%" PRId64 " %s that --only does not match %s missing; the same command without "
               "--only runs %s.\n",
               left->others, left->others == 1 ? "run" : "runs", left->others == 1 ? "is" : "are",
               left->others == 1 ? "it" : "them");
    else if (!whole)
        return status_fail(
            STATUS_DATA, "cells of '%s' have runs that cannot be used; the table says why", a->out);
    return STATUS_OK;
}

static enum status work(const struct arguments *a, const struct study_plan *plan,
                        const regex_t *only)
{
    char program[PATH_MAX];
    struct study_store store;
    struct study_left left;
    bool whole = false;
    TRY(process_own_file(program, sizeof program));
    struct study_options how = {
        .program = program, .only = only, .retry = a->retry, .progress = a->quiet ? NULL : stderr};
    TRY(study_store_open(plan, a->out, &store));
    enum status st = a->analyse ? STATUS_OK : study_run_missing(&store, &how);
    st = st == STATUS_OK ? sum_up(a, &store, &whole) : st;
    st = st == STATUS_OK ? study_count_left(&store, &how, &left) : st;
    study_store_close(&store);
    return st == STATUS_OK ? check_left(a, &left, whole) : st;
}

/* STATUS_USAGE if --only matches no run. */
static enum status check_only(const struct study_plan *plan, const regex_t *only, const char *text)
{
    for (int64_t i = 0; i < plan->n_runs; i++)
        if (study_run_matches(plan, &plan->run[i], only))
            return STATUS_OK;
    return status_fail(STATUS_USAGE, "--only '%s' matches no run; a run's name is like '%s/r1'",
                       text, plan->cell[0].name);
}

static enum status dry_run(const struct arguments *a, const struct study_plan *plan,
                           const regex_t *only)
{
    const struct study_store store = {
        .plan = plan, .dir = a->out ? a->out : plan->spec->name, .lock = -1};
    const struct study_options how = {.only = only, .retry = a->retry};
    return study_dry_run(&store, &how, stdout);
}

static enum status run(const struct arguments *a, const struct study_spec *spec)
{
    struct study_plan plan;
    regex_t pattern, *only = a->only ? &pattern : NULL;
    if (only && regcomp(only, a->only, REG_EXTENDED | REG_NOSUB) != 0)
        return status_fail(STATUS_USAGE, "--only '%s' is not a regular expression", a->only);
    enum status st = study_plan_make(spec, &plan);
    plan.hosts = &a->hosts;
    if (st == STATUS_OK && a->hosts.n > 0 && spec->launcher)
        st = status_fail(STATUS_USAGE,
                         "--hosts has no effect: the study starts ranks by its own 'launcher'");
    if (st == STATUS_OK && !a->analyse)
        st = check_values(&plan, a->study);
    if (st == STATUS_OK && only)
        st = check_only(&plan, only, a->only);
    if (st == STATUS_OK)
        st = a->dry_run ? dry_run(a, &plan, only) : work(a, &plan, only);
    study_plan_free(&plan);
    if (only)
        regfree(only);
    return st;
}

static enum status study_of_arguments(const struct arguments *a)
{
    struct study_spec spec;
    if (!a->study)
        return status_fail(STATUS_USAGE, "no study: give a file, or a preset: quick or hal");
    if (a->print)
        return preset_print(study_presets, a->study, stdout);
    TRY(plot_size_check(&a->pictures));
    TRY(study_spec_load(a->study, &spec));
    enum status st = a->out || a->dry_run
                         ? run(a, &spec)
                         : status_fail(STATUS_USAGE, "no folder for the runs: give --out DIR");
    study_spec_free(&spec);
    return st;
}

static enum status study(void *args)
{
    struct arguments *a = args;
    if (a->print || a->dry_run)
        output_begin(OUTPUT_ENDS); /* results, not progress */
    enum status st = study_of_arguments(a);
    launch_hosts_free(&a->hosts);
    return st;
}

const struct cli_command cmd_study = {
    .name = "study",
    .summary = "run a matrix of trainings, and report how they scale",
    .arguments = "FILE\nquick|hal",
    .doc = "Runs a matrix of trainings, and reports how they scale and what limits each. FILE is a "
           "study as JSON; the presets quick (two CPU cores, minutes) and hal (ResNet-50 on 1 to "
           "64 GPUs) are built in. Complete runs in DIR are not repeated.\vExit status: 5 if data, "
           "hosts or devices "
           "are missing before the first run, or if results of some cells are missing afterwards.",
    .example = {{"Print the runs of the built-in study for two CPU cores",
                 "ampscale study quick --dry-run"},
                {"Run it, or continue it; leave the machine alone while it runs",
                 "ampscale study quick --out runs/study"},
                {"Begin a study of your own with the file of a built-in one",
                 "ampscale study quick --print >my.json"}},
    .part = {{study_settings}, {picture_settings, offsetof(struct arguments, pictures)}},
    .config = &(struct arguments){0},
    .output = OUTPUT_DROPS,
    .work = study};
