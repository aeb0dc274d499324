/* Inside telemetry/: a source of measurements of one or more devices. */
#pragma once

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <math.h>

struct meter {
    const char *source; /* "nvml", "sysfs" */
    int n;              /* devices */
    /* Fills in the sensors of device i that can be measured. The caller has set all sensors of the
     * row to NaN; the function leaves the other sensors unchanged. */
    void (*sample)(struct meter *m, int i, struct telemetry_record *row);
    /* Joules that device i has used since the meter was opened; NaN where they are not measured. */
    double (*joules)(struct meter *m, int i);
    /* A new object that describes device i. */
    json_t *(*facts)(struct meter *m, int i);
    void (*close)(struct meter *m);
    char lost[256]; /* the first device that stopped answering, and why; "": no device did */
};

/* NVIDIA's management library, loaded at run time. Devices are numbered as CUDA numbers them in
 * this process. STATUS_UNSUPPORTED if the library, the driver or a device is missing; the message
 * names the missing part. */
MUST_CHECK enum status nvml_meter_open(const int *index, int n, struct meter **m);

/* The host's processors, as one device, from a tree like /sys: energy of the processor packages
 * (powercap), their temperature (hwmon), clocks (cpufreq). STATUS_UNSUPPORTED if none of these can
 * be read. */
MUST_CHECK enum status host_meter_open(const char *sysfs, struct meter **m);
