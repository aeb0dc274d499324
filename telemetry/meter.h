/* Inside telemetry/: a source of measurements of one or more devices. */
#ifndef TELEMETRY_METER_H
#define TELEMETRY_METER_H

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <math.h>

struct meter {
    const char *source; /* "nvml", "sysfs" */
    int n;              /* devices */
    /* Fills in what can be measured of device i, and leaves the rest of the row, which comes with
     * every sensor NaN, as it is. */
    void (*sample)(struct meter *m, int i, struct telemetry_record *row);
    /* Joules that device i has used since the meter was opened; NaN where nobody counts them. */
    double (*joules)(struct meter *m, int i);
    /* A new object of what device i is; NULL without memory. */
    json_t *(*facts)(struct meter *m, int i);
    void (*close)(struct meter *m);
    char lost[256]; /* the first device that stopped answering, and why; "": none */
};

/* NVIDIA's management library, loaded at run time. Devices are numbered as CUDA numbers them in
 * this process. STATUS_UNSUPPORTED, with what is missing, where there is no such library, driver or
 * device. */
MUST_CHECK enum status nvml_meter_open(const int *index, int n, struct meter **m);

/* The host's processors, as one device, from a tree like /sys: energy of the processor packages
 * (powercap), their temperature (hwmon), clocks (cpufreq). STATUS_UNSUPPORTED where none of them
 * can be read. */
MUST_CHECK enum status host_meter_open(const char *sysfs, struct meter **m);

#endif
