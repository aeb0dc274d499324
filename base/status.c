/* Stores, for each thread, the message of its last failure. */
#include "base/status.h"

#include "base/text.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Thread_local char message[STATUS_MESSAGE_MAX];
static volatile sig_atomic_t stop_signal = SIGTERM;

/* Cleans the message: a file name or a peer's text may contain control characters. */
enum status status_fail(enum status st, const char *fmt, ...)
{
    char raw[STATUS_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    text_clean(message, sizeof message, raw);
    return st;
}

enum status status_context(enum status st, const char *fmt, ...)
{
    char raw[2 * STATUS_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    text_append(raw, sizeof raw, ": %s", message);
    text_clean(message, sizeof message, raw);
    return st;
}

const char *status_message(void)
{
    return message;
}

void first_failure_keep(struct first_failure *f, enum status st)
{
    if (st == STATUS_OK || f->status != STATUS_OK)
        return;
    f->status = st;
    memcpy(f->message, message, sizeof f->message);
}

enum status first_failure_return(const struct first_failure *f)
{
    return f->status == STATUS_OK ? STATUS_OK : status_fail(f->status, "%s", f->message);
}

void out_of_memory(void)
{
    static const char line[] = "ampscale: out of memory\n";
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(status_exit_code(STATUS_OOM));
}

void status_signal(int signo)
{
    stop_signal = signo;
}

int status_exit_code(enum status st)
{
    switch (st) {
    case STATUS_OK:
        return 0;
    case STATUS_USAGE:
        return 2;
    case STATUS_HARDWARE:
    case STATUS_MISMATCH:
        return 4;
    case STATUS_DATA:
        return 5;
    case STATUS_INTERRUPTED:
        return 128 + stop_signal;
    default:
        return 1;
    }
}
