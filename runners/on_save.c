/* Starts the helper of --on-save for rank 0, and sends it requests. */
#include "runners/on_save.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "runners/on_save_message.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
    struct process_signals signals = {.fd = -1};
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
    if (sigprocmask(SIG_BLOCK, NULL, &signals.before) != 0)
        return status_fail(STATUS_IO, "cannot read the signal mask: %s", strerror(errno));
    return process_start(
        &(struct process_config){.argv = argv, .talk = talk, .signals = &signals, .grace_s = 1},
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
    json_t *event;
    o->failures++;
    text_print(stderr, "ampscale: warning: --on-save failed after step %lld: %s", (long long)step,
               o->message);
    TRY(json_new(&event, "{s:s, s:I, s:i}", "event", "on_save", "step", (json_int_t)step, "code",
                 code));
    enum status st = json_put(event, "message", text_json(o->message));
    if (st == STATUS_OK)
        return record_event(record, event);
    json_decref(event);
    return st;
}

static enum status helper_lost(struct on_save *o, struct record *record, int64_t step,
                               const char *why)
{
    close(o->fd);
    o->fd = -1;
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
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    return STATUS_OK;
}

int64_t on_save_failures(const struct on_save *o)
{
    return o->failures;
}

json_t *on_save_json(const struct on_save *o)
{
    return json_pack("{s:I, s:o}", "failures", (json_int_t)o->failures, "message",
                     o->failures ? text_json(o->message) : json_null());
}

/* Asks the helper to end. The helper first ends its command and all processes that the command has
 * started. */
static void ask_to_end(struct process *helper)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    enum { PAUSES = 200 };
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
    if (o->fd >= 0)
        close(o->fd);
    ask_to_end(&o->helper);
    process_kill(&o->helper, 1);
    free(o);
}
