/* Whether other work disturbed a run, from what its record and the kernel's counters say.
 *
 * Three signs are judged, each against a bound:
 *
 *   far steps  steps whose computing (copy, forward, backward, optimizer) took more than
 *              NOISE_FAR times the median. Waiting for data or for other ranks does not count: it
 *              is the run's own. Equal work takes equal time, within a few percent. More than
 *              NOISE_FAR_SHARE of the steps would move the percentiles 5 and 95 that are recorded.
 *   steal      the share of the host's processor time that the hypervisor gave to other guests. A
 *              third of the 3 % at which `compare` accepts no loss would decide such a comparison.
 *   others     the share of the host's processor time that other processes used. A tenth is also
 *              what makes a rank a straggler.
 *
 * The load averages and the preemptions are recorded and not judged: both count the run's own
 * threads. Short runs are not judged: the kernel counts time in ticks of 10 ms, and one far step in
 * few is no share. */
#pragma once

#include "results/run.h"

#include <stdbool.h>

#define NOISE_FAR       1.5
#define NOISE_FAR_SHARE 0.05
#define NOISE_STEAL     0.01
#define NOISE_OTHERS    0.10

/* The least that is judged. */
enum { NOISE_STEPS_MIN = 20, NOISE_SECONDS_MIN = 5 };

/* What the kernel counted on a host between two readings; NaN: not known. */
struct host_noise {
    double seconds;              /* between the readings */
    double load_start, load_end; /* load averages over a minute */
    double steal, others;        /* shares of the time of all processors that are online */
    double preempted_per_s;      /* involuntary context switches of this process */
};

struct noise {
    struct host_noise host;
    int64_t steps;    /* steps after warm-up */
    double far_share; /* share of them; NaN: there are none */
};

/* The share of the steps of a run, after warm-up, that are far; fills in `steps` and `far_share`.
 * STATUS_OOM. */
MUST_CHECK enum status noise_of_steps(const struct run *run, struct noise *noise);

enum { NOISE_TEXT_MAX = 256 };

/* Whether a sign exceeds its bound. `text` then says which: "8.1 % of the steps took more than 1.5
 * times the median, 3.0 % of the processors' time was stolen"; else it is "". */
bool noise_judge(const struct noise *noise, char text[NOISE_TEXT_MAX]);

/* A new object for summary.json; NULL: no memory. */
json_t *noise_json(const struct noise *noise);

/* Whether a summary says that its run was disturbed, and the text; false for NULL and for summaries
 * of earlier versions. */
bool noise_recorded(const json_t *summary, char text[NOISE_TEXT_MAX]);
