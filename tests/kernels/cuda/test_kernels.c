/* Holds the CUDA backend's own kernels, run through the shim, against the reference, on those cases
 * of the table (tests/kernels/cases.h) that they cover.
 *
 *     test_cuda_kernels [--masks] [--only TEXT] [--case N]
 *
 * With --masks, backward batch norm reads bit masks, and only its cases run. Fails when a kind of
 * operation that has kernels has no case. */
#include "tests/kernels/cuda/backend.h"
#include "tests/kernels/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    bool masks;
    const char *only; /* NULL: any name */
    int only_case;    /* -1: all */
};

static bool is_covered(struct device *dev, const struct op_case *c)
{
    struct op_plan *plan;
    bool covered = op_plan(dev, &c->desc, &plan) == STATUS_OK;
    op_plan_free(plan);
    return covered;
}

/* Whether every kind in the device's table had cases. */
static bool report_kinds(struct device *dev, const struct options *o, const int *cases)
{
    bool complete = true;
    for (int i = 0; i < dev->backend->n_records && !o->only && o->only_case < 0; i++) {
        enum op_kind kind = dev->backend->record[i].kind;
        if (o->masks && kind != OP_BN_BWD)
            continue;
        printf("%5d cases of %s\n", cases[kind], op_str(kind));
        complete = complete && cases[kind] > 0;
    }
    if (!complete)
        printf("FAIL: a kind of operation has no case\n");
    return complete;
}

static bool is_wanted(const struct options *o, int number, const struct op_case *c)
{
    return (o->only_case < 0 || o->only_case == number) && (!o->only || strstr(c->name, o->only)) &&
           (!o->masks || c->desc.kind == OP_BN_BWD);
}

static int run_cases(struct harness *h, const struct options *o, const struct case_list *list)
{
    int cases[OP_KIND_COUNT] = {0};
    h->command = o->masks ? "test_cuda_kernels --masks" : "test_cuda_kernels";
    for (int i = 0; i < list->n; i++) {
        const struct op_case *c = &list->item[i];
        bool wanted = is_wanted(o, i, c);
        if (!wanted || !is_covered(h->dev, c))
            continue;
        cases[c->desc.kind]++;
        harness_run(h, i, c);
    }
    bool complete = report_kinds(h->dev, o, cases);
    int code = harness_end(h, "shim");
    return complete ? code : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options options = {.only_case = -1};
    struct harness h = {.problem.number = -1};
    struct case_list list = {0};
    for (int i = 1; i < argc; i++) {
        options.masks = options.masks || strcmp(argv[i], "--masks") == 0;
        if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            options.only_case = atoi(argv[++i]);
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            options.only = argv[++i];
    }
    int code = EXIT_FAILURE;
    enum status st;
    CHECK(case_list_new(&list));
    CHECK(device_open("ref", 1, &h.ref));
    CHECK(shim_device_open(options.masks, &h.dev));
    code = run_cases(&h, &options, &list);
done:
    if (st != STATUS_OK)
        fprintf(stderr, "test_cuda_kernels: %s\n", status_message());
    device_close(h.dev);
    device_close(h.ref);
    case_list_free(&list);
    return code;
}
