/* Reads the counters of a host's load. */
#include "results/load.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void load_open(struct load_meter *m, const char *proc, const cpu_set_t *cpus)
{
    *m = (struct load_meter){.proc = proc ? proc : "/proc"};
    if (cpus)
        m->cpus = *cpus;
    else if (sched_getaffinity(0, sizeof m->cpus, &m->cpus) != 0) /* more than CPU_SETSIZE */
        CPU_ZERO(&m->cpus);
}

/* Adds the times of one processor. `line` is "cpu7 user nice system idle iowait irq softirq steal
 * ..." with times in ticks. The numbers after `steal` are times of guests, which `user` and `nice`
 * include already (proc(5)). */
static void add_processor(const struct load_meter *m, const char *line, struct load *l)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, TIMES };
    unsigned cpu;
    double t[TIMES], tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    if (sscanf(line, "cpu%u %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &t[USER], &t[NICE], &t[SYSTEM],
               &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ], &t[STEAL]) != 1 + TIMES ||
        cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &m->cpus))
        return;
    double busy_s = tick_s * (t[USER] + t[NICE] + t[SYSTEM] + t[IRQ] + t[SOFTIRQ]);
    l->busy_s += busy_s;
    l->steal_s += tick_s * t[STEAL];
    l->all_s += busy_s + tick_s * (t[STEAL] + t[IDLE] + t[IOWAIT]);
}

static void read_processors(const struct load_meter *m, struct load *l)
{
    char path[4096], line[512];
    bool fits = snprintf(path, sizeof path, "%s/stat", m->proc) < (int)sizeof path;
    FILE *in = fits ? fopen(path, "re") : NULL;
    while (in && fgets(line, sizeof line, in))
        add_processor(m, line, l);
    if (in)
        fclose(in);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void read_own(struct load *l)
{
    struct rusage self, children;
    if (getrusage(RUSAGE_SELF, &self) != 0 || getrusage(RUSAGE_CHILDREN, &children) != 0)
        return;
    l->own_s = seconds_of(self.ru_utime) + seconds_of(self.ru_stime) +
               seconds_of(children.ru_utime) + seconds_of(children.ru_stime);
    l->preempted = (double)self.ru_nivcsw;
}

struct load load_read(const struct load_meter *m)
{
    struct load l = {.wall_s = clock_s(), .own_s = NAN, .preempted = NAN};
    char path[4096], line[64];
    bool fits = snprintf(path, sizeof path, "%s/loadavg", m->proc) < (int)sizeof path;
    if (!fits || !file_first_line(path, line, sizeof line) || sscanf(line, "%lf", &l.average) != 1)
        l.average = NAN;
    l.throttled_s = host_throttled_s("");
    read_processors(m, &l);
    read_own(&l);
    return l;
}

struct host_noise load_between(const struct load *a, const struct load *b)
{
    double seconds = b->wall_s - a->wall_s, all_s = b->all_s - a->all_s;
    double others_s = (b->busy_s - a->busy_s) - (b->own_s - a->own_s);
    struct host_noise n = {.seconds = seconds,
                           .processors = NAN,
                           .load_start = a->average,
                           .load_end = b->average,
                           .steal = NAN,
                           .others = NAN,
                           .throttled = NAN,
                           .preempted_per_s = NAN};
    if (all_s > 0 && seconds > 0) {
        n.processors = fmax(1, round(all_s / seconds));
        n.throttled = fmax(0, (b->throttled_s - a->throttled_s) / all_s);
        n.steal = fmax(0, (b->steal_s - a->steal_s) / all_s);
        n.others = fmax(0, others_s / all_s);
    }
    if (seconds > 0)
        n.preempted_per_s = (b->preempted - a->preempted) / seconds;
    return n;
}
