/* Telling how far a battery is. */
#include "accept/progress.h"

#include "study/progress.h"

#include <unistd.h>

struct accept_progress accept_progress_begin(FILE *out, int total)
{
    return (struct accept_progress){
        .out = out, .terminal = out && isatty(fileno(out)), .total = total};
}

void accept_progress_start(const struct accept_progress *p, const struct accept_check *check,
                           int repeat)
{
    char text[512];
    snprintf(text, sizeof text, "[%d/%d] %s, repeat %d, about %.0f s", p->done, p->total,
             check->name, repeat, check->seconds);
    study_say(p->out, p->terminal, false, text);
}

void accept_progress_end(struct accept_progress *p, const struct accept_result *r)
{
    char text[ACCEPT_REASON_SIZE + 256];
    p->done++;
    snprintf(text, sizeof text, "[%d/%d] %-7s %s (%.1f s)%s%s", p->done, p->total,
             accept_verdict_str(r->verdict), r->name, r->seconds, *r->reason ? ": " : "",
             r->reason);
    study_say(p->out, p->terminal, true, text);
}
