/* Judges from a run's record and from the kernel's counters whether other work disturbed the run.
 *
 * Three signs are judged, each against a bound:
 *
 *   far steps  steps whose computing (copy, forward, backward, optimizer) took more than
 *              NOISE_FAR times the median. Waiting for data or for other ranks does not count,
 *              since the run itself causes it. Equal work takes equal time, within a few percent.
 *              The bound is NOISE_FAR_SHARE: a larger share of far steps changes the recorded
 *              percentiles 5 and 95.
 *   steal      the share of the host's processor time that the hypervisor gave to other guests. The
 *              bound is NOISE_STEAL, a third of the loss of throughput that `compare` accepts.
 *   others     the share of the host's processor time that other processes used. The bound is
 *              NOISE_OTHERS.
 *
 * The load averages and the preemptions are recorded but not judged, because both include the run's
 * own threads. Short runs are not judged either. The kernel counts time in ticks of 10 ms, which is
 * too coarse for them, and if a run has only a few steps, one far step exceeds the bound. */
#pragma once

#include "results/run.h"

#include <stdbool.h>

#define NOISE_FAR       1.5
#define NOISE_FAR_SHARE 0.05
#define NOISE_STEAL     0.01
#define NOISE_OTHERS    0.10

/* Runs with fewer steps or fewer seconds than these are not judged. */
enum { NOISE_STEPS_MIN = 20, NOISE_SECONDS_MIN = 5 };

/* Values computed from two readings of a host's kernel counters; NaN: not known. */
struct host_noise {
    double seconds;              /* between the readings */
    double load_start, load_end; /* load averages over a minute */
    double steal, others;        /* shares of the time of all processors that are online */
    double preempted_per_s;      /* involuntary context switches of this process */
};

struct noise {
    struct host_noise host;
    int64_t steps;    /* steps after warm-up */
    double far_share; /* share of far steps among the steps after warm-up; NaN: no steps after
                       * warm-up */
};

/* Computes the share of far steps among the steps of a run after warm-up. Sets noise->steps and
 * noise->far_share. STATUS_OOM. */
MUST_CHECK enum status noise_of_steps(const struct run *run, struct noise *noise);

enum { NOISE_TEXT_MAX = 256 };

/* Returns whether a sign exceeds its bound. `text` then names the sign: "8.1 % of the steps took
 * more than 1.5 times the median, 3.0 % of the processors' time was stolen"; else it is "". */
bool noise_judge(const struct noise *noise, char text[NOISE_TEXT_MAX]);

/* Returns a new object for summary.json, or NULL if there is no memory. */
json_t *noise_json(const struct noise *noise);

/* Returns whether a summary says that its run was disturbed, and writes the reason to `text`.
 * Returns false for NULL and for summaries of earlier versions. */
bool noise_recorded(const json_t *summary, char text[NOISE_TEXT_MAX]);
