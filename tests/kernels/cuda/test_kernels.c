/* Compares the CUDA backend with the reference, on those cases of the table (verify/cases.h) that
 * the backend covers. AMPSCALE_CUDA_MODULE names the module, for a GPU or for the fake GPU.
 *
 *     test_cuda_kernels [--device cuda:N | --masks] [--untried] [--every N] [--only TEXT]
 * [--without TEXT]
 *                      [--case N]
 *
 * With --masks, the program compares batch norm with masks (backend.h). The program fails if the
 * backend has a kind of operation without a case. */
#include "tests/kernels/cuda/backend.h"
#include "verify/comparison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

struct options {
    bool masks;
    const char *device;
    bool untried;        /* no plan is tried */
    const char *only;    /* NULL: any name */
    const char *without; /* NULL: no case is left out */
    int every;
    int only_case; /* -1: all */
};

static bool is_covered(struct device *dev, const struct op_case *c)
{
    struct op_plan *plan;
    bool covered = op_plan(dev, &c->desc, &plan) == STATUS_OK;
    op_plan_free(plan);
    return covered;
}

/* Prints the number of cases of each kind of operation, and returns whether every kind in the
 * device's table had a case. Some kinds need no case here: tests/kernels/test_scaler.c tests
 * the scaler, and test_fused_ops.c tests the fused forms of convolution, some of which older GPUs
 * lack. */
static bool report_kinds(struct device *dev, const struct options *o, const int *cases)
{
    const uint64_t elsewhere =
        OPS_SCALE | OPS_CONV_FUSED | OP_SET(BN_FINALIZE) | OP_SET(BN_APPLY) | OP_SET(BN_BWD_APPLY);
    uint64_t covered = 0;
    bool complete = true;
    for (int i = 0; i < dev->backend->n_records && !o->only && o->only_case < 0; i++)
        covered |= dev->backend->record[i].kinds;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (!op_in((enum op_kind)kind, covered & ~elsewhere))
            continue;
        printf("%5d cases of %s\n", cases[kind], op_str((enum op_kind)kind));
        complete = complete && cases[kind] > 0;
    }
    if (!complete)
        printf("FAIL: a kind of operation has no case\n");
    return complete;
}

static bool is_wanted(const struct options *o, int number, const struct op_case *c)
{
    return (o->only_case < 0 || o->only_case == number) && (!o->only || strstr(c->name, o->only)) &&
           (!o->without || !strstr(c->name, o->without));
}

/* Prints the counts. Returns the exit code: 77 if nothing ran, which ctest reports as skipped. */
static int end_comparison(struct comparison *h, const char *name)
{
    comparison_close(h);
    printf("%s: %d passed, %d skipped, %d failed\n", name, h->passed, h->skipped, h->failed);
    if (h->failed)
        return EXIT_FAILURE;
    return h->passed ? EXIT_SUCCESS : SKIPPED;
}

static int run_cases(struct comparison *h, const struct options *o, const struct case_list *list)
{
    int cases[OP_KIND_COUNT] = {0}, covered[OP_KIND_COUNT] = {0};
    char command[80];
    snprintf(command, sizeof command, "test_cuda_kernels %s %s", o->masks ? "--masks" : "--device",
             o->masks ? "" : o->device);
    h->command = command;
    for (int i = 0; i < list->n; i++) {
        const struct op_case *c = &list->item[i];
        bool has_mask = c->desc.t[ROLE_MASK].ndim; /* the backend with masks adds a mask itself */
        if (!is_wanted(o, i, c) || (o->masks && has_mask) || !is_covered(h->dev, c))
            continue;
        if (covered[c->desc.kind]++ % o->every != 0) /* counted per kind: each kind has a case */
            continue;
        cases[c->desc.kind]++;
        comparison_run(h, i, c);
    }
    bool complete = report_kinds(h->dev, o, cases);
    int code = end_comparison(h, o->masks ? "masks" : o->device);
    return complete ? code : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options options = {.only_case = -1, .every = 1, .device = "cuda:0"};
    struct comparison h = {.problem.number = -1};
    struct case_list list = {0};
    for (int i = 1; i < argc; i++) {
        options.masks = options.masks || strcmp(argv[i], "--masks") == 0;
        options.untried = options.untried || strcmp(argv[i], "--untried") == 0;
        if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            options.only_case = atoi(argv[++i]);
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            options.only = argv[++i];
        if (strcmp(argv[i], "--without") == 0 && i + 1 < argc)
            options.without = argv[++i];
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            options.device = argv[++i];
        if (strcmp(argv[i], "--every") == 0 && i + 1 < argc)
            options.every = atoi(argv[++i]) > 1 ? atoi(argv[i]) : 1;
    }
    int code = EXIT_FAILURE;
    enum status st;
    CHECK(case_list_new(&list));
    CHECK(device_open("ref", 1, &h.ref));
    if (options.masks)
        CHECK(shim_device_open(&h.dev));
    else
        CHECK(device_open(options.device, 1, &h.dev));
    h.dev->deterministic = options.untried;
    code = run_cases(&h, &options, &list);
done:
    if (st != STATUS_OK)
        fprintf(stderr, "test_cuda_kernels: %s\n", status_message());
    device_close(h.dev);
    device_close(h.ref);
    case_list_free(&list);
    return code;
}
