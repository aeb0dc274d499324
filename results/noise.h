/* Judges from a run's record and from the kernel's counters whether other work disturbed it. The
 * counters are judged the same way for a run, a repeat of a check and a row of a benchmark.
 *
 * Each of four signs is judged against a bound:
 *
 *   far steps  steps whose computing (copy, forward, backward, optimizer) took more than
 *              NOISE_FAR times the median. Waiting for data or for other ranks does not count,
 *              since the run itself causes it. Equal work takes equal time, within a few percent.
 *              The bound is NOISE_FAR_SHARE: a larger share of far steps changes the recorded
 *              percentiles 5 and 95. A run with fewer than NOISE_STEPS_MIN steps has no such sign,
 *              because one far step would exceed the bound.
 *   steal      the share of the host's processor time that the hypervisor gave to other guests. The
 *              bound is NOISE_STEAL, a third of the loss of throughput that `compare` accepts.
 *   others     the share of the host's processor time that other processes used. The bound is
 *              NOISE_OTHERS.
 *   throttled  the share of the host's processor time for which quotas of control groups stopped
 *              the processes. The bound is NOISE_THROTTLED.
 *
 * Short times are judged as well, but by wider bounds. The kernel samples which process runs, in
 * ticks of 10 ms, so a share measured by n ticks of all processors has a standard error of at most
 * 1/(2 sqrt(n)); three of these widen the bound of others: 0.1 s on two processors has 20 ticks and
 * a bound of 44 %. The times of steal and throttled are exact but rounded to ticks, which may add
 * two ticks of each processor.
 *
 * The load averages and the preemptions are recorded but not judged, because both include the run's
 * own threads. */
#pragma once

#include "results/run.h"

#include <stdbool.h>

#define NOISE_FAR       1.5
#define NOISE_FAR_SHARE 0.05
#define NOISE_STEAL     0.01
#define NOISE_OTHERS    0.10
#define NOISE_THROTTLED 0.01

enum { NOISE_STEPS_MIN = 20 };

/* Values computed from two readings of a host's kernel counters; NaN: not known. */
struct host_noise {
    double seconds;                  /* between the readings */
    double load_start, load_end;     /* load averages over a minute */
    double processors;               /* whose time was counted */
    double steal, others, throttled; /* shares of these processors' time */
    double preempted_per_s;          /* involuntary context switches of this process */
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

/* The same for the counters alone. */
bool host_noise_judge(const struct host_noise *host, char text[NOISE_TEXT_MAX]);

/* Return a new object: the numbers that are known, "disturbed" and "reason". NULL if there is no
 * memory. */
json_t *noise_json(const struct noise *noise);
json_t *host_noise_json(const struct host_noise *host);

/* Reads the counters from the member "noise" of a record; numbers that are absent are NAN. `others`
 * of a run that was paused is not known: it includes the programs that the run took turns with. */
struct host_noise host_noise_read(const json_t *record);

/* Returns whether the member "noise" of a record says that other work disturbed it, and writes the
 * reason to `text`. The recorded counters are judged again, because earlier versions did not judge
 * runs of less than 5 s. Returns false for NULL and for records without "noise". */
bool noise_recorded(const json_t *record, char text[NOISE_TEXT_MAX]);
