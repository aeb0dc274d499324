/* The kernel's counters of a host's load: load average and processor time (/proc/loadavg,
 * /proc/stat), the time in which quotas stopped this process's control groups, and this process's
 * own counters (getrusage). Only the processors that this process may use are counted. Work on
 * other processors, for example in another container, hardly disturbs this process. */
#pragma once

#include "results/noise.h"

#include <sched.h>

struct load_meter {
    const char *proc; /* root of the tree to read */
    cpu_set_t cpus;   /* processors that are counted */
};

/* The host's counters since the host started, and this process's counters since the process began.
 * NaN: not known. */
struct load {
    double wall_s;        /* time of a monotonic clock */
    double average;       /* load average over a minute */
    double all_s, busy_s; /* total time of the processors; the part of it spent in processes and the
                           * kernel */
    double steal_s;       /* time in which the hypervisor ran other guests on the processors */
    double throttled_s;   /* time in which quotas of control groups stopped their processes */
    double own_s;         /* processor time of this process and its finished children */
    double preempted;     /* involuntary context switches of this process */
};

/* `proc`: folder to read in place of /proc; NULL: /proc. `cpus`: the processors that are
 * counted; NULL: those that the calling thread may use. */
void load_open(struct load_meter *m, const char *proc, const cpu_set_t *cpus);

struct load load_read(const struct load_meter *m);

/* Returns what the counters show between two readings. */
struct host_noise load_between(const struct load *begin, const struct load *end);
