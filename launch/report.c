/* Writes and reads reports of ranks. */
#include "launch/report.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const char stopped[] = "was asked to stop, and exited with code";
static const char ended[] = "had failed before the launcher ended it: ";

void report_signal_name(int signo, char out[32])
{
    const char *name = sigabbrev_np(signo);
    snprintf(out, 32, "%s%s", name ? "SIG" : "signal", name ? name : "");
}

void report_write(const struct rank_report *r, char out[REPORT_MAX])
{
    char name[32];
    int n = snprintf(out, REPORT_MAX, "ampscale: rank %d (host %s, pid %ld) ", r->rank, r->host,
                     r->pid);
    char *rest = out + n;
    size_t left = REPORT_MAX - (size_t)n;
    switch (r->end) {
    case REPORT_KILLED:
        report_signal_name(r->code, name);
        snprintf(rest, left, "was killed by signal %d (%s)\n", r->code, name);
        break;
    case REPORT_STOPPED:
        snprintf(rest, left, "%s %d\n", stopped, r->code);
        break;
    case REPORT_ENDED:
        snprintf(rest, left, "%s%s\n", ended, r->reason);
        break;
    case REPORT_EXITED:
        snprintf(rest, left, "exited with code %d%s%s\n", r->code, *r->reason ? ": " : "",
                 r->reason);
        break;
    }
}

bool report_read(const char *line, size_t n, struct rank_report *r)
{
    char text[REPORT_MAX];
    int at = 0;
    *r = (struct rank_report){0};
    if (n == 0 || n >= sizeof text || line[n - 1] != '\n' || memchr(line, '\0', n))
        return false;
    memcpy(text, line, n - 1);
    text[n - 1] = '\0';
    if (sscanf(text, "ampscale: rank %9d (host %255[^,], pid %18ld) %n", &r->rank, r->host, &r->pid,
               &at) != 3 ||
        at == 0)
        return false;
    const char *rest = text + at;
    if (sscanf(rest, "was killed by signal %9d", &r->code) == 1) {
        r->end = REPORT_KILLED;
        return true;
    }
    if (strncmp(rest, stopped, sizeof stopped - 1) == 0) {
        r->end = REPORT_STOPPED;
        return sscanf(rest + sizeof stopped - 1, "%9d", &r->code) == 1;
    }
    if (strncmp(rest, ended, sizeof ended - 1) == 0) {
        r->end = REPORT_ENDED;
        r->code = status_exit_code(STATUS_LIBRARY);
        snprintf(r->reason, sizeof r->reason, "%s", rest + sizeof ended - 1);
        return true;
    }
    if (sscanf(rest, "exited with code %9d%n", &r->code, &at) != 1)
        return false;
    if (strncmp(rest + at, ": ", 2) == 0)
        snprintf(r->reason, sizeof r->reason, "%s", rest + at + 2);
    return true;
}

const char *report_reason(const char *line)
{
    static const char ours[] = "ampscale: ", warning[] = "warning: ";
    if (strncmp(line, ours, sizeof ours - 1) != 0)
        return NULL;
    line += sizeof ours - 1;
    return strncmp(line, warning, sizeof warning - 1) != 0 ? line : NULL;
}

int report_code(const struct rank_report *r)
{
    return r->end == REPORT_KILLED ? 128 + r->code : r->code;
}
