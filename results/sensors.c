/* Computes energy per image, and a summary of each device's sensors. */
#include "results/sensors.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_THROTTLE = 9 };

/* The names of the bits of enum throttle, indexed by the number of the bit. */
static const char *const throttle_name[N_THROTTLE] = {
    "idle", "clocks setting", "power cap",   "hardware slowdown", "sync boost",
    "heat", "hardware heat",  "power brake", "display clocks"};

const char *throttle_word(uint32_t bit)
{
    for (int i = 0; i < N_THROTTLE; i++)
        if (bit == UINT32_C(1) << i)
            return throttle_name[i];
    return NULL;
}

void throttle_words(uint32_t bits, char out[THROTTLE_WORDS_MAX])
{
    out[0] = '\0';
    for (int i = 0; i < N_THROTTLE; i++)
        if (bits >> i & 1)
            text_join(out, THROTTLE_WORDS_MAX, ", ", "%s", throttle_name[i]);
    if (bits >> N_THROTTLE)
        text_join(out, THROTTLE_WORDS_MAX, ", ", "other");
    if (!*out)
        strcpy(out, "none");
}

static int64_t device_count(const struct run *run)
{
    int64_t n = 0;
    for (int64_t i = 0; i < run->n_telemetry; i++)
        if (run->telemetry[i].device >= n)
            n = run->telemetry[i].device + 1;
    return n;
}

/* Returns the first row of `device` at index *i or later, or NULL if there is none. */
static const struct telemetry_record *next_row(const struct run *run, int64_t device, int64_t *i)
{
    for (; *i < run->n_telemetry; ++*i)
        if (run->telemetry[*i].device == device)
            return &run->telemetry[(*i)++];
    return NULL;
}

/* Iterates over a run's steps, which are sorted by time. */
struct coverage {
    const struct run *run;
    int64_t step;
};

/* Returns the seconds of [from, to] that were spent in steps, and adds the number of images trained
 * in that time to *images. Successive calls must have ascending times. */
static double cover(struct coverage *c, double from, double to, double *images)
{
    double seconds = 0;
    const struct run *run = c->run;
    while (c->step < run->n_steps && run->step[c->step].elapsed <= from)
        c->step++;
    for (int64_t i = c->step; i < run->n_steps; i++) {
        const struct step_record *s = &run->step[i];
        double begin = s->elapsed - s->total_s;
        if (begin >= to)
            break;
        double part = fmin(to, s->elapsed) - fmax(from, begin);
        if (!(part > 0) || !(s->total_s > 0))
            continue;
        seconds += part;
        *images += (double)s->images * part / s->total_s;
    }
    return seconds;
}

/* Returns the energy of one device. joules_per_image is NaN if the energy was not measured. */
static struct energy device_energy(const struct run *run, int64_t device)
{
    struct energy e = {0};
    struct coverage c = {.run = run};
    int64_t i = 0;
    const struct telemetry_record *a = next_row(run, device, &i), *b;
    for (; a && (b = next_row(run, device, &i)); a = b) {
        double seconds = b->elapsed - a->elapsed, used = b->energy_j - a->energy_j;
        if (a->attempt != b->attempt || !(seconds > 0) || !(used >= 0))
            continue;
        e.joules += used * cover(&c, a->elapsed, b->elapsed, &e.images) / seconds;
    }
    e.joules_per_image = e.images > 0 && e.joules > 0 ? e.joules / e.images : NAN;
    return e;
}

static bool has_ranks(const struct run *run)
{
    for (size_t i = 0; i < json_array_size(run->attempts); i++)
        if (run_attempt_ranks(run, (int64_t)i) > 1)
            return true;
    return false;
}

/* Returns the sum of the energy over the epochs whose records contain an energy. joules_per_image
 * is NaN if no record contains an energy. */
static struct energy epochs_energy(const struct run *run)
{
    struct energy sum = {0};
    for (int64_t i = 0; i < run->n_epochs; i++) {
        const struct epoch_record *e = &run->epoch[i];
        if (!(e->energy_j > 0) || !(e->joules_per_image > 0))
            continue;
        sum.joules += e->energy_j;
        sum.images += e->energy_j / e->joules_per_image;
    }
    sum.joules_per_image = sum.images > 0 ? sum.joules / sum.images : NAN;
    return sum;
}

