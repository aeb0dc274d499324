/* Compares the table of launches (kernels/cuda/traffic.c) with the launches of executed operations.
 * The fake GPU executes the operations, and its profiler lists each kernel of this project and each
 * call of a library. Large operations are launched, but not computed (AMPSCALE_FAKE_DELAYS). */
#include "kernels/traffic.h"
#include "tests/kernels/group.h"
#include "verify/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct bench {
    struct device *dev;
    const struct backend *b;
    struct stream *s;
    char path[64]; /* the file that the profiler writes */
};

struct launches {
    int own, library;
};

static int set_up(void **state)
{
    static struct bench k;
    snprintf(k.path, sizeof k.path, "/tmp/test_traffic.XXXXXX");
    int fd = mkstemp(k.path);
    if (fd < 0 || setenv("AMPSCALE_FAKE_PROFILE", k.path, 1) != 0)
        return -1;
    close(fd);
    OK(device_open("cuda:0", 1, &k.dev));
    k.dev->deterministic =
        true; /* with delays, plans that are tried compute parts of their results */
    k.b = k.dev->backend;
    OK(k.b->stream_open(k.dev, &k.s));
    *state = &k;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *k = *state;
    k->b->stream_close(k->s);
    device_close(k->dev);
    return unlink(k->path);
}

static void begin_count(const struct bench *k, struct stream *s)
{
    assert_int_equal(truncate(k->path, 0), 0);
    OK(k->b->profile(s, PROFILE_BEGIN));
}

static struct launches end_count(const struct bench *k, struct stream *s)
{
    struct launches n = {0};
    char line[256];
    OK(k->b->profile(s, PROFILE_END));
    FILE *f = fopen(k->path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "library", 7) == 0)
            n.library++;
        else
            n.own++;
    }
    fclose(f);
    return n;
}

static struct launches listed(const struct traffic *t)
{
    struct launches n = {0};
    for (int i = 0; i < t->n; i++)
        *(t->kernel[i].library ? &n.library : &n.own) += 1;
    return n;
}

/* Checks tensors of two or more dimensions: every read and write in the operation's definition must
 * be in the table. */
static void check_roles(const struct op_plan *plan, const struct traffic *t, const char *name)
{
    const struct op_desc *d = &plan->desc;
    uint64_t did[2] = {0}; /* roles read, roles written */
    for (int i = 0; i < t->n; i++)
        for (int j = 0; j < t->kernel[i].n; j++)
            did[t->kernel[i].access[j].writes] |= UINT64_C(1) << t->kernel[i].access[j].role;
    struct op_roles roles = op_roles(d->kind);
    if (d->kind == OP_SGD)
        roles.reads &= ~ROLE_SET(WCOPY); /* only a skipped step reads it */
    if (d->kind == OP_BN_BWD && (!d->attr.bn.relu || d->t[ROLE_MASK].ndim))
        roles.reads &= ~ROLE_SET(Y);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim > 1 && d->kind != OP_REORDER &&
            ((roles.reads & ~did[0]) >> r & 1 || (roles.writes & ~did[1]) >> r & 1))
            fail_msg("%s: the table does not say that %s is %s", name, role_str((enum role)r),
                     (roles.writes & ~did[1]) >> r & 1 ? "written" : "read");
}

static void compare(const struct bench *k, const struct op_plan *plan, struct launches seen,
                    const char *name)
{
    struct traffic t;
    k->b->traffic(plan, &t);
    struct launches in_table = listed(&t);
    if (in_table.own != seen.own || in_table.library != seen.library)
        fail_msg("%s (%s): the table has %d own kernels and %d calls of libraries, but %d and %d "
                 "were launched; see kernels/cuda/traffic.c",
                 name, op_str(plan->desc.kind), in_table.own, in_table.library, seen.own,
                 seen.library);
    check_roles(plan, &t, name);
}

static void check_case(const struct bench *k, struct op_plan *plan, const char *name)
{
    void *arg[ROLE_COUNT] = {NULL};
    for (int r = 0; r < ROLE_COUNT; r++) {
        size_t bytes = plan->desc.t[r].ndim  ? plan->desc.t[r].bytes
                       : r == ROLE_STATE     ? sizeof(struct step_state)
                       : r == ROLE_METRICS   ? sizeof(struct loss_metrics)
                       : r == ROLE_WORKSPACE ? plan->workspace
                                             : 0;
        if (bytes)
            OK(k->b->alloc(k->dev, bytes, &arg[r]));
    }
    begin_count(k, k->s);
    OK(op_execute(plan, arg, k->s));
    compare(k, plan, end_count(k, k->s), name);
    for (int r = 0; r < ROLE_COUNT; r++)
        k->b->free(k->dev, arg[r]);
}

/* Tests a part of the cases that the backend covers. For each kind of operation, this is the first
 * of every `stride` cases. */
static void test_cases(void **state)
{
    const int stride = 8;
    const struct bench *k = *state;
    struct case_list list;
    int covered[OP_KIND_COUNT] = {0};
    OK(case_list_new(&list));
    for (int i = 0; i < list.n; i++) {
        const struct op_case *c = &list.item[i];
        struct op_plan *plan;
        if (op_plan(k->dev, &c->desc, &plan) != STATUS_OK)
            continue;
        if (covered[c->desc.kind]++ % stride == 0)
            check_case(k, plan, c->name);
        op_plan_free(plan);
    }
    case_list_free(&list);
    assert_true(covered[OP_REORDER] > 0 && covered[OP_SGD] > 0 && covered[OP_BN_BWD] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
