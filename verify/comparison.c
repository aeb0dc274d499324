/* Runs a case, compares its result, and reports it. */
#include "verify/comparison.h"

#include "verify/describe.h"
#include "verify/precision.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void problem_close(struct problem *p)
{
    operands_free(&p->in);
    operands_free(&p->want);
    bounds_free(&p->bounds);
    bounds_free(&p->winograd);
    p->number = -1;
}

/* Copies `in`, with every fp32 value rounded to the value that the operation reads. */
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

static enum status problem_open(struct comparison *h, const struct op_case *c)
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
    CHECK(run_once(h->ref, is_fused(&plain) ? &plain : &wide.desc, &p->want));
    if (is_fused(&plain))
        CHECK(bounds_fused(&plain, &p->want, &p->bounds));
    else
        CHECK(bounds_new(h->ref, &wide.desc, precision_is_emulated(&emulated), false, &read,
                         &p->bounds));
    if (op_in(plain.kind, OPS_CONV) && h->dev->conv_algorithm != CONV_DIRECT)
        CHECK(bounds_new(h->ref, &wide.desc, false, true, &read, &p->winograd));
    p->number = c->problem;
done:
    operands_free(&read);
    return st;
}

/* Runs the case once on newly uploaded inputs; `in` and `got` are operands of the emulated_form of
 * the case. */
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
            return status_fail(STATUS_MISMATCH, "%s: a second execution gives different bits",
                               role_str((enum role)r));
    return STATUS_OK;
}

/* Injects the fault that the comparison must find. */
static void commit_fault(enum comparison_fault_kind fault, const struct op_desc *d,
                         struct operands *got)
{
    if (fault == COMPARISON_CRASH)
        kill(getpid(), SIGKILL);
    while (fault == COMPARISON_HANG)
        pause();
    for (int r = 0; r < ROLE_COUNT; r++)
        if (fault == COMPARISON_WRONG && op_roles(d->kind).writes >> r & 1 && got->p[r]) {
            ((unsigned char *)got->p[r])[operand_bytes(d, (enum role)r) - 1] ^= 0x40;
            return;
        }
}

/* Checks that a plan keeps the tensors' types and rounding, and leaves only written tensors
 * unrounded. */
static enum status check_precisions(const struct op_desc *asked, const struct op_desc *planned)
{
    uint64_t writes = op_roles(asked->kind).writes;
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

/* Runs one case: in place as `share` describes or, if `share` is NULL, with outputs in their own
 * memory. */
static enum status run_form(struct comparison *h, const struct op_case *c,
                            const struct in_place *share, enum comparison_fault_kind fault)
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
    commit_fault(fault, d, &got);
    const struct bounds *b = h->dev->backend == h->ref->backend    ? NULL
                             : strstr(rig_impl(rig), ":winograd:") ? &p->winograd
                                                                   : &p->bounds;
    CHECK(bounds_check(d, b, &p->want, &got));
    CHECK(run_fresh(rig, &p->in, &again));
    CHECK(bounds_check(d, b, &p->want, &again));
    /* If the device is not deterministic, cuDNN's fastest engine may add in any order. */
    if (h->dev->deterministic || strncmp(rig_impl(rig), "cudnn:", strlen("cudnn:")) != 0)
        CHECK(check_same_bits(d, &got, &again));
done:
    rig_close(rig);
    operands_free(&got);
    operands_free(&again);
    return st;
}

static void report_form(struct comparison *h, int number, const struct op_case *c,
                        const struct in_place *share, enum status st)
{
    char form[48] = "";
    if (share)
        snprintf(form, sizeof form, " (%s in place of %s)", role_str(share->out),
                 role_str(share->in));
    bool error = st != STATUS_OK && st != STATUS_MISMATCH && st != STATUS_UNSUPPORTED;
    h->errors_in_row = error ? h->errors_in_row + 1 : 0;
    if (st == STATUS_OK) {
        h->passed++;
        if (h->steps)
            printf("pass %4d %s%s\n", number, c->name, form);
    } else if (st == STATUS_UNSUPPORTED) {
        h->skipped++;
        printf("skip %4d %s%s: %s\n", number, c->name, form, status_message());
    } else {
        h->failed++;
        printf("%s %4d %s%s: %s\n", st == STATUS_OOM ? "OOM" : "FAIL", number, c->name, form,
               status_message());
    }
}

void comparison_run(struct comparison *h, int number, const struct op_case *c)
{
    static const struct {
        enum op_kind kind;
        struct in_place share;
    } allowed[] = {
        {OP_RELU_FWD, {ROLE_Y, ROLE_X}},
        {OP_RELU_BWD, {ROLE_DX, ROLE_DY}},
        {OP_ADD, {ROLE_Y, ROLE_X}},
        {OP_ADD, {ROLE_Y, ROLE_Z}},
        {OP_BN_BWD, {ROLE_DX, ROLE_DY}},
        {OP_BN_BWD, {ROLE_DX, ROLE_DY2}},
        {OP_BN_BWD, {ROLE_DZ, ROLE_DY}},
        {OP_BN_BWD, {ROLE_DZ, ROLE_DY2}},
        {OP_DROPOUT_FWD, {ROLE_Y, ROLE_X}},
        {OP_DROPOUT_BWD, {ROLE_DX, ROLE_DY}},
        {OP_ROUND, {ROLE_Y, ROLE_X}},
        {OP_BN_BWD_APPLY, {ROLE_DX, ROLE_DY}},
        {OP_BN_BWD_APPLY, {ROLE_DZ, ROLE_DY}},
    };
    bool bad = h->fault.kind != COMPARISON_SOUND && h->fault.number == number;
    if (h->steps)
        printf("at %4d %s\n", number, c->name);
    enum status st = problem_open(h, c);
    if (st == STATUS_OK)
        st = run_form(h, c, NULL, bad ? h->fault.kind : COMPARISON_SOUND);
    report_form(h, number, c, NULL, st);
    if (st != STATUS_OK)
        return;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        const struct in_place *share = &allowed[i].share;
        if (allowed[i].kind == c->desc.kind && c->desc.t[share->out].ndim &&
            c->desc.t[share->in].ndim)
            report_form(h, number, c, share, run_form(h, c, share, COMPARISON_SOUND));
    }
}

void comparison_close(struct comparison *h)
{
    problem_close(&h->problem);
}
