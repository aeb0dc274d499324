/* ampscale data: makes synthetic data sets, and looks at any. */
#include "base/file.h"
#include "base/host.h"
#include "cli/cli.h"
#include "input/scan.h"
#include "input/synth.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_OUT = 256, KEY_CLASSES, KEY_TRAIN, KEY_VAL, KEY_SEED, KEY_SIZE, KEY_FORCE, KEY_JSON };

/* Reads a number into an int; argp's way to say that it failed. */
static error_t parse_int(const char *flag, const char *arg, int min, int max, int *out)
{
    int64_t n;
    if (cli_int(flag, arg, min, max, &n) != STATUS_OK)
        return EINVAL;
    *out = (int)n;
    return 0;
}

static FILE *progress_stream(void)
{
    return isatty(STDERR_FILENO) ? stderr : NULL;
}

/* ---- synth ---- */

static const struct argp_option synth_options[] = {
    {"out", KEY_OUT, "DIR", 0, "Folder to write (required)", 0},
    {"classes", KEY_CLASSES, "N", 0, "Classes (default 10)", 0},
    {"train", KEY_TRAIN, "N", 0, "Training images per class (default 200)", 0},
    {"val", KEY_VAL, "N", 0, "Validation images per class (default 50)", 0},
    {"size", KEY_SIZE, "PX", 0, "Typical side of an image (default 375, as ImageNet's)", 0},
    {"seed", KEY_SEED, "N", 0, "Another seed gives other images (default 0)", 0},
    {"workers", 'j', "N", 0, "Threads (default: all cores); the images do not depend on it", 0},
    {"force", KEY_FORCE, NULL, 0, "Write into a folder that holds other things; deletes none", 0},
    {0},
};

