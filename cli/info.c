/* ampscale info: the build, the devices, the networks, and the layers or types of a network. */
#include "base/json.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "config.h"
#include "kernels/backend.h"
#include "model/describe.h"
#include "results/environment.h"
#include "telemetry/telemetry.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct info_config {
    const char *arch;   /* NULL: not given */
    const char *policy; /* NULL: not given */
    int image_size, classes;
    bool sized; /* image_size or classes was given */
    bool list, json;
};

/* Prints a network's layers or, if a precision policy is given, the layers' types under it. */
static enum status info_network(const struct info_config *c)
{
    struct policy p;
    struct graph *g;
    if (c->policy)
        TRY(policy_find(c->policy, -1, &p));
    TRY(graph_build(c->arch, c->classes, c->image_size, &g));
    if (c->policy)
        describe_policy(&p, g, c->json, stdout);
    else
        describe_layers(g, c->json, stdout);
    graph_free(g);
    return STATUS_OK;
}

/* Adds to `types` whether the device computes in each type, or rounds fp32 to it, which says
 * nothing about the type's speed: {"fp32": "native", "fp16": "emulated"}. Leaves out types that it
 * refuses.
 */
static void add_types(struct device *dev, json_t *types)
{
    static const enum dtype known[] = {DTYPE_F32, DTYPE_TF32, DTYPE_BF16, DTYPE_F16};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (device_admit(dev, known[i]) == STATUS_OK)
            json_put(types, dtype_str(known[i]),
                     json_utf8(device_native(dev, known[i]) ? "native" : "emulated"));
}

/* Shows a device, or the reason why it cannot be used; nothing if it does not exist (STATUS_USAGE).
 */
static enum status show_device(const struct info_config *c, json_t *devices, const char *spec)
{
    char line[512];
    const char *type, *before = "; ";
    struct device *dev;
    json_t *types = json_object(), *how;
    enum status st = device_open(spec, 0, &dev);
    bool usable = st == STATUS_OK;
    snprintf(line, sizeof line, "%s", status_message());
    if (usable) {
        dev->backend->describe(dev, line, sizeof line);
        add_types(dev, types);
        device_close(dev);
    }
    if (st != STATUS_USAGE)
        json_add(devices, json_new("{s:s, s:b, s:s, s:O}", "device", spec, "usable", usable,
                                   "description", line, "types", types));
    if (st != STATUS_USAGE && !c->json) {
        printf("  %-8s %s%s", spec, usable ? "" : "not available: ", line);
        json_object_foreach(types, type, how)
        {
            printf("%s%s %s", before, type, json_string_value(how));
            before = ", ";
        }
        printf("\n");
    }
    json_decref(types);
    return st;
}

/* Shows GPU 0, GPU 1 and so on, up to the first index that does not exist. If GPUs cannot be
 * counted, not even one that does not exist is known not to exist: shows the reason. */
static void show_gpus(const struct info_config *c, json_t *devices)
{
    char spec[16];
    struct device *none;
    bool counted = device_open("cuda:1023", 0, &none) == STATUS_USAGE;
    for (int i = 0;; i++) {
        snprintf(spec, sizeof spec, "cuda:%d", i);
        enum status st = show_device(c, devices, spec);
        if (st == STATUS_USAGE || (st != STATUS_OK && !counted))
            return;
    }
}

/* Makes a list of all usable GPUs, as the management library describes them. The list may be
 * empty. */
static enum status describe_gpus(const json_t *devices, json_t **out)
{
    enum { GPUS_MAX = TELEMETRY_DEVICES_MAX };
    int index[GPUS_MAX], n = 0;
    size_t i;
    json_t *d;
    struct telemetry *t;
    *out = json_array();
    json_array_foreach((json_t *)devices, i, d)
    {
        const char *name = json_string_value(json_object_get(d, "device"));
        if (strncmp(name, "cuda:", 5) == 0 && json_is_true(json_object_get(d, "usable")) &&
            n < GPUS_MAX)
            index[n++] = atoi(name + 5);
    }
    if (n == 0)
        return STATUS_OK;
    const struct telemetry_config config = {.seconds = 1, .gpu = true, .n = n, .index = index};
    TRY(telemetry_open(&config, &t));
    json_t *facts = telemetry_facts(t);
    json_array_extend(*out, json_object_get(facts, "devices"));
    json_decref(facts);
    telemetry_close(t);
    return STATUS_OK;
}

