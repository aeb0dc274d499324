/* Starts a peer, sends it requests, and reads its answers. */
#include "bench/throughput.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READY_SECONDS = 180, EAGER_SECONDS = 120, COMPILE_SECONDS = 240, STARTS_MAX = 2 };

/* --- starting and ending --- */

/* Adds the peer's script to the command. If the script needs an interpreter, adds the interpreter
 * before the script. */
static enum status add_script(const struct peer *p, struct words *w)
{
    char runner[4096];
    const char *slash = strrchr(p->script, '/');
    int folder = slash ? (int)(slash - p->script) + 1 : 0;
    size_t n = strlen(p->script);
    bool exists;
    TRY(path_format(runner, sizeof runner, "%.*srun.sh", folder, p->script));
    if (n <= 3 || strcmp(p->script + n - 3, ".py") != 0)
        return words_add(w, "%s%s", slash ? "" : "./", p->script);
    TRY(path_look(runner, &exists));
    TRY(exists ? words_add_all(w, "bash", runner, "torch, torchvision", NULL)
               : words_add(w, "python3"));
    return words_add(w, "%s", p->script);
}

/* Makes the command that starts the peer. The environment variables make malloc keep freed memory.
 * Without these variables, a peer on a CPU would return memory to the system in each step, and the
 * system would zero the memory before the next step. PyTorch would be slower by a fifth. */
static enum status peer_command(const struct peer *p, struct words *w)
{
    TRY(words_add_all(w, "env", "MALLOC_MMAP_MAX_=0", NULL));
    TRY(words_add(w, "MALLOC_TRIM_THRESHOLD_=%lld", 1LL << 40));
    if (p->threads > 0)
        TRY(words_add(w, "OMP_NUM_THREADS=%d", p->threads));
    TRY(add_script(p, w));
    TRY(words_add_all(w, "--device", p->device, "--net", p->net, NULL));
    return words_add_flag(w, "--image-size", "%d", p->image_size);
}

enum status peer_start(struct peer *p)
{
    char log[TRAIN_PATH_SIZE];
    struct words command = {0};
    int pair[2];
    enum status st;
    if (p->state != PEER_NONE || p->lost)
        return STATUS_OK;
    TRY(path_format(log, sizeof log, "%s/peer%s.log", p->dir, p->starts ? "-again" : ""));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return status_fail(STATUS_IO, "cannot make a socket for the peer: %s", strerror(errno));
    CHECK(peer_command(p, &command));
    const struct process_config c = {
        .argv = command.v, .log = log, .talk = pair[1], .signals = p->signals, .grace_s = 1};
    CHECK(process_start(&c, &p->process));
    p->fd = pair[0];
    p->n = 0;
    p->state = PEER_STARTING;
    p->starts++;
    p->started_ns = clock_ns();
done:
    words_free(&command);
    close(pair[1]);
    if (st != STATUS_OK)
        close(pair[0]);
    return st;
}

void peer_stop(struct peer *p)
{
    if (p->state == PEER_NONE)
        return;
    process_kill(&p->process, 1);
    close(p->fd);
    p->state = PEER_NONE;
}

/* Ends the process of a peer that died or hangs, and records the reason in p->why. If the peer
 * died, the reason includes its last message. Starts the peer again if it had been ready and was
 * not started again before; otherwise the peer is lost. */
static enum status replace_peer(struct peer *p, const char *why, bool died)
{
    bool was_ready = p->state == PEER_READY;
    int which;
    kill(-p->process.pid, SIGKILL);
    TRY(process_wait(p->signals, &p->process, 1, &which));
    TRY(stop_check());
    const char *said = died ? p->process.end.message : "";
    snprintf(p->why, sizeof p->why, "%s%s%s", why, *said ? ": " : "", said);
    peer_stop(p);
    p->lost = !was_ready || p->starts == STARTS_MAX;
    return peer_start(p);
}

/* --- talking --- */

enum heard { HEARD_LINE, HEARD_NOTHING, HEARD_END };

/* Takes the first whole line from the bytes that were read. Returns false if there is no whole
 * line. */
static bool take_line(struct peer *p, char line[PEER_LINE_SIZE])
{
    char *end = memchr(p->line, '\n', p->n);
    if (!end)
        return false;
    *end = '\0';
    text_clean(line, PEER_LINE_SIZE, p->line);
    p->n -= (size_t)(end + 1 - p->line);
    memmove(p->line, end + 1, p->n);
    return true;
}

/* Waits at most `seconds` for a line from the peer. A line that is too long counts as the end of
 * the stream. */
