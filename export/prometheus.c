/* Writing a textfile for Prometheus. */
#include "export/prometheus.h"

#include <math.h>
#include <string.h>

enum source { FROM_RUN, FROM_STEP, FROM_EPOCH };

/* A sample of every run. Those of one metric follow each other, and the first has the help. */
struct metric {
    const char *name;
    const char *type;
    const char *help;  /* NULL: as the one before */
    const char *label; /* beside "run"; NULL: none */
    enum source source;
    size_t offset; /* of a double in struct prometheus_run */
    double factor;
};

#define AT(member) offsetof(struct prometheus_run, member)

/* clang-format off */
static const struct metric metrics[] = {
    {"ampscale_run_finished", "gauge", "Whether the run has ended in order.", NULL, FROM_RUN, AT(finished), 1},
    {"ampscale_last_record_timestamp_seconds", "gauge", "Unix time of the last record.", NULL, FROM_RUN, AT(time), 1},
    {"ampscale_steps_total", "counter", "Training steps finished since the run began.", NULL, FROM_STEP, AT(steps), 1},
    {"ampscale_epochs_total", "counter", "Epochs finished since the run began.", NULL, FROM_EPOCH, AT(epochs), 1},
    {"ampscale_skipped_steps_total", "counter", "Training steps whose gradients overflowed.", NULL, FROM_STEP, AT(skipped), 1},
    {"ampscale_throughput_images_per_second", "gauge", "Images of the last step by its time, over all ranks.", NULL, FROM_STEP, AT(images_per_s), 1},
    {"ampscale_step_seconds", "gauge", "Time of the last training step.", NULL, FROM_STEP, AT(step.total_s), 1},
    {"ampscale_step_part_seconds", "gauge", "Parts of the last training step; comm is what nothing hid.", "part=\"data\"", FROM_STEP, AT(step.data_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"h2d\"", FROM_STEP, AT(step.h2d_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"forward\"", FROM_STEP, AT(step.forward_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"backward\"", FROM_STEP, AT(step.backward_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"comm\"", FROM_STEP, AT(step.comm_s), 1},
    {"ampscale_step_part_seconds", NULL, NULL, "part=\"optimizer\"", FROM_STEP, AT(step.optimizer_s), 1},
    {"ampscale_loss", "gauge", "Mean loss: of the last training step, of the last validation.", "phase=\"train\"", FROM_STEP, AT(step.loss), 1},
    {"ampscale_loss", NULL, NULL, "phase=\"val\"", FROM_EPOCH, AT(epoch.val_loss), 1},
    {"ampscale_accuracy_ratio", "gauge", "Share of images whose label is among the top predictions.", "phase=\"train\",top=\"1\"", FROM_STEP, AT(step.top1), 0.01},
    {"ampscale_accuracy_ratio", NULL, NULL, "phase=\"train\",top=\"5\"", FROM_STEP, AT(step.top5), 0.01},
    {"ampscale_accuracy_ratio", NULL, NULL, "phase=\"val\",top=\"1\"", FROM_EPOCH, AT(epoch.val_top1), 0.01},
    {"ampscale_accuracy_ratio", NULL, NULL, "phase=\"val\",top=\"5\"", FROM_EPOCH, AT(epoch.val_top5), 0.01},
    {"ampscale_learning_rate", "gauge", "Learning rate of the last step.", NULL, FROM_STEP, AT(step.lr), 1},
    {"ampscale_loss_scale", "gauge", "Loss scale of the last step; 0: no loss scaling.", NULL, FROM_STEP, AT(step.loss_scale), 1},
};
/* clang-format on */

void prometheus_step(struct prometheus_run *p, double time, const struct step_record *step)
{
    p->has_step = true;
    p->step = *step;
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
    p->skipped = (double)epoch->skipped; /* which counts earlier attempts too */
    p->time = time;
    if (epoch->val_images == 0)
        p->epoch.val_loss = p->epoch.val_top1 = p->epoch.val_top5 = NAN;
}

/* A label's value: what is not plain is escaped as the format says. */
static void put_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fputc('\\', out);
        if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
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

void prometheus_write(FILE *out, const struct prometheus_run *run, int n)
{
    fputs("# HELP ampscale_run_info What the run trains, and on what.\n"
          "# TYPE ampscale_run_info gauge\n",
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
}
