/* Runs the helper process of --on-save. */
#include "base/clock.h"
#include "base/text_new.h"
#include "runners/on_save.h"
#include "runners/on_save_message.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOCKET = STDIN_FILENO,
    PAUSE_MS = 1000
}; /* the first pause in milliseconds; each later pause is twice as long */

struct server {
    struct process_signals signals;
    pid_t parent; /* rank 0 */
    char *argv[4];
    const char *log;
    int64_t limit_s;
    struct on_save_asked asked; /* all requests since the last success, merged into one */
    bool any;                   /* there was a request since the last success */
};

/* Adds the requests that have arrived. Returns false if rank 0 has closed its socket. */
static bool take_requests(struct server *s)
{
    struct on_save_asked one;
    ssize_t n;
    while ((n = recv(SOCKET, &one, sizeof one, MSG_DONTWAIT)) == sizeof one) {
        s->asked.step = one.step;
        s->asked.checkpoint |= one.checkpoint;
        s->asked.last |= one.last;
        s->any = true;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Waits for `ms` milliseconds or, if `ms` is -1, for a request. Returns false if rank 0 has ended.
 * Ignores signals: a batch system may send them to this process too, but rank 0 handles them, and
 * then requests the last run of the command. */
static bool wait_for_request(struct server *s, int ms)
{
    struct pollfd p[2] = {{.fd = SOCKET, .events = POLLIN},
                          {.fd = s->signals.fd, .events = POLLIN}};
    uint64_t end_ns = clock_ns() + (uint64_t)(ms < 0 ? 0 : ms) * 1000000;
    for (;;) {
        uint64_t now = clock_ns();
        if (ms >= 0 && now >= end_ns)
            return true;
        poll(p, 2, ms < 0 ? -1 : (int)((end_ns - now) / 1000000) + 1);
        process_signals_received(&s->signals);
        if (getppid() != s->parent || !take_requests(s))
            return false;
        if (ms < 0 && s->any)
            return true;
    }
}

/* Runs the command once. */
static enum status run_once(struct server *s, struct process_end *end)
{
    char step[24];
    snprintf(step, sizeof step, "%lld", (long long)s->asked.step);
    if (setenv("AMPSCALE_STEP", step, 1) != 0 ||
        setenv("AMPSCALE_SAVED", s->asked.checkpoint ? "checkpoint" : "record", 1) != 0)
        return status_fail(STATUS_OOM, "no memory for the environment");
    const struct process_config c = {.argv = s->argv,
                                     .log = s->log,
                                     .signals = &s->signals,
                                     .limit_s = s->limit_s,
                                     .grace_s = 5};
    TRY(process_run(&c, end));
    if (end->late && end->code == 0)
        end->code = 128 + SIGTERM;
    return STATUS_OK;
}

static bool report(const struct server *s, const struct process_end *end)
{
    struct on_save_done done = {.step = s->asked.step, .code = end->code, .last = s->asked.last};
    if (end->late)
        snprintf(done.message, sizeof done.message, "stopped after %lld s, --on-save-timeout",
                 (long long)s->limit_s);
    else
        snprintf(done.message, sizeof done.message, "exit code %d%s%.280s", end->code,
                 *end->message ? ": " : "", end->message);
    return send(SOCKET, &done, sizeof done, MSG_NOSIGNAL) == sizeof done;
}

/* Serves the requests that have arrived: runs the command until it succeeds, or until it has failed
 * in all tries. Sets *continues to false if rank 0 has ended. */
static enum status serve_request(struct server *s, bool *continues)
{
    struct process_end end;
    int pause_ms = PAUSE_MS;
    *continues = true;
    for (int i = 0; i < ON_SAVE_TRIES && *continues; i++, pause_ms *= 2) {
        TRY(run_once(s, &end));
        if (end.code == 0 || i + 1 == ON_SAVE_TRIES)
            break;
        *continues = getppid() == s->parent && wait_for_request(s, pause_ms);
    }
    *continues = *continues && report(s, &end) && !s->asked.last;
    s->asked = (struct on_save_asked){0};
    s->any = false;
    return STATUS_OK;
}

/* Makes the shell's command: replaces each "{}" by the run's folder, quoted for the shell. */
static enum status make_command(const char *command, char **out)
{
    struct text_stream t;
    TRY(text_stream_open(&t));
    for (const char *c = command; *c; c++) {
        bool place = c[0] == '{' && c[1] == '}';
        fputs(place ? "\"$AMPSCALE_RUN\"" : (char[]){*c, '\0'}, t.out);
        c += place;
    }
    TRY(text_stream_close(&t));
    *out = t.text;
    return STATUS_OK;
}

enum status on_save_serve(const struct on_save_config *c)
{
    struct server s = {.parent = getppid(), .limit_s = (int64_t)c->limit_s};
    char *log = NULL, *command = NULL;
    bool continues = true;
    enum status st;
    TRY(process_signals_open(&s.signals));
    CHECK(text_new(&log, "%s/on-save.log", c->dir));
    CHECK(make_command(c->command, &command));
    if (setenv("AMPSCALE_RUN", c->dir, 1) != 0)
        CHECK(status_fail(STATUS_OOM, "no memory for the environment"));
    s.log = log;
    s.argv[0] = "/bin/sh";
    s.argv[1] = "-c";
    s.argv[2] = command;
    while (continues && wait_for_request(&s, -1))
        CHECK(serve_request(&s, &continues));
done:
    free(command);
    free(log);
    process_signals_close(&s.signals);
    return st;
}