static enum status hear(struct peer *p, double seconds, char line[PEER_LINE_SIZE],
                        enum heard *heard)
{
    uint64_t end_ns = clock_ns() + (uint64_t)(seconds * 1e9);
    struct pollfd wait[2] = {{.fd = p->fd, .events = POLLIN},
                             {.fd = p->signals->fd, .events = POLLIN}};
    *heard = HEARD_NOTHING;
    while (!take_line(p, line)) {
        uint64_t now = clock_ns();
        if (now >= end_ns)
            return STATUS_OK;
        poll(wait, 2, (int)((end_ns - now) / 1000000) + 1);
        if (wait[1].revents & POLLIN)
            TRY(process_signals_check(p->signals));
        if (!(wait[0].revents & (POLLIN | POLLHUP)))
            continue;
        ssize_t n = read(p->fd, p->line + p->n, sizeof p->line - p->n);
        if (n <= 0) {
            *heard = HEARD_END;
            return STATUS_OK;
        }
        p->n += (size_t)n;
    }
    *heard = HEARD_LINE;
    return STATUS_OK;
}

/* Waits until the peer is ready. Sets *ready to false if the peer was not ready in time or died. In
 * this case the peer was started again or is lost. */
static enum status meet(struct peer *p, bool *ready)
{
    char line[PEER_LINE_SIZE] = "", why[TRAIN_WHY_SIZE];
    enum heard heard;
    *ready = p->state == PEER_READY;
    if (p->state != PEER_STARTING)
        return STATUS_OK;
    double waited = (double)(clock_ns() - p->started_ns) * 1e-9;
    double left = (double)time_budget_limit(p->budget, false, READY_SECONDS);
    TRY(hear(p, fmax(fmin(left, READY_SECONDS - waited), 0), line, &heard));
    if (heard == HEARD_LINE && strncmp(line, "ready ", 6) == 0) {
        text_clean(p->about, sizeof p->about, line + 6);
        p->state = PEER_READY;
        *ready = true;
        return STATUS_OK;
    }
    snprintf(why, sizeof why, "%s",
             heard == HEARD_LINE  ? line
             : heard == HEARD_END ? "it ended before it was ready"
                                  : "it was not ready in time");
    return replace_peer(p, why, heard == HEARD_END);
}

/* Returns MEDIAN if the answer is "images_per_s MEDIAN LOW HIGH". Otherwise returns NAN and sets
 * `why` to the reason, which is WHY if the answer is "error WHY". */
static double parse_answer(const char *line, char why[TRAIN_WHY_SIZE])
{
    static const char rate[] = "images_per_s ", error[] = "error ";
    char *end;
    if (strncmp(line, rate, sizeof rate - 1) == 0) {
        double v = strtod(line + sizeof rate - 1, &end);
        if (isfinite(v) && v > 0 && (*end == ' ' || *end == '\0'))
            return v;
    }
    if (strncmp(line, error, sizeof error - 1) == 0)
        snprintf(why, TRAIN_WHY_SIZE, "%.300s", line + sizeof error - 1);
    else
        snprintf(why, TRAIN_WHY_SIZE, "the peer answered '%.300s'", line);
    return NAN;
}

enum status peer_ask(struct peer *p, const char *mode, const char *precision, int batch, int steps,
                     double *images_per_s, char why[TRAIN_WHY_SIZE])
{
    char line[PEER_LINE_SIZE];
    enum heard heard = HEARD_END;
    bool ready;
    int most = strcmp(mode, "compile") == 0 ? COMPILE_SECONDS : EAGER_SECONDS;
    *images_per_s = NAN;
    p->cut = false;
    TRY(meet(p, &ready));
    int64_t limit_s = time_budget_limit(p->budget, false, most);
    if (!ready || limit_s == 0) {
        snprintf(why, TRAIN_WHY_SIZE, "%s", ready ? "no time was left" : p->why);
        return STATUS_OK;
    }
    int n = snprintf(line, sizeof line, "%s %s %d %d\n", mode, precision, batch, steps);
    if (send(p->fd, line, (size_t)n, MSG_NOSIGNAL) == n)
        TRY(hear(p, (double)limit_s, line, &heard));
    if (heard == HEARD_LINE) {
        *images_per_s = parse_answer(line, why);
        return STATUS_OK;
    }
    p->cut = heard == HEARD_NOTHING;
    if (heard == HEARD_END)
        snprintf(line, sizeof line, "it ended at '%s %s %d'", mode, precision, batch);
    else
        snprintf(line, sizeof line, "out of time: no answer to '%s %s %d' within %lld s", mode,
                 precision, batch, (long long)limit_s);
    TRY(replace_peer(p, line, heard == HEARD_END));
    snprintf(why, TRAIN_WHY_SIZE, "%s", p->why);
    return STATUS_OK;
}