static error_t parse_synth(int key, char *arg, struct argp_state *state)
{
    struct synth_config *c = state->input;
    int64_t seed;
    switch (key) {
    case KEY_OUT:
        c->out = arg;
        return 0;
    case KEY_CLASSES:
        return parse_int("--classes", arg, 1, SYNTH_MAX_CLASSES, &c->classes);
    case KEY_TRAIN:
        return parse_int("--train", arg, 1, 1000000, &c->train);
    case KEY_VAL:
        return parse_int("--val", arg, 1, 1000000, &c->val);
    case KEY_SIZE:
        return parse_int("--size", arg, SYNTH_MIN_SIZE, SYNTH_MAX_SIZE, &c->size);
    case KEY_SEED:
        if (cli_int("--seed", arg, 0, INT64_MAX, &seed) != STATUS_OK)
            return EINVAL;
        c->seed = (uint64_t)seed;
        return 0;
    case 'j':
        return parse_int("-j", arg, 1, 1024, &c->workers);
    case KEY_FORCE:
        c->force = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int run_synth(int argc, char **argv)
{
    static const struct argp argp = {
        .options = synth_options,
        .parser = parse_synth,
        .doc = "Writes DIR/train/<class>/*.JPEG and DIR/val/<class>/*.JPEG: shapes and textures "
               "that a convolutional network learns and a linear classifier does not. The same "
               "options give the same bytes; an interrupted run is completed by the same command.",
    };
    struct synth_config c = {.classes = 10,
                             .train = 200,
                             .val = 50,
                             .size = 375,
                             .workers = host_cores(),
                             .progress = progress_stream()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    if (!c.out)
        return cli_fail(status_fail(STATUS_USAGE, "nowhere to write: give --out DIR"));
    enum status st = synth_write(&c);
    if (st != STATUS_OK)
        return cli_fail(st);
    printf("%s: %d classes, %d training and %d validation images each\n", c.out, c.classes, c.train,
           c.val);
    return 0;
}

/* ---- scan ---- */

struct scan_config {
    const char *dir;
    int workers;
    bool json;
};

static const struct argp_option scan_options[] = {
    {"workers", 'j', "N", 0, "Threads (default: all cores)", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
    {0},
};

static error_t parse_scan(int key, char *arg, struct argp_state *state)
{
    struct scan_config *c = state->input;
    switch (key) {
    case 'j':
        return parse_int("-j", arg, 1, 1024, &c->workers);
    case KEY_JSON:
        c->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (c->dir)
            return ARGP_ERR_UNKNOWN;
        c->dir = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What was found: per split, and a list of sentences about what is missing. */
struct findings {
    struct dataset *data[2];
    struct scan_report *report[2];
    json_t *problems;
};

static const char *const splits[2] = {"train", "val"};

static enum status add_problem(struct findings *f)
{
    if (json_array_append_new(f->problems, json_string(status_message())) != 0)
        return status_fail(STATUS_OOM, "no memory for a list of problems");
    return STATUS_OK;
}

/* Missing and damaged data is a finding; anything else ends the scan. */
static enum status note(struct findings *f, enum status st)
{
    return st == STATUS_DATA ? add_problem(f) : st;
}

static enum status look(const struct scan_config *c, struct findings *f)
{
    f->problems = json_array();
    if (!f->problems)
        return status_fail(STATUS_OOM, "no memory for a list of problems");
    if (!path_is_dir(c->dir))
        return status_fail(STATUS_DATA, "there is no folder '%s'", c->dir);
    TRY(note(f, synth_check_complete(c->dir)));
    for (int s = 0; s < 2; s++)
        TRY(note(f, dataset_open(c->dir, splits[s], &f->data[s])));
    if (f->data[0] && f->data[1])
        TRY(note(f, dataset_check_pair(f->data[0], f->data[1])));
    for (int s = 0; s < 2; s++)
        if (f->data[s])
            TRY(scan_run(f->data[s], c->workers, progress_stream(), &f->report[s]));
    return STATUS_OK;
}

static bool all_well(const struct findings *f)
{
    bool well = json_array_size(f->problems) == 0;
    for (int s = 0; s < 2; s++)
        well = well && f->report[s] && f->report[s]->n_bad == 0;
    return well;
}

static void print_range(const char *name, struct scan_range r, const char *unit)
{
    printf("  %-18s %" PRId64 " .. %" PRId64 " .. %" PRId64 "%s\n", name, r.min, r.median, r.max,
           unit);
}

static void print_split(const struct dataset *d, const struct scan_report *r)
{
    printf("%s: %d class%s, %" PRId64 " image%s, %.1f MB\n", d->root, d->classes,
           d->classes == 1 ? "" : "es", r->images, r->images == 1 ? "" : "s",
           (double)r->bytes / 1e6);
    puts("                     min .. median .. max");
    print_range("images per class", r->per_class, "");
    print_range("width", r->width, " px");
    print_range("height", r->height, " px");
    print_range("file size", r->sizes, " bytes");
    printf("  grayscale %" PRId64 ", CMYK %" PRId64 ", progressive %" PRId64 ", bad %" PRId64 "\n",
           r->gray, r->cmyk, r->progressive, r->n_bad);
    for (int64_t i = 0; i < r->n_bad; i++)
        printf("  bad: %s/%s: %s\n", d->root, dataset_path(d, r->bad[i].sample), r->bad[i].reason);
}

static void print_text(const struct findings *f)
{
    for (int s = 0; s < 2; s++)
        if (f->report[s])
            print_split(f->data[s], f->report[s]);
    for (size_t i = 0; i < json_array_size(f->problems); i++)
        printf("problem: %s\n", json_string_value(json_array_get(f->problems, i)));
    if (all_well(f))
        puts("all is well");
}

static json_t *range_json(struct scan_range r)
{
    return json_pack("{s:I, s:I, s:I}", "min", (json_int_t)r.min, "median", (json_int_t)r.median,
                     "max", (json_int_t)r.max);
}

/* A file name need not be text; what is not UTF-8 is replaced, as JSON cannot hold it. */
static json_t *path_json(const char *path)
{
    json_t *text = json_string(path);
    if (text)
        return text;
    char ascii[4096];
    snprintf(ascii, sizeof ascii, "%s", path);
    for (char *p = ascii; *p; p++)
        if ((unsigned char)*p >= 128)
            *p = '?';
    return json_string(ascii);
}

static json_t *split_json(const struct dataset *d, const struct scan_report *r)
{
    json_t *bad = json_array();
    for (int64_t i = 0; i < r->n_bad; i++)
        json_array_append_new(bad, json_pack("{s:o, s:o}", "path",
                                             path_json(dataset_path(d, r->bad[i].sample)), "reason",
                                             path_json(r->bad[i].reason)));
    return json_pack("{s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "classes",
                     d->classes, "images", (json_int_t)r->images, "bytes", (json_int_t)r->bytes,
                     "images_per_class", range_json(r->per_class), "width", range_json(r->width),
                     "height", range_json(r->height), "file_bytes", range_json(r->sizes),
                     "grayscale", (json_int_t)r->gray, "cmyk", (json_int_t)r->cmyk, "progressive",
                     (json_int_t)r->progressive, "bad", bad);
}

static enum status print_json(const struct scan_config *c, const struct findings *f)
{
    json_t *root = json_pack("{s:o, s:b, s:O}", "dir", path_json(c->dir), "ok", (int)all_well(f),
                             "problems", f->problems);
    for (int s = 0; s < 2; s++)
        if (f->report[s])
            json_object_set_new(root, splits[s], split_json(f->data[s], f->report[s]));
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        return status_fail(STATUS_OOM, "no memory to print what was found");
    puts(text);
    free(text);
    return STATUS_OK;
}

static int run_scan(int argc, char **argv)
{
    static const struct argp argp = {
        .options = scan_options,
        .parser = parse_scan,
        .args_doc = "DIR",
        .doc = "Decodes every image of DIR/train and DIR/val and says what they are: classes, "
               "counts, sizes, formats, and which files are missing or corrupt.\v"
               "Exit status: 0 all is well, 5 something is missing or corrupt.",
    };
    struct scan_config c = {.workers = host_cores()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    if (!c.dir)
        return cli_fail(
            status_fail(STATUS_USAGE, "nothing to scan: give the folder of a data set"));
    struct findings f = {0};
    enum status st = look(&c, &f);
    if (st == STATUS_OK && c.json)
        st = print_json(&c, &f);
    else if (st == STATUS_OK)
        print_text(&f);
    exit_code = st != STATUS_OK ? cli_fail(st) : all_well(&f) ? 0 : status_exit_code(STATUS_DATA);
    for (int s = 0; s < 2; s++) {
        scan_free(f.report[s]);
        dataset_free(f.data[s]);
    }
    json_decref(f.problems);
    return exit_code;
}

int cmd_data(int argc, char **argv)
{
    static const struct cli_command commands[] = {
        {"synth", "make a synthetic data set", run_synth},
        {"scan", "look for missing and corrupt files", run_scan},
        {0},
    };
    return cli_run(commands, "Makes data sets, and looks at any.", argc, argv);
}