struct energy energy_of(const struct run *run)
{
    const struct energy nothing = {.joules_per_image = NAN};
    struct energy sum = {0};
    int64_t n = device_count(run);
    if (has_ranks(run))
        return epochs_energy(run);
    for (int64_t d = 0; d < n; d++) {
        struct energy e = device_energy(run, d);
        sum.joules_per_image += e.joules_per_image;
        sum.joules += e.joules;
        sum.images = d == 0 ? e.images : fmin(sum.images, e.images);
    }
    return sum.joules_per_image > 0 ? sum : nothing;
}

/* How the samples of a sensor are reduced to one number. */
enum digest { DIGEST_MEDIAN, DIGEST_MAX, DIGEST_RISE };

struct sensor {
    const char *name;
    size_t offset;
    enum digest digest;
};

#define SENSOR(member, digest)                                                                     \
    {                                                                                              \
#member, offsetof(struct telemetry_record, member), digest                                 \
    }

static const struct sensor sensors[] = {
    SENSOR(clock_mhz, DIGEST_MEDIAN),   SENSOR(memory_clock_mhz, DIGEST_MEDIAN),
    SENSOR(power_w, DIGEST_MEDIAN),     SENSOR(busy, DIGEST_MEDIAN),
    SENSOR(temperature_c, DIGEST_MAX),  SENSOR(memory_bytes, DIGEST_MAX),
    SENSOR(ecc_corrected, DIGEST_RISE), SENSOR(ecc_uncorrected, DIGEST_RISE),
};

/* Adds one sensor of one device, reduced to one number. `x` is working memory for all samples. */
static enum status add_sensor(const struct run *run, int64_t device, const struct sensor *s,
                              double *x, json_t *into)
{
    struct stats t;
    int64_t n = 0, i = 0;
    const struct telemetry_record *row;
    while ((row = next_row(run, device, &i))) {
        double v = *(const double *)((const char *)row + s->offset);
        if (isfinite(v))
            x[n++] = v;
    }
    if (n == 0)
        return STATUS_OK;
    double rise = fmax(0, x[n - 1] - x[0]);
    TRY(stats_of(x, n, &t));
    double v = s->digest == DIGEST_MEDIAN ? t.median : s->digest == DIGEST_MAX ? t.max : rise;
    json_put(into, s->name, json_finite(v));
    return STATUS_OK;
}

static void add_throttled(const struct run *run, int64_t device, json_t *into)
{
    int64_t known = 0, i = 0, count[N_THROTTLE] = {0};
    const struct telemetry_record *row;
    while ((row = next_row(run, device, &i))) {
        if (!isfinite(row->throttle))
            continue;
        known++;
        for (int k = 0; k < N_THROTTLE; k++)
            count[k] += (uint32_t)row->throttle >> k & 1;
    }
    if (known == 0)
        return;
    json_put(into, "throttled", json_object());
    for (int k = 0; k < N_THROTTLE; k++)
        if (count[k])
            json_put(json_object_get(into, "throttled"), throttle_name[k],
                     json_finite((double)count[k] / (double)known));
}

static enum status add_device(const struct run *run, int64_t device, double *x, json_t *list)
{
    int64_t samples = 0, i = 0;
    while (next_row(run, device, &i))
        samples++;
    if (samples == 0)
        return STATUS_OK;
    json_t *o =
        json_new("{s:I, s:I}", "device", (json_int_t)device, "samples", (json_int_t)samples);
    json_add(list, o);
    for (size_t k = 0; k < sizeof sensors / sizeof *sensors; k++)
        TRY(add_sensor(run, device, &sensors[k], x, o));
    add_throttled(run, device, o);
    return STATUS_OK;
}

enum status sensors_devices(const struct run *run, json_t *list)
{
    enum status st = STATUS_OK;
    int64_t n = device_count(run);
    double *x;
    TRY(array_new(&x, run->n_telemetry));
    for (int64_t d = 0; d < n && st == STATUS_OK; d++)
        st = add_device(run, d, x, list);
    free(x);
    return st;
}

enum status sensors_add(const struct run *run, json_t *into)
{
    enum status st;
    struct energy e = energy_of(run);
    json_t *list = json_array();
    CHECK(sensors_devices(run, list));
    if (json_array_size(list) == 0)
        goto done;
    json_put(into, "telemetry", json_incref(list));
    if (isfinite(e.joules_per_image))
        json_put(into, "energy",
                 json_new("{s:f, s:f, s:f, s:f}", "joules_per_image", e.joules_per_image,
                          "images_per_joule", 1 / e.joules_per_image, "joules", e.joules, "images",
                          e.images));
done:
    json_decref(list);
    return st;
}
