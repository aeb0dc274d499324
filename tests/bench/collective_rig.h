/* Measuring collectives between devices of tests (comm/async_device.h). */
#ifndef TESTS_BENCH_COLLECTIVE_RIG_H
#define TESTS_BENCH_COLLECTIVE_RIG_H

#include "comm/comm.h"

/* Two ranks, joined on the host by host[]: makes their device communicators c[]. */
typedef enum status collective_rig_open(struct device *const *device, struct comm *const *host,
                                        struct comm **c);

/* Measures and checks every kind of operation, and holds the record against what was asked.
 * `direct`: the communicators take no memory of the host. */
void collective_rig_run(collective_rig_open *open, bool direct);

#endif
