/* ampscale export: records in the formats of other programs. */
#include "export/export.h"

#include "base/array.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/cli.h"
#include "runners/checkpoint.h"

#include <stdlib.h>

/* The only format that does not export records. It exports the weights of the newest checkpoint. */
enum { TORCH_WEIGHTS = EXPORT_FORMATS };

struct export_config {
    char **dir; /* (n) folders of the runs; the texts belong to argv */
    int n;
    bool chosen; /* --format was given */
    struct export_options options;
};

/* The names of the formats are in the order of enum export_format. TORCH_WEIGHTS comes last. */
#define SETTINGS_OF struct export_config
static const struct setting export_settings[] = {
    {"format", 0, "tensorboard|mlperf|prometheus|csv|torch-weights", NULL,
     "Format to write (required)", AS_CHOICE(options.format), GIVEN(chosen)},
    {"out", 'o', "FILE|DIR", NULL,
     "Where to write (required): a folder for tensorboard and csv, a file for the other formats",
     AS_TEXT(options.out)},
    {"run-name", 0, "NAME", NULL,
     "Name of the run in the output (default: its folder's, for prometheus RUN)",
     AS_TEXT(options.run_name)},
    {"division", 0, "open|closed", "open",
     "mlperf: division of ruleset 4.0.0 that the run is compared with", AS_CHOICE(options.closed)},
    {NULL, 0, "RUN", NULL, NULL, AS_ARGUMENTS(dir, n)},
    {0},
};

static enum status check(const struct export_config *c)
{
    if (c->n == 0)
        return status_fail(STATUS_USAGE, "no run to export: give the folder of a run");
    if (!c->chosen)
        return status_fail(STATUS_USAGE, "no format: give --format tensorboard, mlperf, "
                                         "prometheus, csv or torch-weights");
    if (!c->options.out)
        return status_fail(STATUS_USAGE, "no place to export to: give -o FILE, or -o DIR");
    return STATUS_OK;
}

/* Writes the weights of the run's newest checkpoint for PyTorch. */
static enum status export_weights(const struct export_config *c)
{
    char path[4096];
    if (c->n > 1)
        return status_fail(STATUS_USAGE, "torch-weights exports only one run, but %d were given",
                           c->n);
    TRY(path_format(path, sizeof path, "%s/%s", c->dir[0], CHECKPOINT_NAME));
    TRY(checkpoint_export_weights(path, c->options.out, c->options.proceed));
    text_print(stdout, "%s", c->options.out);
    return STATUS_OK;
}

static enum status export_work(void *config)
{
    enum status st;
    struct export_config *c = config;
    struct run **run;
    TRY(check(c));
    stop_install(); /* so that a signal removes partial files */
    if ((int)c->options.format == TORCH_WEIGHTS)
        return export_weights(c);
    TRY(array_new(&run, c->n));
    c->options.written = stdout;
    c->options.warnings = stderr;
    for (int i = 0; i < c->n; i++) {
        CHECK(run_load(c->dir[i], &run[i]));
        CHECK(stop_check());
    }
    CHECK(export_runs((const struct run *const *)run, c->n, &c->options));
done:
    for (int i = 0; i < c->n; i++)
        run_free(run[i]);
    free(run);
    return st;
}

const struct cli_command cmd_export = {
    .name = "export",
    .summary = "write records for TensorBoard, MLPerf, Prometheus and others",
    .arguments = "RUN...",
    .doc = "Writes the records of runs for other programs: TensorBoard's event files, MLPerf's "
           ":::MLLOG lines, a textfile for Prometheus, CSV tables; "
           "or the weights of a run's newest checkpoint as PyTorch's state_dict. RUN is the folder "
           "of 'ampscale train --out'. Prints the names of the written files.",
    .example = {{"For TensorBoard: 'tensorboard --logdir tb' shows the run",
                 "ampscale export runs/first --format tensorboard -o tb"},
                {"Tables of steps, epochs, ranks and sensors",
                 "ampscale export runs/first runs/second --format csv -o tables"},
                {"Weights that PyTorch's load_state_dict accepts",
                 "ampscale export runs/first --format torch-weights -o resnet18.safetensors"}},
    .part = {{export_settings}},
    .config = &(struct export_config){.options.proceed = stop_check},
    .work = export_work};
