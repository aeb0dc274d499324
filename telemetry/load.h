/* The kernel's counters of a host's load: load average and processor time (/proc/loadavg,
 * /proc/stat), and this process's own (getrusage). Of the processors, those count that the process
 * may use: what runs on others, in another container, does not disturb it much. */
#pragma once

#include "results/noise.h"

#include <sched.h>

struct load_meter {
    const char *proc; /* root of the tree to read */
    cpu_set_t cpus;   /* processors that count */
};

/* Counters since the host started; of this process, since it began. NaN: not known. */
struct load {
    double wall_s;        /* a clock that only moves forward */
    double average;       /* load average over a minute */
    double all_s, busy_s; /* of the processors: time, and time in processes and the kernel */
    double steal_s;       /* of the processors: time of other guests */
    double own_s;         /* processor time of this process and its finished children */
    double preempted;     /* involuntary context switches of this process */
};

/* `proc`: folder to read in place of /proc; NULL: /proc. `cpus`: the processors that count; NULL:
 * those of the calling thread. */
void load_open(struct load_meter *m, const char *proc, const cpu_set_t *cpus);

struct load load_read(const struct load_meter *m);

/* What happened between two readings. `alone`: no other process of the job was on this host; else
 * `others` is NaN, since those processes would count as others. */
struct host_noise load_between(const struct load *begin, const struct load *end, bool alone);
