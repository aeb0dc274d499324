/* Withholds the speeds of disturbed checks. */
#include "accept/accept_noise.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DISTURBED "disturbed: %s; repeat on an idle node"

/* Clock ticks that the running children of a process, their children and so on have used. */
static double descendants(const char *proc, int pid)
{
    char path[ACCEPT_PATH_SIZE], list[ACCEPT_PATH_SIZE], line[1024], *at = list, *end;
    double ticks = 0, t[4];
    int n = snprintf(path, sizeof path, "%s/%d/task/%d/children", proc, pid, pid);
    if (n >= (int)sizeof path || !file_first_line(path, list, sizeof list))
        return 0;
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
        snprintf(path, sizeof path, "%s/%ld/stat", proc, child);
        /* Fields 14 to 17 are the times of the process and of its children that have ended; the
         * second is a name in parentheses, which may contain blanks (proc(5)). */
        const char *name = file_first_line(path, line, sizeof line) ? strrchr(line, ')') : NULL;
        if (name && sscanf(name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf %lf %lf",
                           &t[0], &t[1], &t[2], &t[3]) == 4)
            ticks += t[0] + t[1] + t[2] + t[3];
        ticks += descendants(proc, (int)child);
    }
    return ticks;
}

struct load accept_noise_load(const struct load_meter *m)
{
    struct load l = load_read(m);
    l.own_s += descendants(m->proc, getpid()) / (double)sysconf(_SC_CLK_TCK);
    return l;
}

void accept_noise_keep(struct accept_result *r, const struct host_noise *noise)
{
    char text[NOISE_TEXT_MAX];
    if (noise->seconds > 0 && !host_noise_judge(&r->noise, text))
        r->noise = *noise;
}

bool accept_is_speed(const struct accept_metric *m)
{
    const char *unit = m->unit, *per = strrchr(unit, '/');
    return (per && strcmp(per, "/s") == 0) || strcmp(unit, "s") == 0 || strcmp(unit, "ms") == 0 ||
           strcmp(unit, "us") == 0 || strcmp(unit, "x") == 0 || strcmp(m->name, "of_peak") == 0;
}

bool accept_withhold(struct accept_result *r)
{
    char text[NOISE_TEXT_MAX];
    enum verdict worst = r->ended;
    bool any = false;
    if (!host_noise_judge(&r->noise, text))
        return false;
    for (int i = 0; i < r->n_metrics; i++) {
        struct accept_metric *m = &r->metric[i];
        if (*m->limit && m->n > 0 && accept_is_speed(m)) {
            m->verdict = VERDICT_MISSING;
            m->withheld = any = true;
            m->fleet_only = false;
            snprintf(m->reason, sizeof m->reason, DISTURBED, text);
        }
        if (*m->limit && m->verdict > worst)
            worst = m->verdict;
    }
    if (!any)
        return false;
    if (worst == VERDICT_MISSING && r->ended != VERDICT_MISSING)
        snprintf(r->reason, sizeof r->reason, DISTURBED, text);
    r->verdict = worst;
    return true;
}

void accept_noise_words(const struct accept_result *r, char *out, size_t size)
{
    char text[NOISE_TEXT_MAX];
    *out = '\0';
    if (host_noise_judge(&r->noise, text))
        snprintf(out, size, "disturbed: %s", text);
    else if (r->noise.seconds > 0 && isfinite(r->noise.others))
        snprintf(out, size, "%.1f %%", 100 * r->noise.others);
}
