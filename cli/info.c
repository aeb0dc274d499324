/* ampscale info: what this build is made of, which networks it knows, what is in one, and which
 * types a precision gives it. */
#include "cli/cli.h"
#include "comm/comm.h"
#include "config.h"
#include "kernels/backend.h"
#include "model/graph.h"
#include "model/policy.h"
#include "results/environment.h"
#include "telemetry/telemetry.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct info_config {
    const char *arch;   /* NULL: none was asked for */
    const char *policy; /* NULL: none was asked for */
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

/* What a node computes in: convolution and linear multiply `operand` and add up in fp32, the rest
 * computes in fp32 on what it reads. */
static const char *computes_in(const struct policy *p, enum node_kind kind)
{
    return dtype_str(kind == NODE_CONV || kind == NODE_LINEAR ? p->operand : DTYPE_F32);
}

static void param_types_print(const char *name, const char *kind, const struct param_types *t,
                              const char *computes, const char *stored)
{
    printf("%-24s %-8s %-7s %-7s %-9s %-9s %s\n", name, kind, t ? dtype_str(t->master) : "-",
           t ? dtype_str(t->copy) : "-", t ? dtype_str(t->gradient) : "-", computes, stored);
}

static enum status policy_print(const struct policy *p, const struct graph *g)
{
    const char *stored = dtype_str(p->activation);
    printf("precision %s on %s\n\n", p->name, g->arch);
    printf("%-24s %-8s %-25s %-9s %s\n", "", "", "weight", "", "activation");
    printf("%-24s %-8s %-7s %-7s %-9s %-9s %s\n", "layer", "kind", "kept", "read", "gradient",
           "computes", "and gradient");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        struct param_types t;
        if (n->weight >= 0)
            t = policy_param(p, g->param[n->weight].kind);
        param_types_print(n->name[0] ? n->name : "-", node_kind_str(n->kind),
                          n->weight >= 0 ? &t : NULL,
                          n->kind == NODE_INPUT ? "-" : computes_in(p, n->kind), stored);
    }
    param_types_print("loss", "softmax", NULL, "fp32", "fp32");
    struct param_types bias = policy_param(p, PARAM_BIAS);
    printf("\nbiases     kept in %s, read in %s, gradient in %s\n", dtype_str(bias.master),
           dtype_str(bias.copy), dtype_str(bias.gradient));
    printf(
        "always     fp32: sums of convolution and linear, batch norm's and pooling's arithmetic, "
        "batch\n           statistics, softmax and loss, the optimizer's arithmetic\n");
    printf("batch norm parameters and running statistics in %s\n", dtype_str(p->batchnorm));
    printf("loss scale %s\n", p->scaled ? "dynamic" : "none");
    return STATUS_OK;
}

static json_t *param_types_json(struct param_types t)
{
    return json_pack("{s:s, s:s, s:s}", "kept", dtype_str(t.master), "read", dtype_str(t.copy),
                     "gradient", dtype_str(t.gradient));
}

static enum status policy_print_json(const struct policy *p, const struct graph *g)
{
    json_t *layers = json_array();
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->node[i];
        json_t *o = json_pack("{s:s, s:s, s:s}", "name", n->name, "kind", node_kind_str(n->kind),
                              "activation", dtype_str(p->activation));
        if (n->kind != NODE_INPUT)
            json_object_set_new(o, "computes", json_string(computes_in(p, n->kind)));
        if (n->weight >= 0)
            json_object_set_new(o, "weight",
                                param_types_json(policy_param(p, g->param[n->weight].kind)));
        if (n->bias >= 0)
            json_object_set_new(o, "bias",
                                param_types_json(policy_param(p, g->param[n->bias].kind)));
        if (n->mean >= 0)
            json_object_set_new(o, "running_statistics", json_string(dtype_str(p->batchnorm)));
        json_array_append_new(layers, o);
    }
    return print_json(json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "policy", p->name, "arch",
                                g->arch, "loss", "fp32", "accumulate", "fp32", "loss_scale",
                                p->scaled ? "dynamic" : "none", "layers", layers));
}

