/* Writes a textfile for Prometheus. */
#include "export/prometheus.h"

#include "base/text.h"

#include <math.h>

enum source { FROM_RUN, FROM_STEP, FROM_EPOCH };

/* A metric of the runs, or one sample of such a metric. If a metric has several samples, they are
 * consecutive entries, and only the first entry has `help`. */
struct metric {
    const char *name;
    const char *type;
    const char *help;  /* NULL: another sample of the previous metric */
    const char *label; /* label in addition to "run"; NULL: none */
    enum source source;
    size_t offset; /* offset of a double in struct prometheus_run */
    double factor;
};

#define AT(member) offsetof(struct prometheus_run, member)

/* clang-format off */
static const struct metric metrics[] = {
    {"ampscale_run_finished", "gauge", "Whether the run is complete.", NULL, FROM_RUN, AT(finished), 1},
    {"ampscale_last_record_timestamp_seconds", "gauge", "Unix time of the last record.", NULL, FROM_RUN, AT(time), 1},
    {"ampscale_steps_total", "counter", "Training steps finished since the run began.", NULL, FROM_STEP, AT(steps), 1},
    {"ampscale_epochs_total", "counter", "Epochs finished since the run began.", NULL, FROM_EPOCH, AT(epochs), 1},
    {"ampscale_skipped_steps_total", "counter", "Training steps whose gradients overflowed.", NULL, FROM_STEP, AT(skipped), 1},
    {"ampscale_throughput_images_per_second", "gauge", "Images per second of the last step, over all ranks.", NULL, FROM_STEP, AT(images_per_s), 1},
    {"ampscale_step_seconds", "gauge", "Time of the last training step.", NULL, FROM_STEP, AT(step.total_s), 1},
    {"ampscale_step_part_seconds", "gauge", "Parts of the last training step; comm is the communication that did not overlap.", "part=\"data\"", FROM_STEP, AT(step.data_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"h2d\"", FROM_STEP, AT(step.h2d_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"forward\"", FROM_STEP, AT(step.forward_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"backward\"", FROM_STEP, AT(step.backward_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"comm\"", FROM_STEP, AT(step.comm_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"optimizer\"", FROM_STEP, AT(step.optimizer_s), 1},
    {"ampscale_loss", "gauge", "Mean loss of the last training step, and of the last validation.", "phase=\"train\"", FROM_STEP, AT(step.loss), 1},
    {"ampscale_loss", NULL, NULL, "phase=\"val\"", FROM_EPOCH, AT(epoch.val_loss), 1},
    {"ampscale_accuracy_ratio", "gauge", "Share of images whose label is among the top predictions.", "phase=\"train\",top=\"1\"", FROM_STEP, AT(step.top1), 0.01},
    {"ampscale_accuracy_ratio", NULL, NULL, "phase=\"train\",top=\"5\"", FROM_STEP, AT(step.top5), 0.01},
    {"ampscale_accuracy_ratio", NULL, NULL, "phase=\"val\",top=\"1\"", FROM_EPOCH, AT(epoch.val_top1), 0.01},
    {"ampscale_accuracy_ratio", NULL, NULL, "phase=\"val\",top=\"5\"", FROM_EPOCH, AT(epoch.val_top5), 0.01},
    {"ampscale_learning_rate", "gauge", "Learning rate of the last step.", NULL, FROM_STEP, AT(step.lr), 1},
    {"ampscale_loss_scale", "gauge", "Loss scale of the last step; absent without loss scaling.", NULL, FROM_STEP, AT(step.loss_scale), 1},
};
/* clang-format on */

/* A sensor of the devices. `help` also contains the sensor's name in DCGM's exporter; that exporter
 * uses other units. */
struct sensor {
    const char *name, *type, *help;
    size_t offset; /* offset of a double in struct telemetry_record */
    double factor;
};

/* clang-format off */
static const struct sensor sensors[] = {
    {"ampscale_device_power_watts", "gauge", "Power of the device (DCGM_FI_DEV_POWER_USAGE).", offsetof(struct telemetry_record, power_w), 1},
    {"ampscale_device_energy_joules_total", "counter", "Energy used since the run, or its last attempt, began (DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION).", offsetof(struct telemetry_record, energy_j), 1},
    {"ampscale_device_temperature_celsius", "gauge", "Temperature of the device (DCGM_FI_DEV_GPU_TEMP).", offsetof(struct telemetry_record, temperature_c), 1},
    {"ampscale_device_clock_hertz", "gauge", "Clock of the multiprocessors, or cores (DCGM_FI_DEV_SM_CLOCK).", offsetof(struct telemetry_record, clock_mhz), 1e6},
    {"ampscale_device_memory_clock_hertz", "gauge", "Clock of the memory (DCGM_FI_DEV_MEM_CLOCK).", offsetof(struct telemetry_record, memory_clock_mhz), 1e6},
    {"ampscale_device_throttle_reasons", "gauge", "Reasons why the clock is below its maximum, a sum of NVML's bits (DCGM_FI_DEV_CLOCK_THROTTLE_REASONS).", offsetof(struct telemetry_record, throttle), 1},
    {"ampscale_device_utilization_ratio", "gauge", "Share of the time in which a kernel ran (DCGM_FI_DEV_GPU_UTIL).", offsetof(struct telemetry_record, busy), 0.01},
    {"ampscale_device_memory_utilization_ratio", "gauge", "Share of the time in which memory was accessed (DCGM_FI_DEV_MEM_COPY_UTIL).", offsetof(struct telemetry_record, memory_busy), 0.01},
    {"ampscale_device_memory_used_bytes", "gauge", "Memory in use on the device, by all processes (DCGM_FI_DEV_FB_USED).", offsetof(struct telemetry_record, memory_bytes), 1},
    {"ampscale_device_ecc_corrected_errors_total", "counter", "Corrected memory errors (DCGM_FI_DEV_ECC_SBE_VOL_TOTAL).", offsetof(struct telemetry_record, ecc_corrected), 1},
    {"ampscale_device_ecc_uncorrected_errors_total", "counter", "Uncorrected memory errors (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL).", offsetof(struct telemetry_record, ecc_uncorrected), 1},
};
/* clang-format on */

void prometheus_telemetry(struct prometheus_run *p, double time, const struct telemetry_record *row)
{
    if (row->device < 0 || row->device >= TELEMETRY_DEVICES_MAX)
        return;
    for (; p->n_devices <= row->device; p->n_devices++)
        p->sampled[p->n_devices] = telemetry_nothing;
    p->sampled[row->device] = *row;
    p->time = time > p->time ? time : p->time;
}

void prometheus_step(struct prometheus_run *p, double time, const struct step_record *step)
{
    p->has_step = true;
    p->step = *step;
    if (!(step->loss_scale > 0))
        p->step.loss_scale = NAN;
    p->images_per_s = (double)step->images / step->total_s;
    p->steps = (double)step->step + 1;
    p->skipped += (double)step->skipped;
    p->time = time;
}

void prometheus_epoch(struct prometheus_run *p, double time, const struct epoch_record *epoch)
{
    p->has_epoch = true;
    p->epoch = *epoch;
    p->epochs = (double)epoch->epoch + 1;
    p->skipped = (double)epoch->skipped; /* includes earlier attempts */
    p->time = time;
    if (epoch->val_images == 0)
        p->epoch.val_loss = p->epoch.val_top1 = p->epoch.val_top5 = NAN;
}

/* Writes a label; its value is cleaned, and escaped as the format requires. */
static void put_label(FILE *out, const char *name, const char *value)
{
    char clean[1024];
    text_clean(clean, sizeof clean, value);
    fprintf(out, "%s=\"", name);
    for (const char *c = clean; *c; c++) {
        if (*c == '\\' || *c == '"')
            fputc('\\', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

static void put_info(FILE *out, const struct prometheus_run *r)
{
    fputs("ampscale_run_info{", out);
    put_label(out, "run", r->name);
    put_label(out, ",arch", r->arch);
    put_label(out, ",precision", r->precision);
    put_label(out, ",mode", r->mode);
    put_label(out, ",device", r->device);
    fputs("} 1\n", out);
}

static void put_sample(FILE *out, const struct metric *m, const struct prometheus_run *r)
{
    double value = *(const double *)((const char *)r + m->offset) * m->factor;
    if ((m->source == FROM_STEP && !r->has_step) || (m->source == FROM_EPOCH && !r->has_epoch) ||
        !isfinite(value))
        return;
    fprintf(out, "%s{", m->name);
    put_label(out, "run", r->name);
    fprintf(out, "%s%s} %.15g\n", m->label ? "," : "", m->label ? m->label : "", value);
}

/* Writes the samples of a sensor for all devices that have the sensor. Writes no heading if no
 * device has it. */
static void put_sensor(FILE *out, const struct sensor *s, const struct prometheus_run *run, int n)
{
    bool named = false;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < run[i].n_devices; k++) {
            const char *row = (const char *)&run[i].sampled[k];
            double value = *(const double *)(const void *)(row + s->offset) * s->factor;
            if (!isfinite(value))
                continue;
            if (!named)
                fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", s->name, s->help, s->name, s->type);
            named = true;
            fprintf(out, "%s{", s->name);
            put_label(out, "run", run[i].name);
            fprintf(out, ",device=\"%d\"} %.15g\n", k, value);
        }
    }
}

void prometheus_write(FILE *out, const struct prometheus_run *run, int n)
{
    fputs("# HELP ampscale_run_info Configuration and hardware of the run.\n# TYPE "
          "ampscale_run_info gauge\n",
          out);
    for (int i = 0; i < n; i++)
        put_info(out, &run[i]);
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        const struct metric *m = &metrics[k];
        if (m->help)
            fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
        for (int i = 0; i < n; i++)
            put_sample(out, m, &run[i]);
    }
    for (size_t k = 0; k < sizeof sensors / sizeof *sensors; k++)
        put_sensor(out, &sensors[k], run, n);
}
