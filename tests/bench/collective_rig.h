/* Measures collectives between test devices (comm/async_device.h). */
#pragma once

#include "comm/comm.h"

/* Opens c[], the device communicators of two ranks. host[] are the ranks' host communicators. */
typedef enum status collective_rig_open(struct device *const *device, struct comm *const *host,
                                        struct comm **c);

/* Measures and checks every kind of operation, and compares the record with the arguments.
 * `direct`: the communicators use no host memory. */
void collective_rig_run(collective_rig_open *open, bool direct);
