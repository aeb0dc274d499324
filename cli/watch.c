/* ampscale watch: a run or a study while it goes on, from its records. */
#include "watch/watch.h"

#include "cli/cli.h"
#include "watch/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_ONCE = 256, KEY_INTERVAL, KEY_ASCII };

/* A file that is being moved can be read a moment later; one that is damaged never can. */
enum { FAILURES_MAX = 3 };

static const struct argp_option options[] = {
    {"once", KEY_ONCE, 0, 0, "Print how it stands now, and end", 0},
    {"interval", KEY_INTERVAL, "S", 0, "Seconds between two looks (default 1)", 0},
    {"ascii", KEY_ASCII, 0, 0, "Draw with ASCII characters (default: as the locale says)", 0},
    {0},
};

struct watch_config {
    const char *dir;
    bool once, ascii;
    double interval;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct watch_config *c = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_ONCE:
        c->once = true;
        break;
    case KEY_ASCII:
        c->ascii = true;
        break;
    case KEY_INTERVAL:
        st = cli_double("--interval", arg, 0.05, 3600, &c->interval);
        break;
    case ARGP_KEY_ARG:
        if (c->dir)
            return ARGP_ERR_UNKNOWN;
        c->dir = arg;
        break;
    case ARGP_KEY_END:
        if (!c->dir)
            st = status_fail(STATUS_USAGE, "nothing to watch: give the folder of a run or a study");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* The view as text, which the caller frees. */
static enum status view(const struct watch *w, const struct watch_options *o, char **text)
{
    size_t size;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (!out)
        return status_fail(STATUS_OOM, "no memory to show anything");
    enum status st = watch_view(w, o, out);
    fclose(out);
    return st;
}

static enum status show(struct screen *s, const struct watch *w, bool ascii, char **before)
{
    struct watch_options o = {.ascii = ascii};
    char *text;
    screen_size(s, &o.width, &o.height);
    enum status st = view(w, &o, &text);
    /* On paper, what has not changed need not be said again. */
    if (st == STATUS_OK && (s->terminal || !*before || strcmp(text, *before) != 0))
        screen_show(s, text);
    free(*before);
    *before = text;
    return st;
}

static enum status follow(const struct watch_config *c, struct watch *w, struct screen *s,
                          char **before)
{
    bool over = false, ended = false;
    int failures = 0;
    for (;;) {
        enum status st = watch_poll(w, &over);
        failures = st == STATUS_OK ? 0 : failures + 1;
        if (failures == FAILURES_MAX)
            return st;
        if (st == STATUS_OK)
            TRY(show(s, w, c->ascii, before));
        if (st == STATUS_OK && over)
            return STATUS_OK;
        TRY(screen_wait(s, c->interval, &ended));
        if (ended)
            return STATUS_OK;
    }
}

static enum status watch(const struct watch_config *c)
{
    enum status st;
    struct watch *w = NULL;
    struct screen screen = {.signals = -1};
    char *last = NULL;
    CHECK(watch_open(c->dir, &w));
    if (c->once) {
        struct watch_options o = {.width = 80, .ascii = c->ascii};
        CHECK(watch_view(w, &o, stdout));
        goto done;
    }
    CHECK(screen_open(stdout, &screen));
    CHECK(follow(c, w, &screen, &last));
done:
    screen_close(&screen);
    /* What was seen last stays to be read. */
    if (screen.terminal && st == STATUS_OK && last)
        fputs(last, stdout);
    free(last);
    watch_close(w);
    return st;
}

int cmd_watch(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "RUN",
        .doc = "Shows a run in progress, from its records alone: progress and time left, "
               "images per second, the parts of a step, loss and accuracy, loss scale, ranks. RUN "
               "is the folder of 'ampscale train --out', or that of a study, of which it shows how "
               "many runs are done and the current one. It ends with the run, or by Ctrl-C.",
    };
    struct watch_config c = {.interval = 1};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    setlocale(LC_CTYPE, "");
    c.ascii = c.ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    enum status st = watch(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
