/* Reads metrics of a training run from its folder. */
#include "accept/accept_noise.h"
#include "accept/accept_read.h"
#include "base/file.h"
#include "base/rng.h"
#include "results/run.h"
#include "results/sensors.h"
#include "results/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- losses --- */

static uint64_t loss_bits(const struct run *run)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < run->n_steps; i++) {
        uint64_t bits;
        memcpy(&bits, &run->step[i].loss, sizeof bits);
        hash = hash_splitmix64(hash ^ bits);
    }
    return hash;
}

static enum status add_losses(const struct run *run, struct accept_result *r)
{
    char bits[32];
    if (run->n_steps == 0)
        return STATUS_OK;
    snprintf(bits, sizeof bits, "%016" PRIx64, loss_bits(run));
    TRY(accept_result_number(r, "steps", "", ACCEPT_HIGHER, (double)run->n_steps));
    TRY(accept_result_number(r, "loss", "", ACCEPT_EVEN, run->step[run->n_steps - 1].loss));
    return accept_result_text(r, "loss_bits", bits);
}

/* --- sensors --- */

enum over { OVER_MAX, OVER_MIN, OVER_SUM };

static const struct {
    const char *key, *name, *unit;
    double scale;
    enum accept_better better;
    enum over over;
} sensors[] = {
    {"temperature_c", "temperature_c", "C", 1, ACCEPT_LOWER, OVER_MAX},
    {"power_w", "power_w", "W", 1, ACCEPT_EVEN, OVER_MAX},
    {"memory_bytes", "memory_gib", "GiB", 0x1p-30, ACCEPT_LOWER, OVER_MAX},
    {"clock_mhz", "clock_mhz", "MHz", 1, ACCEPT_HIGHER, OVER_MIN},
    {"ecc_corrected", "ecc_corrected", "", 1, ACCEPT_LOWER, OVER_SUM},
    {"ecc_uncorrected", "ecc_uncorrected", "", 1, ACCEPT_LOWER, OVER_SUM},
};

/* The devices whose sensors are read. */
struct devices {
    const struct accept_output *output;
    const json_t *list;
    const char *host; /* host of the devices whose record has no "host" */
};

/* Reduces a sensor's values on all devices to one number, and finds the index of the worst device;
 * NAN if a device lacks the sensor. */
static double over_devices(const json_t *devices, const char *key, enum over over, size_t *worst)
{
    double sum = 0, far = NAN;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        double x = accept_read_number(json_array_get(devices, i), key);
        if (isnan(x))
            return NAN;
        sum += x;
        if (i > 0 && (over == OVER_MIN ? x >= far : x <= far))
            continue;
        far = x;
        *worst = i;
    }
    return over == OVER_SUM && json_array_size(devices) > 0 ? sum : far;
}

/* The percentage of samples in which a device was throttled for `reason`, on the device with the
 * highest percentage. NAN if a device has no such sensor; 0 if the reason is not listed, because
 * then it did not occur. */
static double throttled(const json_t *devices, const char *reason, size_t *worst)
{
    double most = json_array_size(devices) > 0 ? 0 : NAN;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *shares = json_object_get(json_array_get(devices, i), "throttled");
        double share = accept_read_number(shares, reason);
        if (!shares)
            return NAN;
        if (isnan(share) || share * 100 <= most)
            continue;
        most = share * 100;
        *worst = i;
    }
    return most;
}

/* Adds a metric with the value and the place of device `worst`, the worst of all devices. */
static enum status add_worst(const struct devices *d, const char *name, const char *unit,
                             enum accept_better better, double value, size_t worst,
                             struct accept_result *r)
{
    char where[ACCEPT_WHERE_SIZE];
    TRY(accept_result_number(r, name, unit, better, value));
    if (!isfinite(value) || value == 0) /* no device to name */
        return STATUS_OK;
    /* The place is text such as "node7 cuda:3". Host and index come from the device's record or, if
     * they are not in it, from the run and the check. */
    const json_t *device = json_array_get(d->list, worst);
    const char *host = accept_read_text(device, "host");
    double index = accept_read_number(device, "index");
    if (isnan(index))
        index = d->output->check_device >= 0 ? d->output->check_device : (double)worst;
    snprintf(where, ACCEPT_WHERE_SIZE, "%.60s %s:%.0f", *host ? host : d->host, d->output->device,
             fmin(fmax(index, 0), ACCEPT_DEVICES_MAX));
    accept_metric_place(accept_metric_find(r, name), where);
    return STATUS_OK;
}

