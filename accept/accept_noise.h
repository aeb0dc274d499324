/* Inside accept/: other work that disturbed a check (results/noise.h). Times and rates that were
 * measured meanwhile are withheld: they say neither that the hardware is slow nor that it is fast.
 */
#pragma once

#include "accept/accept_result.h"
#include "results/load.h"

/* Reads the counters of load. The running descendants of this process, such as the checks that run
 * at the same time, count as its own time. */
struct load accept_noise_load(const struct load_meter *m);

/* Records the noise of a repeat. A check keeps that of the first disturbed repeat or, if there is
 * none, that of the last. */
void accept_noise_keep(struct accept_result *r, const struct host_noise *noise);

/* Whether a metric is a time, a rate or a ratio of such. */
bool accept_is_speed(const struct accept_metric *m);

/* If the check was disturbed, each speed that was measured and has a limit becomes MISSING, and the
 * check's verdict follows. Whether there was such a speed. */
bool accept_withhold(struct accept_result *r);

enum { NOISE_WORDS_SIZE = NOISE_TEXT_MAX + 64 };

/* "disturbed: 63.0 % of the processors' time went to other processes"; "2.1 %", the share of other
 * processes; "": not known. */
void accept_noise_words(const struct accept_result *r, char *out, size_t size);