/* Prints the build as JSON; takes ownership of `devices`. */
static enum status print_build_json(json_t *devices)
{
    json_t *gpus = NULL;
    enum status st;
    CHECK(describe_gpus(devices, &gpus));
    json_t *all =
        json_new("{s:s, s:{s:s, s:s, s:s}, s:O, s:O, s:o}", "compiler", AMPSCALE_COMPILER,
                 "libraries", "MPI", comm_mpi_version(), "jansson", jansson_version_str(), "zlib",
                 zlibVersion(), "devices", devices, "gpus", gpus, "host", environment_describe());
    environment_program(all);
    json_print(all, stdout, JSON_COMPACT);
done:
    json_decref(devices);
    json_decref(gpus);
    return st;
}

static enum status info_build(const struct info_config *c)
{
    static const char *const specs[] = {"cpu", "ref"};
    json_t *devices = json_array();
    if (!c->json)
        printf("ampscale %s (%s build)\ncompiler   %s\nlibraries  MPI: %s, jansson %s, zlib %s\n"
               "devices\n",
               environment_version(), AMPSCALE_BUILD_TYPE, AMPSCALE_COMPILER, comm_mpi_version(),
               jansson_version_str(), zlibVersion());
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        (void)show_device(c, devices, specs[i]);
    show_gpus(c, devices);
    if (c->json)
        return print_build_json(devices);
    json_decref(devices);
    return STATUS_OK;
}

#define SETTINGS_OF struct info_config
static const struct setting info_settings[] = {
    {"arch", 'a', "ARCH", NULL, "Show the layers of this network", AS_TEXT(arch)},
    {"image-size", 0, "N", "224", "Side of the network's images in pixels",
     AS_INTEGER(image_size, 1, IMAGE_SIZE_MAX), GIVEN(sized)},
    {"classes", 0, "N", "1000", "Number of classes", AS_INTEGER(classes, 1, CLASSES_MAX),
     GIVEN(sized)},
    {"policy", 0, "fp32|tf32|amp|bf16|O0|O1|O2|O3", NULL,
     "Show each layer's types at this precision (default network: resnet50)", AS_TEXT(policy)},
    {"list", 0, NULL, NULL, "List the networks", AS_SWITCH(list)},
    JSON_ROW(json),
    {0},
};

static enum status info(void *config)
{
    struct info_config *c = config;
    if (c->list && (c->arch || c->policy))
        return status_fail(STATUS_USAGE, "%s and --list exclude each other",
                           c->arch ? "--arch" : "--policy");
    if (c->sized && !c->arch && !c->list)
        return status_fail(STATUS_USAGE, "--image-size and --classes need --arch or --list");
    if (c->policy && !c->arch)
        c->arch = "resnet50";
    if (!c->list)
        return c->arch ? info_network(c) : info_build(c);
    describe_networks(c->classes, c->image_size, c->json, stdout);
    return STATUS_OK;
}

const struct cli_command cmd_info = {
    .name = "info",
    .summary = "show the build, the devices, the networks",
    .doc =
        "Shows the build, its libraries and the devices found; or the layers of a network, or "
        "their types.\vOnly trained parameters are counted. FLOPs are those of one image's forward "
        "pass in convolutions and linear layers; a multiply-add counts as two FLOPs.",
    .example = {{"The build and the devices", "ampscale info"},
                {"The networks", "ampscale info --list"},
                {"The types of each layer of ResNet-18 in mixed precision",
                 "ampscale info -a resnet18 --policy amp"}},
    .part = {{info_settings}},
    .prints = true,
    .config = &(struct info_config){0},
    .work = info};
