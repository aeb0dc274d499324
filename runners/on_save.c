/* Starts the helper of --on-save for rank 0, sends it requests, and serves them in the helper. They
 * exchange messages over a socket, one per packet. */
#include "runners/on_save.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "base/text_new.h"
#include "comm/control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ON_SAVE_TRIES = 4 };

/* A request to the helper. */
struct on_save_asked {
    int64_t step;
    int32_t checkpoint; /* a checkpoint was written since the previous message */
    int32_t last;       /* no further message follows */
};

/* The helper's report on a save: the command has succeeded, or it has failed in every try. */
struct on_save_done {
    int64_t step;
    int32_t code; /* exit code of the last try; 0: success */
    int32_t last; /* the helper ends after this report */
    char message[PROCESS_MESSAGE_SIZE];
};

/* After a save of records without a checkpoint, a request is sent only if the last request was at
 * least this many nanoseconds ago. */
#define RECORDS_NS UINT64_C(10000000000)

struct on_save {
    struct process helper;
    int fd;            /* socket to the helper; -1: the helper has ended */
    uint64_t asked_ns; /* time of the last request; 0: none */
    int64_t failures;
    char message[PROCESS_MESSAGE_SIZE]; /* message of the last failure */
};

/* Starts `ampscale train --on-save-helper`, with the socket `talk` as its standard input. */
static enum status start_helper(struct on_save *o, const struct on_save_config *c, int talk)
{
    char program[PATH_MAX], limit[32];
    TRY(process_own_file(program, sizeof program));
    snprintf(limit, sizeof limit, "%.17g", c->limit_s);
    char *argv[] = {program,
                    "train",
                    "--on-save-helper",
                    (char *)c->dir,
                    "--on-save",
                    (char *)c->command,
                    "--on-save-timeout",
                    limit,
                    NULL};
    return process_start(&(struct process_config){.argv = argv, .talk = talk, .grace_s = 1},
                         &o->helper);
}

enum status on_save_open(const struct on_save_config *c, struct on_save **out)
{
    struct on_save *o;
    enum status st;
    int pair[2];
    *out = NULL;
    TRY(array_new(&o, 1));
    *o = (struct on_save){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(o);
        return status_fail(STATUS_IO, "--on-save: cannot make a socket: %s", strerror(errno));
    }
    st = start_helper(o, c, pair[1]);
    close(pair[1]);
    o->fd = pair[0];
    if (st == STATUS_OK)
        *out = o;
    else
        on_save_close(o);
    return st;
}