static enum status info_policy(const struct info_config *c)
{
    struct policy p;
    struct graph *g;
    TRY(policy_find(c->policy, -1, &p));
    TRY(graph_build(c->arch, (int)c->classes, (int)c->image_size, &g));
    enum status st = c->json ? policy_print_json(&p, g) : policy_print(&p, g);
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

/* One line about a device: what it is, or why it cannot be used. */
static enum status device_line(const char *spec, char *out, size_t size)
{
    struct device *dev;
    enum status st = device_open(spec, 0, &dev);
    if (st != STATUS_OK) {
        snprintf(out, size, "%s", status_message());
        return st;
    }
    dev->backend->describe(dev, out, size);
    device_close(dev);
    return STATUS_OK;
}

static void show_device(const struct info_config *c, json_t *devices, const char *spec,
                        enum status st, const char *line)
{
    bool usable = st == STATUS_OK;
    if (!c->json)
        printf("  %-8s %s%s\n", spec, usable ? "" : "not available: ", line);
    json_array_append_new(devices, json_pack("{s:s, s:b, s:s}", "device", spec, "usable", usable,
                                             "description", line));
}

/* Whether some can be counted: then one that is not there is a wrong number. */
static bool has_gpus(void)
{
    char line[512];
    return device_line("cuda:1023", line, sizeof line) == STATUS_USAGE;
}

/* All there are; they are numbered without gaps. Where none can be used, why. */
static void show_gpus(const struct info_config *c, json_t *devices)
{
    char spec[16], line[512];
    for (int i = 0;; i++) {
        snprintf(spec, sizeof spec, "cuda:%d", i);
        enum status st = device_line(spec, line, sizeof line);
        if (st == STATUS_USAGE)
            return; /* no such GPU: the last one was shown */
        show_device(c, devices, spec, st, line);
        if (st != STATUS_OK && !has_gpus())
            return;
    }
}

/* What the management library says of all GPUs that can be used; an empty list without one. */
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

/* Takes `devices` over. */
static enum status print_build_json(json_t *devices)
{
    json_t *host = NULL, *gpus = NULL;
    enum status st;
    CHECK(environment_describe(&host));
    CHECK(describe_gpus(devices, &gpus));
    json_t *all =
        json_pack("{s:s, s:{s:s, s:s, s:s}, s:O, s:O, s:O}", "compiler", AMPSCALE_COMPILER,
                  "libraries", "MPI", comm_mpi_version(), "jansson", jansson_version_str(), "zlib",
                  zlibVersion(), "devices", devices, "gpus", gpus, "host", host);
    CHECK(environment_program(all) ? STATUS_OK
                                   : status_fail(STATUS_OOM, "no memory for a listing"));
    st = print_json(all);
done:
    json_decref(devices);
    json_decref(gpus);
    json_decref(host);
    return st;
}

static enum status info_build(const struct info_config *c)
{
    static const char *const specs[] = {"cpu", "ref"};
    json_t *devices = json_array();
    if (!c->json)
        printf("ampscale %s (%s build)\ncompiler   %s\nlibraries  MPI: %s, jansson %s, zlib %s\n"
               "devices\n",
               AMPSCALE_VERSION, AMPSCALE_BUILD_TYPE, AMPSCALE_COMPILER, comm_mpi_version(),
               jansson_version_str(), zlibVersion());
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        char line[512];
        enum status st = device_line(specs[i], line, sizeof line);
        show_device(c, devices, specs[i], st, line);
    }
    show_gpus(c, devices);
    if (c->json)
        return print_build_json(devices);
    json_decref(devices);
    return STATUS_OK;
}

enum { KEY_IMAGE_SIZE = 256, KEY_CLASSES, KEY_POLICY, KEY_LIST, KEY_JSON };

static const struct argp_option options[] = {
    {"arch", 'a', "ARCH", 0, "Show the layers of this network", 0},
    {"image-size", KEY_IMAGE_SIZE, "N", 0, "Pixels a side of its images (default: 224)", 0},
    {"classes", KEY_CLASSES, "N", 0, "Classes it tells apart (default: 1000)", 0},
    {"policy", KEY_POLICY, "fp32|tf32|amp|bf16|O0|O1|O2|O3", 0,
     "Show each layer's types at this precision (default network: resnet50)", 0},
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
    case KEY_POLICY:
        c->policy = arg;
        return 0;
    case KEY_LIST:
        c->list = true;
        return 0;
    case KEY_JSON:
        c->json = true;
        return 0;
    case ARGP_KEY_END:
        if (c->list && (c->arch || c->policy))
            st = status_fail(STATUS_USAGE, "%s and --list exclude each other",
                             c->arch ? "--arch" : "--policy");
        else if (c->sized && !c->arch && !c->list)
            st = status_fail(STATUS_USAGE, "--image-size and --classes need --arch or --list");
        if (c->policy && !c->arch)
            c->arch = "resnet50";
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
        .doc =
            "Shows the build, its libraries and the devices found; or what a network is made of, "
            "or of which types."
            "\vParameters are those that training changes. FLOPs are those of one image's "
            "forward pass, in convolutions and linear layers, a multiply-add counted as two."};
    struct info_config c = {.image_size = 224, .classes = 1000};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &c, &exit_code))
        return exit_code;
    enum status st = c.policy ? info_policy(&c)
                     : c.arch ? info_arch(&c)
                     : c.list ? info_list(&c)
                              : info_build(&c);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
