/* Holds a backend against the reference on a table of cases.
 *
 *     test_backend_ops [--backend cpu] [--threads N] [--only TEXT] [--every N] [--case N] [--list]
 *                      [--isa NAME] [--digest]
 *
 * Each case runs in a rig (rig.h: guards, poisoned outputs and workspace, inputs that must stay) on
 * random inputs, is compared within the bounds of bounds.h, and runs again, which must give the
 * same bits. What it is compared with is the reference without any rounding, on inputs rounded
 * beforehand, so that the reference's rounding is held to account like any other. Then each
 * in-place form that kernels/ops.h allows is run alike. The reference itself can be the backend:
 * then every layout must give equal values. --isa has the CPU backend's own kernels run as on a
 * machine that has no more than this instruction set.
 *
 * A case or in-place form that the backend does not support is printed and counted as skipped. A
 * failure prints the command that runs that case alone. Exits 0 when all that ran passed, 1 when
 * something failed, 77 when nothing ran. */
#include "tests/kernels/bounds.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/describe.h"
#include "tests/kernels/precision.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_NOTHING_RAN = 77 };

struct options {
    const char *backend, *only, *isa;
    int threads, every, only_case;
    bool list, digest;
};

/* What the cases of one problem share. */
struct problem {
    int number; /* -1: none yet */
    struct operands in, want;
    struct bounds bounds;
};

struct harness {
    const struct options *options;
    struct device *dev, *ref;
    struct problem problem;
    int passed, skipped, failed;
};

static void problem_close(struct problem *p)
{
    operands_free(&p->in);
    operands_free(&p->want);
    bounds_free(&p->bounds);
    p->number = -1;
}

/* Copies `in`, every value becoming what the operation reads it as. */
static enum status operands_as_read(const struct op_desc *d, const struct operands *in,
                                    struct operands *read)
{
    TRY(operands_copy(d, in, read));
    for (int r = 0; r < ROLE_COUNT; r++)
        for (int64_t i = 0; d->t[r].type == DTYPE_F32 && i < tensor_count(&d->t[r]); i++)
            operand_f32(read, (enum role)r)[i] =
                precision_read(d, (enum role)r, i, operand_f32(read, (enum role)r)[i]);
    return STATUS_OK;
}

static enum status problem_open(struct harness *h, const struct op_case *c)
{
    struct problem *p = &h->problem;
    if (p->number == c->problem)
        return STATUS_OK;
    problem_close(p);
    struct op_desc emulated = emulated_form(&c->desc), plain = plain_form(&emulated);
    struct precision_none wide;
    struct operands read = {{NULL}};
    enum status st;
    precision_none(&plain, &wide);
    CHECK(operands_new(&plain, &p->in));
    CHECK(fill_operands(h->ref, &plain, c->fill, (uint64_t)c->problem, &p->in));
    CHECK(operands_as_read(&plain, &p->in, &read));
    CHECK(operands_copy(&plain, &read, &p->want));
    CHECK(run_once(h->ref, &wide.desc, &p->want));
    CHECK(bounds_new(h->ref, &wide.desc, &read, &p->bounds));
    p->number = c->problem;
done:
    operands_free(&read);
    return st;
}

/* Runs the case on fresh inputs; the results are left in `got`. Both are in the emulated form. */
static enum status run_fresh(struct rig *rig, const struct operands *in, struct operands *got)
{
    struct operands typed = {{NULL}};
    enum status st;
    CHECK(operands_narrow(rig_desc(rig), in, &typed));
    CHECK(rig_put_all(rig, &typed));
    CHECK(rig_run(rig));
    CHECK(rig_get_all(rig, &typed));
    operands_widen(rig_desc(rig), &typed, got);
done:
    operands_free(&typed);
    return st;
}

static enum status check_same_bits(const struct op_desc *d, const struct operands *a,
                                   const struct operands *b)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (op_roles(d->kind).writes >> r & 1 && a->p[r] &&
            memcmp(a->p[r], b->p[r], operand_bytes(d, (enum role)r)) != 0)
            return status_fail(STATUS_MISMATCH, "%s: a second run gives other bits",
                               role_str((enum role)r));
    return STATUS_OK;
}

static void print_digest(const struct op_desc *d, const struct op_case *c,
                         const struct operands *got)
{
    uint64_t digest = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        for (size_t i = 0; op_roles(d->kind).writes >> r & 1 && i < operand_bytes(d, r); i++)
            digest = hash_splitmix64(digest ^ ((const unsigned char *)got->p[r])[i]);
    printf("%016llx %s\n", (unsigned long long)digest, c->name);
}

/* A plan keeps types and what tensors round to, and may leave raw only what it writes. */
static enum status check_precisions(const struct op_desc *asked, const struct op_desc *planned)
{
    unsigned writes = op_roles(asked->kind).writes;
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *a = &asked->t[r], *p = &planned->t[r];
        bool written = writes >> r & 1, may_be_raw = a->rounds != DTYPE_F32 && a->raw;
        if (written)
            may_be_raw = a->rounds != DTYPE_F32 && asked->kind != OP_ROUND;
        if (a->type != p->type)
            return status_fail(STATUS_MISMATCH, "%s: planned as %s instead of %s",
                               role_str((enum role)r), dtype_str(p->type), dtype_str(a->type));
        if (a->rounds != p->rounds)
            return status_fail(STATUS_MISMATCH, "%s: planned to round to %s instead of %s",
                               role_str((enum role)r), dtype_str(p->rounds), dtype_str(a->rounds));
        if ((p->raw && !may_be_raw) || (a->raw && !p->raw && !written))
            return status_fail(STATUS_MISMATCH, "%s: planned as %s", role_str((enum role)r),
                               p->raw ? "raw" : "rounded");
    }
    return STATUS_OK;
}

