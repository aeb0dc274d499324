/* The training mode: which devices and processes train together. engine.h describes how. */
#pragma once

#include "base/status.h"
#include "kernels/device_list.h"

/* An option of a step. It has no effect on devices that do not support it, and does not change the
 * bits of the results. AUTO: engine_rehearse turns the option on if steps then take less time;
 * without a rehearsal the option is off. */
enum option { OPTION_AUTO, OPTION_OFF, OPTION_ON };

/* MODE_AUTO: train_mode_settle chooses the mode from the number of devices and the launcher. */
enum train_mode { MODE_AUTO, MODE_ND, MODE_DP, MODE_DDP, MODE_DDP2, MODE_COUNT };

/* Where the gradients of a process's devices are summed: on the first device, which alone keeps the
 * weights (DP_CENTRAL), or on all devices (DP_ALL). */
enum dp_reduce { DP_CENTRAL, DP_ALL };

const char *train_mode_str(enum train_mode m); /* "auto", "nd", ... */

/* Returns whether the mode uses a single process. */
bool train_mode_is_alone(enum train_mode m);

/* If *mode is MODE_AUTO, chooses the mode from the number of devices of this process and from
 * whether a launcher started several processes. STATUS_USAGE if mode, devices and launcher do not
 * fit together; `named` is the device list as the user wrote it. */
MUST_CHECK enum status train_mode_settle(enum train_mode *mode, const struct device_list *devices,
                                         const char *named, bool launched);
