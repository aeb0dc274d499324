/* ampscale report: RESULTS.md and an HTML page from records. */
#include "report/report.h"
#include "cli/cli.h"
#include "cli/picture.h"

#include <stdio.h>

enum { DIRS_MAX = 64 };

struct arguments {
    struct report_config config;
    const char *dir[DIRS_MAX];
    bool no_figures;
};

#define SETTINGS_OF struct arguments
static const struct setting report_settings[] = {
    {"out", 'o', "FILE", NULL, "Markdown file to write, such as RESULTS.md",
     AS_TEXT(config.markdown)},
    {"html", 0, "FILE", NULL, "HTML page to write, which contains the figures",
     AS_TEXT(config.html)},
    {"no-figures", 0, NULL, NULL, "Draw no figures; show existing ones", AS_SWITCH(no_figures)},
    {NULL, 0, "DIR", NULL, NULL, AS_LIST(dir, config.n)},
    {0},
};

static enum status report(void *arguments)
{
    struct arguments *a = arguments;
    if (!a->config.markdown && !a->config.html)
        return status_fail(STATUS_USAGE, "nothing to write: give -o FILE, --html FILE or both");
    TRY(plot_size_check(&a->config.size));
    if (a->config.n == 0)
        a->dir[a->config.n++] = "results/recorded";
    a->config.dir = a->dir;
    a->config.said = stderr;
    a->config.draw = !a->no_figures;
    a->config.output = true;
    return report_make(&a->config);
}

const struct cli_command cmd_report = {
    .name = "report",
    .summary = "write tables, figures and findings from records",
    .arguments = "[DIR...]",
    .doc =
        "Writes a summary of records: machines, tables, figures, findings, and the commands that "
        "reproduce them. DIR holds studies, runs or records of bench (default results/recorded); "
        "all records in one folder are of one machine. The same records give the same bytes.",
    .example = {{"One HTML page about two runs, with figures",
                 "ampscale report runs/first runs/second --html runs.html"},
                {"A study as Markdown, with the figures that it has drawn",
                 "ampscale report runs/study -o study.md --no-figures"}},
    .part = {{report_settings}, {picture_settings, offsetof(struct arguments, config.size)}},
    .config = &(struct arguments){.no_figures = false},
    .work = report};