/* One case with outputs in their own memory (`share` NULL) or in place. */
static enum status attempt(struct harness *h, const struct op_case *c, const struct in_place *share)
{
    struct rig *rig = NULL;
    struct operands got = {{NULL}}, again = {{NULL}};
    struct problem *p = &h->problem;
    enum status st;
    CHECK(rig_open(h->dev, &c->desc, share, &rig));
    CHECK(check_precisions(&c->desc, rig_desc(rig)));
    const struct op_desc emulated = emulated_form(rig_desc(rig)), *d = &emulated;
    CHECK(operands_new(d, &got));
    CHECK(operands_new(d, &again));
    CHECK(run_fresh(rig, &p->in, &got));
    bool same_backend = h->dev->backend == h->ref->backend;
    CHECK(bounds_check(d, same_backend ? NULL : &p->bounds, &p->want, &got));
    CHECK(run_fresh(rig, &p->in, &again));
    CHECK(check_same_bits(d, &got, &again));
    if (h->options->digest && !share)
        print_digest(d, c, &got);
done:
    rig_close(rig);
    operands_free(&got);
    operands_free(&again);
    return st;
}

static void report(struct harness *h, int number, const struct op_case *c,
                   const struct in_place *share, enum status st)
{
    const struct options *o = h->options;
    char form[48] = "";
    if (share)
        snprintf(form, sizeof form, " (%s in place of %s)", role_str(share->out),
                 role_str(share->in));
    if (st == STATUS_OK) {
        h->passed++;
    } else if (st == STATUS_UNSUPPORTED) {
        h->skipped++;
        printf("skip %4d %s%s: %s\n", number, c->name, form, status_message());
    } else {
        h->failed++;
        printf("FAIL %4d %s%s: %s\n", number, c->name, form, status_message());
        printf("     test_backend_ops --backend %s --threads %d%s%s --case %d\n", o->backend,
               o->threads, o->isa ? " --isa " : "", o->isa ? o->isa : "", number);
    }
}

static void run_case(struct harness *h, int number, const struct op_case *c)
{
    static const struct {
        enum op_kind kind;
        struct in_place share;
    } allowed[] = {
        {OP_RELU_FWD, {ROLE_Y, ROLE_X}},    {OP_RELU_BWD, {ROLE_DX, ROLE_DY}},
        {OP_ADD, {ROLE_Y, ROLE_X}},         {OP_ADD, {ROLE_Y, ROLE_Z}},
        {OP_BN_BWD, {ROLE_DX, ROLE_DY}},    {OP_BN_BWD, {ROLE_DX, ROLE_DY2}},
        {OP_BN_BWD, {ROLE_DZ, ROLE_DY}},    {OP_BN_BWD, {ROLE_DZ, ROLE_DY2}},
        {OP_DROPOUT_FWD, {ROLE_Y, ROLE_X}}, {OP_DROPOUT_BWD, {ROLE_DX, ROLE_DY}},
        {OP_ROUND, {ROLE_Y, ROLE_X}},
    };
    enum status st = problem_open(h, c);
    if (st == STATUS_OK)
        st = attempt(h, c, NULL);
    report(h, number, c, NULL, st);
    if (st != STATUS_OK)
        return;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        const struct in_place *share = &allowed[i].share;
        if (allowed[i].kind == c->desc.kind && c->desc.t[share->out].ndim &&
            c->desc.t[share->in].ndim)
            report(h, number, c, share, attempt(h, c, share));
    }
}

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

static bool is_wanted(const struct options *o, int number, const struct op_case *c)
{
    return (o->only_case < 0 || o->only_case == number) && number % o->every == 0 &&
           (!o->isa || depends_on_isa(&c->desc)) && (!o->only || strstr(c->name, o->only));
}

static int run_cases(struct harness *h, const struct case_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (is_wanted(h->options, i, &list->item[i]))
            run_case(h, i, &list->item[i]);
    problem_close(&h->problem);
    printf("%s: %d passed, %d skipped, %d failed\n", h->options->backend, h->passed, h->skipped,
           h->failed);
    if (h->failed)
        return EXIT_FAILURE;
    return h->passed ? EXIT_SUCCESS : EXIT_NOTHING_RAN;
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
    case 'e':
        o->every = atoi(arg) > 1 ? atoi(arg) : 1;
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
        {"every", 'e', "N", 0, "only each N-th case, for a quick look", 0},
        {"case", 'c', "N", 0, "only case N", 0},
        {"isa", 'i', "NAME", 0, "own CPU kernels for generic, avx2 or avx512", 0},
        {"list", 'l', NULL, 0, "list the cases and run none", 0},
        {"digest", 'd', NULL, 0, "print a hash of each result, to compare runs", 0},
        {0}};
    static const struct argp argp = {
        .options = flags, .parser = parse, .doc = "Hold a backend against the reference."};
    struct options options = {.backend = "cpu", .threads = 2, .every = 1, .only_case = -1};
    struct harness h = {.options = &options, .problem.number = -1};
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
    if (options.isa)
        CHECK(use_isa(h.dev, options.isa));
    code = run_cases(&h, &list);
done:
    if (st != STATUS_OK) {
        fprintf(stderr, "test_backend_ops: %s\n", status_message());
        code = st == STATUS_UNSUPPORTED ? EXIT_NOTHING_RAN : EXIT_FAILURE;
    }
    device_close(h.dev);
    device_close(h.ref);
    case_list_free(&list);
    return code;
}
