/* ampscale study: a matrix of runs, from its plan to its verdicts. */
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "cli/train.h"
#include "launch/hosts.h"
#include "report/report.h"
#include "study/study_collect.h"
#include "study/study_run.h"
#include "study/study_values.h"

#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

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
     "complete "
     "runs, the time; run nothing",
     AS_SWITCH(dry_run)},
    {"only", 0, "REGEX", NULL,
     "Run only the runs whose CELL/rREPEAT matches this extended regular expression",
     AS_TEXT(only)},
    {"hosts", 0, "HOST:N,...", NULL,
     "Hosts that run the study, with the number of GPUs (or ranks) of each (default: this machine, "
     "or the hosts of the batch system)",
     TAKEN_BY(take_study_hosts), SETTING_AT(hosts)},
    {"retry", 0, NULL, NULL, "Try each run up to twice, and repeat runs that failed earlier",
     AS_SWITCH(retry)},
    {"analyse", 0, NULL, NULL, "Run nothing; analyse the runs in the folder", AS_SWITCH(analyse)},
    {"no-report", 0, NULL, NULL, "Write no figures, RESULTS.md or RESULTS.html",
     AS_SWITCH(no_report)},
    QUIET_ROW(quiet),
    {"print", 0, NULL, NULL, "Print the file of a preset and exit", AS_SWITCH(print)},
    {NULL, 0, "FILE", NULL, NULL, AS_TEXT(study)},
    {0},
};

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
    if (st == STATUS_OK)
        st = study_print(&analysis, stdout);
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
    if (st == STATUS_OK)
        st = sum_up(a, &store, &whole);
    if (st == STATUS_OK)
        st = study_count_left(&store, &how, &left);
    study_store_close(&store);
    return st == STATUS_OK ? check_left(a, &left, whole) : st;
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
        st = study_values_check(&plan, a->study, train_check_line);
    if (st == STATUS_OK && only)
        st = study_only_check(&plan, only, a->only);
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
    .work = study};
