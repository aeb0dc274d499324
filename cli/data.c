/* ampscale data: makes synthetic data sets, and scans data sets. */
#include "base/bar.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/host.h"
#include "base/text.h"
#include "cli/cli.h"
#include "input/scan.h"
#include "input/synth.h"

#include <stdio.h>
#include <unistd.h>

/* ---- synth ---- */

struct synth_args {
    struct synth_config config;
    bool quiet;
};

#define SETTINGS_OF struct synth_args
static const struct setting synth_settings[] = {
    {"out", 0, "DIR", NULL, "Folder to write", AS_TEXT(config.out)},
    {"classes", 0, "N", "10", "Classes", AS_INTEGER(config.classes, 1, SYNTH_MAX_CLASSES)},
    {"train", 0, "N", "200", "Training images per class", AS_INTEGER(config.train, 1, 1000000)},
    {"val", 0, "N", "50", "Validation images per class", AS_INTEGER(config.val, 1, 1000000)},
    {"size", 0, "PX", NULL, "Typical side of an image in pixels (default 375, as in ImageNet)",
     AS_INTEGER(config.size, SYNTH_MIN_SIZE, SYNTH_MAX_SIZE)},
    {"seed", 0, "N", "0", "Random seed of the images", AS_INTEGER(config.seed, 0, 0x1p63)},
    {"workers", 'j', "N", NULL, "Threads (default: all cores); no effect on the images",
     AS_INTEGER(config.workers, 1, 1024)},
    {"force", 0, NULL, NULL, "Write even if the folder holds other files; nothing is deleted",
     AS_SWITCH(config.force)},
    QUIET_ROW(quiet),
    {0},
};
#undef SETTINGS_OF

static enum status synth(void *args)
{
    struct synth_args *a = args;
    struct synth_config *c = &a->config;
    struct bar bar = {.out = bar_stream(a->quiet), .title = "images"};
    int lock;
    if (!c->out)
        return status_fail(STATUS_USAGE, "no folder to write to: give --out DIR");
    c->workers = c->workers ? c->workers : host_cores();
    c->bar = &bar;
    TRY(dir_make(c->out));
    TRY(dir_lock(c->out, "ampscale data synth", 0, &lock));
    enum status st = synth_write(c);
    close(lock);
    TRY(st);
    text_print(stdout, "%s: %d classes, %d training and %d validation images each", c->out,
               c->classes, c->train, c->val);
    return STATUS_OK;
}

static const struct cli_command data_synth = {
    .name = "synth",
    .summary = "make a synthetic data set",
    .doc = "Writes DIR/train/<class>/*.JPEG and DIR/val/<class>/*.JPEG: shapes and textures that a "
           "convolutional network learns and a linear classifier does not. The same options give "
           "the same bytes. To complete an interrupted data set, run the same command again.",
    .example = {{"The quickstart's data set: 10 classes of 200 + 50 small images",
                 "ampscale data synth --out data/synth10 --size 96"},
                {"A larger one, with images of ImageNet's size",
                 "ampscale data synth --out data/synth100 --classes 100 --train 500"}},
    .part = {{synth_settings}},
    .config = &(struct synth_args){.config.size = 375},
    .work = synth};

/* ---- scan ---- */

struct scan_config {
    const char *dir;
    int workers;
    bool json, quiet;
};

#define SETTINGS_OF struct scan_config
static const struct setting scan_settings[] = {
    {"workers", 'j', "N", NULL, "Threads (default: all cores)", AS_INTEGER(workers, 1, 1024)},
    JSON_ROW(json),
    QUIET_ROW(quiet),
    {NULL, 0, "DIR", NULL, NULL, AS_TEXT(dir)},
    {0},
};

static enum status scan(void *config)
{
    const struct scan_config *c = config;
    struct bar bar = {.out = bar_stream(c->quiet), .title = "images"};
    bool sound;
    if (!c->dir)
        return status_fail(STATUS_USAGE, "nothing to scan: give the folder of a data set");
    TRY(scan_folder(c->dir, c->workers ? c->workers : host_cores(), &bar, c->json, stdout, &sound));
    return sound ? STATUS_OK : status_fail(STATUS_DATA, "%s", ""); /* scan_folder has already
                                                                    * printed the reason */
}

static const struct cli_command data_scan = {
    .name = "scan",
    .summary = "find missing and corrupt files in a data set",
    .arguments = "DIR",
    .doc = "Decodes every image of DIR/train and DIR/val (JPEG, PNG; files, or tar archives) "
           "and reports classes, counts, sizes, formats, and the files that are missing or "
           "corrupt.\vExit status: 0 if all is well, 5 if something is missing or corrupt.",
    .example = {{"Check the quickstart's data set", "ampscale data scan data/synth10"},
                {"The same as JSON", "ampscale data scan data/synth10 --json -o scan.json"}},
    .part = {{scan_settings}},
    .prints = true,
    .config = &(struct scan_config){0},
    .work = scan};

const struct cli_command cmd_data = {
    .name = "data",
    .summary = "make a synthetic data set, or check any data set for damage",
    .doc = "Makes synthetic data sets, and checks any data set.",
    .example = {{"Make the quickstart's data set",
                 "ampscale data synth --out data/synth10 --size 96"},
                {"Check it", "ampscale data scan data/synth10"}},
    .commands = (const struct cli_command *const[]){&data_synth, &data_scan, NULL}};