static void send_request(struct on_save *o, const struct on_save_asked *asked)
{
    /* If the socket is full, the helper has not yet read earlier requests. The command that it runs
     * for them covers this save too. If the helper has ended, read_reports detects it. */
    ssize_t ignored = send(o->fd, asked, sizeof *asked, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
    o->asked_ns = clock_ns();
}

/* Counts, records and prints a failure. */
static enum status take_failure(struct on_save *o, struct record *record, int64_t step, int code)
{
    o->failures++;
    text_print(stderr, "ampscale: warning: --on-save failed after step %lld: %s", (long long)step,
               o->message);
    return record_event(record,
                        json_new("{s:s, s:I, s:i, s:o}", "event", "on_save", "step",
                                 (json_int_t)step, "code", code, "message", text_json(o->message)));
}

static enum status helper_lost(struct on_save *o, struct record *record, int64_t step,
                               const char *why)
{
    fd_close(&o->fd);
    snprintf(o->message, sizeof o->message, "%s", why);
    return take_failure(o, record, step, -1);
}

/* Reads the helper's reports until no more are available or a report says that the helper ends. In
 * the second case sets *last. */
static enum status read_reports(struct on_save *o, struct record *record, int64_t step, bool *last)
{
    struct on_save_done done;
    *last = false;
    while (o->fd >= 0 && !*last) {
        ssize_t n = recv(o->fd, &done, sizeof done, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return STATUS_OK;
        if (n != sizeof done)
            return helper_lost(o, record, step, "its helper process has ended");
        *last = done.last;
        done.message[sizeof done.message - 1] = '\0';
        if (done.code == 0)
            continue;
        text_clean(o->message, sizeof o->message, done.message);
        TRY(take_failure(o, record, done.step, done.code));
    }
    return STATUS_OK;
}

enum status on_save_request(struct on_save *o, struct record *record, int64_t step, bool checkpoint,
                            bool now)
{
    bool last;
    if (!o || o->fd < 0)
        return STATUS_OK;
    TRY(read_reports(o, record, step, &last));
    if (o->fd >= 0 && (now || checkpoint || clock_ns() - o->asked_ns >= RECORDS_NS))
        send_request(o, &(struct on_save_asked){.step = step, .checkpoint = checkpoint});
    return STATUS_OK;
}

enum status on_save_end(struct on_save *o, struct record *record, int64_t step, double wait_s)
{
    bool last = false;
    if (!o || o->fd < 0)
        return STATUS_OK;
    uint64_t end_ns = clock_ns() + (uint64_t)(wait_s * 1e9);
    send_request(o, &(struct on_save_asked){.step = step, .last = true});
    for (;;) {
        TRY(read_reports(o, record, step, &last));
        uint64_t now = clock_ns();
        if (last || o->fd < 0 || now >= end_ns)
            break;
        poll(&(struct pollfd){.fd = o->fd, .events = POLLIN}, 1,
             (int)((end_ns - now) / 1000000) + 1);
    }
    if (o->fd >= 0 && !last)
        return helper_lost(o, record, step, "the command had not ended when the run ended");
    fd_close(&o->fd);
    return STATUS_OK;
}

int64_t on_save_failures(const struct on_save *o)
{
    return o->failures;
}

json_t *on_save_json(const struct on_save *o)
{
    return json_new("{s:I, s:o}", "failures", (json_int_t)o->failures, "message",
                    o->failures ? text_json(o->message) : json_null());
}

/* Asks the helper to end, which first ends its command, by SIGKILL after twice its grace, and all
 * processes that the command has started. */
static void ask_to_end(struct process *helper)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    enum { PAUSES = 600 };
    if (helper->pid == 0)
        return;
    kill(helper->pid, SIGTERM);
    for (int i = 0; i < PAUSES && helper->pid != 0; i++) {
        if (waitpid(helper->pid, NULL, WNOHANG) != 0)
            helper->pid = 0;
        else
            nanosleep(&pause, NULL);
    }
}

void on_save_close(struct on_save *o)
{
    if (!o)
        return;
    fd_close(&o->fd);
    ask_to_end(&o->helper);
    process_kill(&o->helper, 1);
    free(o);
}

/* --- The helper --- */

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
        while (process_signals_next(&s->signals))
            ;
        if (getppid() != s->parent || !take_requests(s))
            return false;
        if (ms < 0 && s->any)
            return true;
    }
}

/* Runs the command once, without the secret of the rendezvous, which only ranks need. */
static enum status run_once(struct server *s, struct process_end *end)
{
    char step[24];
    snprintf(step, sizeof step, "%lld", (long long)s->asked.step);
    unsetenv(SECRET_VARIABLE);
    if (setenv("AMPSCALE_STEP", step, 1) != 0 ||
        setenv("AMPSCALE_SAVED", s->asked.checkpoint ? "checkpoint" : "record", 1) != 0)
        return status_fail(STATUS_OOM, "no memory for the environment");
    const struct process_config c = {.argv = s->argv,
                                     .log = s->log,
                                     .signals = &s->signals,
                                     .limit_s = s->limit_s,
                                     .grace_s = 2};
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
    /* What the command leaves behind must not hold the locks of folders that this process holds. */
    for (int fd = 3; fd < 256; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
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
