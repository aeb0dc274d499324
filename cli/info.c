/* ampscale info: what this build is made of, which networks it knows, and what is in one. */
#include "cli/cli.h"
#include "config.h"
#include "kernels/backend.h"
#include "model/graph.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <zlib.h>

struct info_config {
    const char *arch; /* NULL: none was asked for */
    int64_t image_size, classes;
    bool sized; /* one of the two was given */
    bool list, json;
};

/* Prints `json` (taken over; NULL when memory was short) on one line. */
static enum status print_json(json_t *json)
{
    bool printed = json && json_dumpf(json, stdout, JSON_COMPACT) == 0;
    json_decref(json);
    if (!printed)
        return status_fail(STATUS_IO, "cannot print as JSON");
    putchar('\n');
    return STATUS_OK;
}

/* Trained parameters of node `i`. */
static int64_t node_params(const struct graph *g, int i)
{
    int64_t n = 0;
    if (g->node[i].weight >= 0)
        n += param_count(&g->param[g->node[i].weight]);
    if (g->node[i].bias >= 0)
        n += param_count(&g->param[g->node[i].bias]);
    return n;
}

static enum status layers_print(const struct graph *g)
{
    printf("%s, %d classes, images of %d x %d pixels\n\n", g->arch, g->classes, g->image_size,
           g->image_size);
    printf("%-24s %-8s %-14s %12s %12s\n", "layer", "kind", "output", "parameters", "MFLOPs");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        char shape[64];
        snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, n->c, n->h, n->w);
        printf("%-24s %-8s %-14s %12" PRId64 " %12.3f\n", n->name[0] ? n->name : "-",
               node_kind_str(n->kind), shape, node_params(g, i), node_flops_forward(g, i) / 1e6);
    }
    printf("%-48s %12" PRId64 " %12.3f\n", "total", graph_params_trained(g),
           graph_flops_forward(g) / 1e6);
    return STATUS_OK;
}

static enum status layers_print_json(const struct graph *g)
{
    json_t *layers = json_array();
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        json_array_append_new(
            layers, json_pack("{s:s, s:s, s:[I, I, I], s:I, s:I}", "name", n->name, "kind",
                              node_kind_str(n->kind), "output", (json_int_t)n->c, (json_int_t)n->h,
                              (json_int_t)n->w, "parameters", (json_int_t)node_params(g, i),
                              "flops_forward", (json_int_t)node_flops_forward(g, i)));
    }
    return print_json(json_pack("{s:s, s:i, s:i, s:I, s:I, s:o}", "arch", g->arch, "image_size",
                                g->image_size, "classes", g->classes, "parameters",
                                (json_int_t)graph_params_trained(g), "flops_forward",
                                (json_int_t)graph_flops_forward(g), "layers", layers));
}

static enum status info_arch(const struct info_config *c)
{
    struct graph *g;
    TRY(graph_build(c->arch, (int)c->classes, (int)c->image_size, &g));
    enum status st = c->json ? layers_print_json(g) : layers_print(g);
    graph_free(g);
    return st;
}

/* Networks whose layers are too large for the images are left out. */
static enum status info_list(const struct info_config *c)
{
    json_t *rows = json_array();
    const char *arch;
    if (!c->json)
        printf("%-18s %12s %10s   (%" PRId64 " classes, images of %" PRId64 " x %" PRId64
               " pixels)\n",
               "network", "parameters", "GFLOPs", c->classes, c->image_size, c->image_size);
    for (int i = 0; (arch = graph_arch_name(i)); i++) {
        struct graph *g;
        if (graph_build(arch, (int)c->classes, (int)c->image_size, &g) != STATUS_OK)
            continue;
        if (c->json)
            json_array_append_new(rows,
                                  json_pack("{s:s, s:I, s:I}", "arch", arch, "parameters",
                                            (json_int_t)graph_params_trained(g), "flops_forward",
                                            (json_int_t)graph_flops_forward(g)));
        else
            printf("%-18s %12" PRId64 " %10.3f\n", arch, graph_params_trained(g),
                   graph_flops_forward(g) / 1e9);
        graph_free(g);
    }
    if (c->json)
        return print_json(rows);
    json_decref(rows);
    return STATUS_OK;
}