static enum status add_throttling(const struct devices *d, struct accept_result *r)
{
    const char *reason;
    for (uint32_t bit = 1; (reason = throttle_word(bit)); bit <<= 1) {
        char name[ACCEPT_NAME_SIZE];
        size_t worst = 0;
        if (bit == THROTTLE_IDLE) /* an idle device is not throttled */
            continue;
        snprintf(name, sizeof name, "throttled_%s", reason);
        for (char *c = name; *c; c++)
            *c = *c == ' ' ? '_' : *c;
        double share = throttled(d->list, reason, &worst);
        TRY(add_worst(d, name, "%", ACCEPT_LOWER, share, worst, r));
    }
    return STATUS_OK;
}

/* Adds the sensors of `n` devices; adds nothing if the run's record has fewer devices. */
static enum status add_sensors(const struct devices *d, size_t n, struct accept_result *r)
{
    if (json_array_size(d->list) < n)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++) {
        size_t worst = 0;
        double x = over_devices(d->list, sensors[i].key, sensors[i].over, &worst);
        TRY(add_worst(d, sensors[i].name, sensors[i].unit, sensors[i].better, x * sensors[i].scale,
                      worst, r));
    }
    return add_throttling(d, r);
}

/* --- the run --- */

static enum status add_run(const struct run *run, const struct accept_output *o,
                           struct accept_result *r)
{
    static const struct accept_column columns[] = {
        {"images_per_s.median", "images_per_s", "images/s", ACCEPT_HIGHER},
        {"step_s.total", "step_s", "s", ACCEPT_LOWER},
        {0}};
    int n = o->check_device < 0 ? o->n_devices : 1;
    const char *host = accept_read_text(run->info, "host.hostname");
    struct devices d = {.output = o, .host = *host ? host : "this node"};
    enum status st;
    json_t *sum = json_object();
    if (!sum)
        return status_fail(STATUS_OOM, "no memory for the summary of a run");
    CHECK(summary_add(run, sum));
    CHECK(accept_read_row(columns, sum, "", r));
    CHECK(accept_result_number(r, "images_per_s_per_device", "images/s", ACCEPT_HIGHER,
                               accept_read_number(sum, "images_per_s.median") / n));
    CHECK(add_losses(run, r));
    /* With several ranks the run's own summary has the devices of all ranks; the samples on disk
     * are only those of the first rank. */
    d.list = json_object_get(run_attempt_ranks(run, 0) > 1 ? run->summary : sum, "telemetry");
    CHECK(add_sensors(&d, (size_t)n, r));
done:
    json_decref(sum);
    return st;
}

static enum status read_run(const struct accept_output *o, struct accept_result *r)
{
    char path[ACCEPT_PATH_SIZE];
    struct run *run;
    TRY(path_format(path, sizeof path, "%s/run", o->dir));
    TRY(run_load(path, &run));
    enum status st = add_run(run, o, r);
    /* Only the run's readings of the host's load count: steps that took far longer than the median
     * may be the fault of the hardware. To a run, the other checks are other work. */
    struct host_noise noise = host_noise_read(run->summary);
    if (!o->together)
        accept_noise_keep(r, &noise);
    if (st == STATUS_OK && !run->summary)
        st = status_fail(STATUS_DATA, "the run is incomplete: it has no summary.json");
    run_free(run);
    return st;
}

const struct accept_reading accept_read_train[] = {{.read = read_run}, {0}};
