/* Draws the devices' sensors against time. */
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>

struct sensor_range {
    double x_max, power, celsius, clock_low, clock_high;
    bool throttled;
};

/* The devices of a run at one moment: `power` is the sum of their powers, `celsius` the temperature
 * of the hottest device, `clock` the clock of the slowest device. NaN: unknown. */
struct moment {
    double elapsed, power, celsius, clock;
    int64_t attempt;
    bool throttled;
};

/* Combines the rows of the sample that begins at row *k. Sets *k to the first row of the next
 * sample. */
static struct moment moment_of(const struct run *run, int64_t *k)
{
    const struct telemetry_record *first = &run->telemetry[*k];
    struct moment m = {
        .elapsed = first->elapsed, .attempt = first->attempt, .celsius = NAN, .clock = NAN};
    for (; *k < run->n_telemetry && run->telemetry[*k].sample == first->sample; ++*k) {
        const struct telemetry_record *r = &run->telemetry[*k];
        m.power += r->power_w;
        m.celsius = fmax(m.celsius, r->temperature_c); /* fmax and fmin ignore a NaN */
        m.clock = fmin(m.clock, r->clock_mhz);
        if (isfinite(r->throttle)) /* an idle device is not throttled */
            m.throttled |= ((uint32_t)r->throttle & ~(uint32_t)THROTTLE_IDLE) != 0;
    }
    return m;
}

/* Writes a row "time W degrees MHz MHz". The last column is the clock if it was throttled, else
 * NaN. */
static void moment_write(const struct moment *m, double unit, FILE *out, struct sensor_range *range)
{
    fprintf(out, "%.9g %.9g %.9g %.9g %.9g\n", m->elapsed / unit, m->power, m->celsius, m->clock,
            m->throttled ? m->clock : NAN);
    range->x_max = fmax(range->x_max, m->elapsed / unit);
    range->power = fmax(range->power, m->power);
    range->celsius = fmax(range->celsius, m->celsius);
    range->clock_low = fmin(range->clock_low, m->clock);
    range->clock_high = fmax(range->clock_high, m->clock);
    range->throttled = range->throttled || m->throttled;
}

static int64_t count_samples(const struct run *run)
{
    int64_t n = 0;
    for (int64_t k = 0; k < run->n_telemetry; k++)
        n += k == 0 || run->telemetry[k].sample != run->telemetry[k - 1].sample;
    return n;
}

/* Writes a row for every `stride`-th sample. A row shows throttling if this sample, or a sample
 * since the previous row, was throttled. */
static enum status sensor_table(const struct drawing *d, const struct figure *f, int i, double unit,
                                struct sensor_range *range)
{
    const struct run *run = d->run[i];
    struct atomic_file table;
    int64_t n = count_samples(run), stride = series_stride(n, FIGURE_MAX_ROWS), attempt = 0;
    TRY(figure_table(d, f, i, &table));
    bool throttled = false;
    for (int64_t k = 0, sample = 0; k < run->n_telemetry; sample++) {
        struct moment m = moment_of(run, &k);
        m.throttled = throttled = throttled || m.throttled;
        if (m.attempt != attempt)
            fputc('\n', table.stream); /* breaks the line */
        attempt = m.attempt;
        if (!isfinite(m.elapsed) || !(sample % stride == 0 || sample + 1 == n))
            continue;
        moment_write(&m, unit, table.stream, range);
        throttled = false;
    }
    return atomic_file_commit(&table);
}

enum status figure_telemetry(const struct drawing *d, const struct figure *f, FILE *vars,
                             bool has[FIGURE_BARS_MAX])
{
    struct sensor_range range = {.clock_low = INFINITY};
    double unit = figure_set_time(vars, d);
    for (int i = 0; i < d->n; i++) {
        has[i] = d->run[i]->n_telemetry > 0;
        if (has[i])
            TRY(sensor_table(d, f, i, unit, &range));
    }
    figure_set(vars, "x_max", range.x_max > 0 ? range.x_max : 1);
    figure_set(vars, "power_max", range.power > 0 ? 1.1 * range.power : 1);
    figure_set(vars, "celsius_max", range.celsius > 0 ? 1.1 * range.celsius : 1);
    figure_set(vars, "clock_min", isfinite(range.clock_low) ? 0.95 * range.clock_low : 0);
    figure_set(vars, "clock_max", range.clock_high > 0 ? 1.05 * range.clock_high : 1);
    figure_set(vars, "some_throttled", range.throttled);
    return STATUS_OK;
}
