/* Measuring collectives between devices of tests (comm/async_device.h). */
#pragma once

#include "comm/comm.h"

/* Two ranks, joined on the host by host[]: makes their device communicators c[]. */
typedef enum status collective_rig_open(struct device *const *device, struct comm *const *host,
                                        struct comm **c);

/* Measures and checks every kind of operation, and compares the record with what was asked.
 * `direct`: the communicators take no memory of the host. */
void collective_rig_run(collective_rig_open *open, bool direct);
