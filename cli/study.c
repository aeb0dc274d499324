/* ampscale study: a matrix of runs, from its plan to its verdicts. */
#include "base/file.h"
#include "base/process.h"
#include "cli/cli.h"
#include "report/report.h"
#include "study/collect.h"
#include "study/run.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KEY_OUT = 256, KEY_DRY_RUN, KEY_ONLY, KEY_RETRY, KEY_PRINT, KEY_ANALYSE, KEY_NO_REPORT };

static const struct argp_option options[] = {
    {"out", KEY_OUT, "DIR", 0, "Folder of the study; resumes one that was begun", 0},
    {"dry-run", KEY_DRY_RUN, 0, 0, "Print the command of each run, in its order, instead", 0},
    {"only", KEY_ONLY, "REGEX", 0,
     "Run only what this extended regular expression matches in CELL/rREPEAT", 0},
    {"retry", KEY_RETRY, 0, 0,
     "Try a run that fails a second time, and what failed earlier once more", 0},
    {"analyse", KEY_ANALYSE, 0, 0, "Run nothing; sum up what the folder holds", 0},
    {"no-report", KEY_NO_REPORT, 0, 0, "Leave out the figures, RESULTS.md and RESULTS.html", 0},
    {"print", KEY_PRINT, 0, 0, "Print the file of a preset and end", 0},
    {0},
};

struct arguments {
    const char *study;
    const char *out;
    const char *only;
    bool dry_run, retry, print, analyse, no_report;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_OUT:
        a->out = arg;
        break;
    case KEY_ONLY:
        a->only = arg;
        break;
    case KEY_DRY_RUN:
        a->dry_run = true;
        break;
    case KEY_RETRY:
        a->retry = true;
        break;
    case KEY_PRINT:
        a->print = true;
        break;
    case KEY_ANALYSE:
        a->analyse = true;
        break;
    case KEY_NO_REPORT:
        a->no_report = true;
        break;
    case ARGP_KEY_ARG:
        if (a->study)
            return ARGP_ERR_UNKNOWN;
        a->study = arg;
        break;
    case ARGP_KEY_END:
        if (!a->study)
            st = status_fail(STATUS_USAGE, "no study: give a file or a preset, quick or hal");
        else if (!a->out && !a->dry_run && !a->print)
            st = status_fail(STATUS_USAGE, "nowhere to keep the runs: give --out DIR");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* "ampscale study quick --out study-quick": the names without the folders that they are in, which
 * are another reader's business. */
static enum status say_command(const struct arguments *a, char *out, size_t size)
{
    char study[PATH_MAX], dir[PATH_MAX];
    TRY(path_format(study, sizeof study, "%s", a->study));
    TRY(path_format(dir, sizeof dir, "%s", a->out));
    return path_format(out, size, "ampscale study %s --out %s", basename(study), basename(dir));
}

/* Figures, and what people read, beside the analysis. */
static enum status tell(const char *dir)
{
    char markdown[STUDY_PATH_SIZE], html[STUDY_PATH_SIZE];
    TRY(path_format(markdown, sizeof markdown, "%s/RESULTS.md", dir));
    TRY(path_format(html, sizeof html, "%s/RESULTS.html", dir));
    const struct report_config c = {
        .n = 1, .dir = &dir, .markdown = markdown, .html = html, .draw = true, .said = stderr};
    TRY(report_make(&c));
    printf("%s\n%s\n", markdown, html);
    return STATUS_OK;
}

/* Sums up, writes analysis.json and prints it. *whole: no cell is missing. */
static enum status sum_up(const struct arguments *a, const struct study_store *store, bool *whole)
{
    char command[ANALYSIS_TEXT_SIZE], path[STUDY_PATH_SIZE];
    struct analysis analysis;
    TRY(say_command(a, command, sizeof command));
    TRY(path_format(path, sizeof path, "%s/" ANALYSIS_FILE, a->out));
    TRY(study_collect(store, command, &analysis));
    enum status st = analysis_write(&analysis, path);
    if (st == STATUS_OK)
        study_print(&analysis, stdout);
    *whole = true;
    for (int64_t i = 0; i < analysis.n_cells; i++)
        *whole = *whole && !*analysis.cell[i].missing;
    analysis_free(&analysis);
    return st == STATUS_OK && !a->no_report ? tell(a->out) : st;
}

static enum status work(const struct arguments *a, const struct study_plan *plan,
                        const regex_t *only)
{
    char program[PATH_MAX];
    struct study_store store;
    bool whole = false;
    TRY(process_own_file(program, sizeof program));
    struct study_options how = {
        .program = program, .only = only, .retry = a->retry, .progress = stderr};
    TRY(study_store_open(plan, a->out, &store));
    enum status st = a->analyse ? STATUS_OK : study_run_missing(&store, &how);
    if (st == STATUS_OK)
        st = sum_up(a, &store, &whole);
    study_store_close(&store);
    if (st == STATUS_OK && !whole)
        st = status_fail(STATUS_DATA, "'%s' lacks cells; the same command runs what is missing",
                         a->out);
    return st;
}

static enum status run(const struct arguments *a, const struct study_spec *spec)
{
    struct study_plan plan;
    regex_t only;
    if (a->only && regcomp(&only, a->only, REG_EXTENDED | REG_NOSUB) != 0)
        return status_fail(STATUS_USAGE, "--only '%s' is no regular expression", a->only);
    enum status st = study_plan_make(spec, &plan);
    if (st == STATUS_OK && a->dry_run)
        st = study_plan_print(&plan, a->out ? a->out : spec->name, stdout);
    else if (st == STATUS_OK)
        st = work(a, &plan, a->only ? &only : NULL);
    study_plan_free(&plan);
    if (a->only)
        regfree(&only);
    return st;
}

/* As it was written, to be changed and kept. */
static int print_preset(const char *name)
{
    const char *text = study_preset(name);
    if (!text)
        return cli_fail(status_fail(STATUS_USAGE, "--print: '%s' is no preset", name));
    fputs(text, stdout);
    return 0;
}

int cmd_study(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "FILE\nquick|hal",
        .doc = "Runs a matrix of trainings and says how they scale and what holds each back. FILE "
               "is a study as JSON; quick (two CPU cores, minutes) and hal (ResNet-50 on 1 to 64 "
               "GPUs) come with the program. What is complete in DIR is not run again."};
    struct arguments a = {0};
    struct study_spec spec;
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    if (a.print)
        return print_preset(a.study);
    enum status st = study_spec_load(a.study, &spec);
    if (st == STATUS_OK) {
        st = run(&a, &spec);
        study_spec_free(&spec);
    }
    return st == STATUS_OK ? 0 : cli_fail(st);
}
