/* ampscale train: trains a network; it has the flags of pytorch/examples' imagenet, and more. */
#include "cli/train.h"

#include "model/graph.h"
#include "runners/on_save.h"
#include "runners/trainer.h"

#define SETTINGS_OF struct live_config
static const struct setting live_settings[] = {
    {"tensorboard", 0, "DIR", NULL, "Also write TensorBoard event files, in DIR/<name of the run>",
     AS_TEXT(tensorboard), .group = TRAIN_GROUP_RUN},
    {"prometheus", 0, "FILE", NULL, "Also keep a Prometheus textfile for node_exporter up to date",
     AS_TEXT(prometheus), .group = TRAIN_GROUP_RUN},
    {"run-name", 0, "NAME", NULL,
     "Name of the run in these files (default: for TensorBoard the last part of --out, for "
     "Prometheus --out)",
     AS_TEXT(run_name), .group = TRAIN_GROUP_RUN},
    {0},
};

static enum status train(struct train_command *t, int argc, char **argv)
{
    struct live *live;
    t->live.warnings = stderr;
    TRY(live_create(&t->live, &live));
    t->config.observer = live_observer(live);
    enum status st = trainer_run(&t->config, argc, argv, stdout);
    live_free(live);
    return st;
}

static struct train_command train_command_default(void)
{
    return (struct train_command){.config = train_config_default(),
                                  .torch = {.local_rank = -1, .world_size = -1, .rank = -1}};
}

enum status train_check_line(int argc, char **argv)
{
    struct train_command *t = cmd_train.config;
    struct graph *graph = NULL;
    *t = train_command_default();
    TRY(cli_parse(&cmd_train, argc, argv));
    TRY(train_config_check(&t->config));
    enum status st = graph_build(t->config.arch, t->config.classes, t->config.image_size, &graph);
    graph_free(graph);
    return st == STATUS_INVALID ? STATUS_USAGE : st;
}

static int run_train(const struct cli_command *c, int argc, char **argv)
{
    struct train_command *t = c->config;
    int exit_code;
    *t = train_command_default();
    if (!cli_read(c, argc, argv, &exit_code))
        return exit_code;
    if (t->config.on_save_helper)
        return cli_end(on_save_serve(&(struct on_save_config){
            t->config.on_save, t->config.on_save_helper, t->config.on_save_timeout}));
    if (t->config.desired_acc > 0 && t->config.desired_acc <= 1)
        t->config.desired_acc *= 100;
    enum status st = torch_settle(t, argc, argv);
    st = st == STATUS_OK ? train(t, argc, argv) : st;
    return cli_end(st);
}

const struct cli_command cmd_train = {
    .name = "train",
    .summary = "train a network, or validate it",
    .arguments = "[DATA]",
    .doc = "Trains a network on DATA, a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG: JPEG, "
           "PNG files, or tar archives of them (train*.tar and val*.tar).\vExit status: 0 "
           "on success, 1 on an error or divergence, 2 on wrong usage, 4 if numbers are wrong, 5 "
           "if data is missing or damaged, 128 plus the number of the signal that stopped the run.",
    .example =
        {{"Train ResNet-34; the same line resumes after an interruption",
          "ampscale train data/synth10 -a resnet34 --image-size 64 -b 64 --epochs 12 --lr 0.02 "
          "--out runs/second --resume auto"},
         {"Validate the best weights of a run",
          "ampscale train data/synth10 --evaluate --init runs/first/best.safetensors -a resnet18 "
          "--image-size 64"},
         {"Time 200 steps of ResNet-50 on synthetic images (needs a GPU)",
          "ampscale train --dummy -a resnet50 --devices cuda:0 --precision amp --steps 200"}},
    .part = {{train_settings, offsetof(struct train_command, config)},
             {train_unrecorded, offsetof(struct train_command, config)},
             {live_settings, offsetof(struct train_command, live)},
             {torch_settings}},
    .config = &(struct train_command){.live = {0}},
    .output = OUTPUT_DROPS,
    .run = run_train};
