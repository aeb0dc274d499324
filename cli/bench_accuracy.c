/* ampscale bench accuracy: a training at each precision, compared with recorded runs. */
#include "bench/accuracy.h"

#include "cli/bench_options.h"

#include <string.h>

struct accuracy_command {
    struct accuracy_config config;
    bool print;
};

static enum status take_precision(const struct setting *s, const char *part, void *config)
{
    struct accuracy_config *c = config;
    if (c->n_rows == ACCURACY_ROWS_MAX || strlen(part) >= sizeof *c->precision)
        return status_fail(STATUS_USAGE, "--precisions '%s': this name or the list is too long",
                           part);
    TRY(bench_take_precision(s, part, config));
    strcpy(c->precision[c->n_rows++], part);
    return STATUS_OK;
}

#define SETTINGS_OF struct accuracy_command
static const struct setting accuracy_settings[] = {
    {"precisions", 0, "P,...", "fp32,O1,bf16,tf32,O2", "Precisions, named as for train",
     PARTS_TAKEN_BY(take_precision, config.n_rows)},
    {"quick", 0, NULL, NULL, "Train for seconds only, and compare only with runs of --recorded",
     AS_SWITCH(config.quick)},
    {"recorded", 0, "DIR", NULL,
     "Folder of runs to compare with (default: those built into the program)",
     AS_TEXT(config.recorded)},
    {"print-reference", 0, NULL, NULL, "Print the recorded accuracies as JSON and exit",
     AS_SWITCH(print)},
    {0},
};

static enum status run_accuracy(void *command)
{
    const struct accuracy_command *c = command;
    return c->print ? accuracy_print_reference(&c->config) : bench_accuracy(&c->config);
}

const struct cli_command cmd_bench_accuracy = {
    .name = "accuracy",
    .summary = "accuracy of a short training at each precision, compared with recorded runs",
    .doc = "Trains the quickstart's network at each precision, each in its own process, and "
           "compares the accuracy with that of recorded runs on a CPU.\vExit status: 0 if all "
           "accuracies are in range, 1 on an error, 2 on wrong usage, 4 if an accuracy is out of "
           "range, 5 if a precision has no result.",
    .example = {{"Compare the accuracy in fp32 and O1 with recorded runs: minutes",
                 "ampscale bench accuracy --precisions fp32,O1"},
                {"All precisions on a GPU, in at most ten minutes (needs a GPU)",
                 "ampscale bench accuracy --devices cuda:0 --budget 600 --out results/accuracy"}},
    .part = {{bench_device_settings}, {bench_child_settings}, {accuracy_settings}},
    .prints = true,
    .config = &(struct accuracy_command){.print = false},
    .work = run_accuracy};
