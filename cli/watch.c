/* ampscale watch: a run or a study in progress, from its records. */
#include "watch/watch.h"
#include "cli/cli.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#define SETTINGS_OF struct watch_follow
static const struct setting watch_settings[] = {
    {"once", 0, NULL, NULL, "Print the present state and exit", AS_SWITCH(once)},
    {"interval", 0, "S", "1", "Seconds between two updates", AS_REAL(interval, 0.05, 3600)},
    {"ascii", 0, NULL, NULL, "Draw with ASCII characters (default: if the locale needs it)",
     AS_SWITCH(ascii)},
    {NULL, 0, "RUN", NULL, NULL, AS_TEXT(dir)},
    {0},
};

static enum status watch(void *config)
{
    struct watch_follow *c = config;
    if (!c->dir)
        return status_fail(STATUS_USAGE, "nothing to watch: give the folder of a run or a study");
    setlocale(LC_CTYPE, "");
    c->ascii = c->ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    return watch_follow(c, stdout);
}

const struct cli_command cmd_watch = {
    .name = "watch",
    .summary = "show a run or a study in progress",
    .arguments = "RUN",
    .doc = "Shows a run in progress, from its records alone: progress and remaining time, images "
           "per second, the parts of a step, loss and accuracy, loss scale, ranks. RUN is the "
           "folder of 'ampscale train --out', or of a study. For a study, the command shows how "
           "many runs are done, and the current run. The command ends with the run, or on "
           "Ctrl-C.\vExit status: 0 at the end of the run and on Ctrl-C, 5 if the folder has no "
           "run or study.",
    .example = {{"Follow a run, from any machine that sees the folder",
                 "ampscale watch runs/first"},
                {"Print the state of a study once", "ampscale watch runs/study --once"}},
    .part = {{watch_settings}},
    .config = &(struct watch_follow){0},
    .work = watch};