/* One line about a device: what it is, or why it cannot be used. True when it can. */
static bool device_line(const char *spec, char *out, size_t size)
{
    struct device *dev;
    if (device_open(spec, 0, &dev) != STATUS_OK) {
        snprintf(out, size, "%s", status_message());
        return false;
    }
    dev->backend->describe(dev, out, size);
    device_close(dev);
    return true;
}

static enum status info_build(const struct info_config *c)
{
    static const char *const specs[] = {"cpu", "ref", "cuda"};
    json_t *devices = json_array();
    if (!c->json)
        printf("ampscale %s (%s build)\ncompiler   %s\nlibraries  jansson %s, zlib %s\ndevices\n",
               AMPSCALE_VERSION, AMPSCALE_BUILD_TYPE, AMPSCALE_COMPILER, jansson_version_str(),
               zlibVersion());
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        char line[512];
        bool usable = device_line(specs[i], line, sizeof line);
        if (!c->json)
            printf("  %-8s %s%s\n", specs[i], usable ? "" : "not available: ", line);
        json_array_append_new(devices, json_pack("{s:s, s:b, s:s}", "device", specs[i], "usable",
                                                 usable, "description", line));
    }
    if (c->json)
        return print_json(
            json_pack("{s:s, s:s, s:s, s:{s:s, s:s}, s:o}", "version", AMPSCALE_VERSION,
                      "build_type", AMPSCALE_BUILD_TYPE, "compiler", AMPSCALE_COMPILER, "libraries",
                      "jansson", jansson_version_str(), "zlib", zlibVersion(), "devices", devices));
    json_decref(devices);
    return STATUS_OK;
}

enum { KEY_IMAGE_SIZE = 256, KEY_CLASSES, KEY_LIST, KEY_JSON };

static const struct argp_option options[] = {
    {"arch", 'a', "ARCH", 0, "Show the layers of this network", 0},
    {"image-size", KEY_IMAGE_SIZE, "N", 0, "Pixels a side of its images (default: 224)", 0},
    {"classes", KEY_CLASSES, "N", 0, "Classes it tells apart (default: 1000)", 0},
    {"list", KEY_LIST, NULL, 0, "List the networks", 0},
    {"json", KEY_JSON, NULL, 0, "Print JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct info_config *c = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case 'a':
        c->arch = arg;
        return 0;
    case KEY_IMAGE_SIZE:
        st = cli_int("--image-size", arg, 1, IMAGE_SIZE_MAX, &c->image_size);
        c->sized = true;
        return st == STATUS_OK ? 0 : EINVAL;
    case KEY_CLASSES:
        st = cli_int("--classes", arg, 1, CLASSES_MAX, &c->classes);
        c->sized = true;
        return st == STATUS_OK ? 0 : EINVAL;
    case KEY_LIST:
        c->list = true;
        return 0;
    case KEY_JSON:
        c->json = true;
        return 0;
    case ARGP_KEY_END:
        if (c->arch && c->list)
            st = status_fail(STATUS_USAGE, "--arch and --list exclude each other");
        else if (c->sized && !c->arch && !c->list)
            st = status_fail(STATUS_USAGE, "--image-size and --classes need --arch or --list");
        return st == STATUS_OK ? 0 : EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_info(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Shows the build, its libraries and the devices found; or what a network is made of."
               "\vParameters are those that training changes. FLOPs are those of one image's "
               "forward pass, in convolutions and linear layers, a multiply-add counted as two."};
    struct info_config c = {.image_size = 224, .classes = 1000};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    enum status st = c.arch ? info_arch(&c) : c.list ? info_list(&c) : info_build(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
