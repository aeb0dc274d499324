/* Holds a backend against the reference on a table of cases.
 *
 *     test_backend_ops [--backend cpu] [--threads N] [--only TEXT] [--without TEXT] [--every N]
 *                      [--share N] [--case N] [--list] [--isa NAME] [--digest]
 *
 * See harness.h for what is done with each case. The reference itself can be the backend: then
 * every layout must give equal values. --isa has the CPU backend's own kernels run as on a machine
 * that has no more than this instruction set.
 *
 * Exits 0 when all that ran passed, 1 when something failed, 77 when nothing ran. */
#include "verify/harness.h"
#include "verify/precision.h"

#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WITHOUT_MAX = 4 };

struct options {
    const char *backend, *only, *isa, *without[WITHOUT_MAX];
    int threads, every, share, only_case, n_without;
    bool list, digest;
};

/* Gives the device the kernels of another instruction set, which its own must include. */
static enum status use_isa(struct device *dev, const char *isa)
{
    static const struct cpu_kernels *const table[] = {
        &cpu_kernels_generic,
#if defined(__x86_64__)
        &cpu_kernels_avx2,
        &cpu_kernels_avx512,
#endif
    };
    if (dev->backend != &backend_cpu)
        return status_fail(STATUS_USAGE, "--isa is for the backend 'cpu'");
    struct cpu_device *cpu = cpu_device_of(dev);
    bool included = true;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i]->isa, isa) == 0 && !included)
            return status_fail(STATUS_UNSUPPORTED, "this machine has '%s' but not '%s'",
                               cpu->kernels->isa, isa);
        if (strcmp(table[i]->isa, isa) == 0) {
            cpu->kernels = table[i];
            return STATUS_OK;
        }
        included = included && table[i] != cpu->kernels;
    }
    return status_fail(STATUS_USAGE, "this build has no kernels for '%s'", isa);
}

/* Whether the kernels exist once per instruction set, as all do that round. */
static bool depends_on_isa(const struct op_desc *d)
{
    switch (d->kind) {
    case OP_CONV_FWD:
    case OP_CONV_BWD_DATA:
    case OP_CONV_BWD_WEIGHTS:
    case OP_LINEAR_FWD:
    case OP_LINEAR_BWD_DATA:
    case OP_LINEAR_BWD_WEIGHTS:
    case OP_REORDER:
        return false;
    case OP_BN_FWD_TRAIN:
    case OP_BN_FWD_EVAL:
    case OP_BN_BWD:
    case OP_RELU_FWD:
    case OP_RELU_BWD:
    case OP_ADD:
    case OP_MAXPOOL_FWD:
    case OP_SGD:
    case OP_CHECK_FINITE:
    case OP_ROUND:
        return true;
    default:
        return precision_is_emulated(d) || precision_is_stored(d);
    }
}

static bool is_left_out(const struct options *o, const struct op_case *c)
{
    for (int i = 0; i < o->n_without; i++)
        if (strstr(c->name, o->without[i]))
            return true;
    return false;
}

/* The table goes round in kinds, types and fills: shares are drawn, so that none has a pattern. */
static int share_of(const struct options *o, const struct op_case *c)
{
    return (int)(hash_splitmix64((uint64_t)c->problem) % (uint64_t)o->every);
}

static bool is_wanted(const struct options *o, int number, const struct op_case *c)
{
    return (o->only_case < 0 || o->only_case == number) && share_of(o, c) == o->share &&
           !is_left_out(o, c) && (!o->isa || depends_on_isa(&c->desc)) &&
           (!o->only || strstr(c->name, o->only));
}

static int run_cases(struct harness *h, const struct options *o, const struct case_list *list)
{
    char command[160];
    snprintf(command, sizeof command, "test_backend_ops --backend %s --threads %d%s%s", o->backend,
             o->threads, o->isa ? " --isa " : "", o->isa ? o->isa : "");
    h->command = command;
    h->digest = o->digest;
    for (int i = 0; i < list->n; i++)
        if (is_wanted(o, i, &list->item[i]))
            harness_run(h, i, &list->item[i]);
    return harness_end(h, o->backend);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'b':
        o->backend = arg;
        return 0;
    case 't':
        o->threads = atoi(arg);
        return 0;
    case 'o':
        o->only = arg;
        return 0;
    case 'w':
        if (o->n_without == WITHOUT_MAX)
            argp_error(state, "--without: at most %d times", WITHOUT_MAX);
        o->without[o->n_without++] = arg;
        return 0;
    case 'e':
        o->every = atoi(arg) > 1 ? atoi(arg) : 1;
        return 0;
    case 's':
        o->share = atoi(arg);
        return 0;
    case 'c':
        o->only_case = atoi(arg);
        return 0;
    case 'i':
        o->isa = arg;
        return 0;
    case 'l':
        o->list = true;
        return 0;
    case 'd':
        o->digest = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option flags[] = {
        {"backend", 'b', "NAME", 0, "hold NAME against the reference (default: cpu)", 0},
        {"threads", 't', "N", 0, "threads of the device (default: 2)", 0},
        {"only", 'o', "TEXT", 0, "only cases whose name contains TEXT", 0},
        {"without", 'w', "TEXT", 0, "no case whose name contains TEXT; may be repeated", 0},
        {"every", 'e', "N", 0, "only one in N problems, in all its layouts", 0},
        {"share", 's', "N", 0, "which of those shares of the table: 0 (the default), 1 ...", 0},
        {"case", 'c', "N", 0, "only case N", 0},
        {"isa", 'i', "NAME", 0, "own CPU kernels for generic, avx2 or avx512", 0},
        {"list", 'l', NULL, 0, "list the cases and run none", 0},
        {"digest", 'd', NULL, 0, "print a hash of each result, to compare runs", 0},
        {0}};
    static const struct argp argp = {
        .options = flags, .parser = parse, .doc = "Hold a backend against the reference."};
    struct options options = {.backend = "cpu", .threads = 2, .every = 1, .only_case = -1};
    struct harness h = {.problem.number = -1};
    struct case_list list = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    int code = EXIT_FAILURE;
    enum status st;
    CHECK(case_list_new(&list));
    for (int i = 0; options.list && i < list.n; i++)
        printf("%4d %s\n", i, list.item[i].name);
    code = EXIT_SUCCESS;
    if (options.list)
        goto done;
    CHECK(device_open("ref", 1, &h.ref));
    CHECK(device_open(options.backend, options.threads, &h.dev));
    if (h.dev->backend == &backend_cpu)
        cpu_device_of(h.dev)->stream_bytes = CASES_STREAM_BYTES;
    if (options.isa)
        CHECK(use_isa(h.dev, options.isa));
    code = run_cases(&h, &options, &list);
done:
    if (st != STATUS_OK) {
        fprintf(stderr, "test_backend_ops: %s\n", status_message());
        code = st == STATUS_UNSUPPORTED ? HARNESS_NOTHING_RAN : EXIT_FAILURE;
    }
    device_close(h.dev);
    device_close(h.ref);
    case_list_free(&list);
    return code;
}
