/* Redraws a view until the run ends or a signal asks to stop. */
#include "watch/follow.h"

#include "base/text_new.h"
#include "watch/screen.h"
#include "watch/watch.h"

#include <stdlib.h>
#include <string.h>

/* Number of failed polls after which the view gives up. A file that is being moved can be read
 * again soon, a damaged file cannot. */
enum { FAILURES_MAX = 3 };

static enum status show(struct screen *s, const struct watch *w, bool ascii, char **before)
{
    struct watch_options o = {.ascii = ascii};
    struct text_stream text;
    screen_size(s, &o.width, &o.height);
    TRY(text_stream_open(&text));
    enum status st = watch_view(w, &o, text.out);
    enum status closed = text_stream_close(&text);
    /* Without a terminal, a view is written only if it differs from the last view. */
    if (st == STATUS_OK && closed == STATUS_OK &&
        (s->terminal || !*before || strcmp(text.text, *before) != 0))
        screen_show(s, text.text);
    free(*before);
    *before = text.text;
    return st == STATUS_OK ? closed : st;
}

static enum status follow(const struct watch_follow *c, struct watch *w, struct screen *s,
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

enum status watch_follow(const struct watch_follow *c, FILE *out)
{
    enum status st;
    struct watch *w = NULL;
    struct screen screen = {.signals = -1};
    char *last = NULL;
    CHECK(watch_open(c->dir, &w));
    if (c->once) {
        struct watch_options o = {.width = 80, .ascii = c->ascii};
        CHECK(watch_view(w, &o, out));
        goto done;
    }
    CHECK(screen_open(out, &screen));
    CHECK(follow(c, w, &screen, &last));
done:
    screen_close(&screen);
    /* The last view stays on the terminal. */
    if (screen.terminal && st == STATUS_OK && last)
        fputs(last, out);
    free(last);
    watch_close(w);
    return st;
}
