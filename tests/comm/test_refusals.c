/* Tests the errors and guarantees of every kind of communicator, on a group of one rank. */
#include "exercise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int open_solo(void **state)
{
    struct comm *c;
    if (comm_open_solo(&c) != STATUS_OK)
        return 1;
    *state = c;
    return 0;
}

static int close_solo(void **state)
{
    comm_close(*state);
    return 0;
}

static void test_solo(void **state)
{
    struct comm *c = *state;
    assert_int_equal(comm_rank(c), 0);
    assert_int_equal(comm_size(c), 1);
    assert_string_equal(comm_name(c), "solo");
    assert_int_equal(exercise_kinds(c, 20000), 0);
    assert_int_equal(exercise_under_way(c, 1), 0);
}

static void refuse(struct comm *c, struct comm_op op, const char *message)
{
    assert_int_equal(comm_start(c, &op), STATUS_INVALID);
    assert_string_equal(status_message(), message);
    assert_int_equal(op.handle, 0);
}

static void test_refusals(void **state)
{
    struct comm *c = *state;
    float x[4] = {0};
    const struct comm_op good = {COMM_ALLREDUCE, COMM_SUM,  DTYPE_F32,
                                 .send = x,      .recv = x, .count = 2};
    struct comm_op op = good;
    op.kind = COMM_KIND_COUNT;
    refuse(c, op, "unknown kind of operation 10");
    op = good;
    op.type = DTYPE_TF32;
    refuse(c, op, "allreduce: elements in memory cannot have type 6");
    op.type = DTYPE_U8;
    refuse(c, op, "allreduce: u8 cannot be reduced");
    op = good;
    op.reduction = (enum comm_reduction)7;
    refuse(c, op, "allreduce: unknown reduction 7");
    op = good;
    op.kind = COMM_REDUCE;
    op.root = 1;
    refuse(c, op, "reduce: root 1 is not one of the 1 ranks");
    op = good;
    op.count = -1;
    refuse(c, op, "allreduce: the count -1 is out of range");
    op.count = INT64_MAX / 2;
    refuse(c, op, "allreduce: the count 4611686018427387903 is out of range");
    op = good;
    op.recv = NULL;
    refuse(c, op, "allreduce: send or recv is NULL for 2 elements");
    op = good;
    op.recv = x + 1;
    refuse(c, op, "allreduce: send and recv overlap");
}

static void test_order_of_calls(void **state)
{
    struct comm *c = *state;
    struct comm_op op = {COMM_BARRIER};
    assert_int_equal(comm_wait(c, &op), STATUS_INVALID);
    assert_string_equal(status_message(), "barrier: the caller waited for it before starting it");
    assert_int_equal(comm_start(c, &op), STATUS_OK);
    assert_int_equal(comm_start(c, &op), STATUS_INVALID);
    assert_string_equal(status_message(), "barrier: started again before the caller waited for it");
    assert_int_equal(comm_wait(c, &op), STATUS_OK);
    assert_int_equal(comm_wait(c, &op), STATUS_INVALID);
    assert_int_equal(comm_run(c, &op), STATUS_OK);
}

static void test_most_started(void **state)
{
    struct comm *c = *state;
    static struct comm_op op[COMM_MAX_STARTED];
    memset(op, 0, sizeof op);
    for (int i = 0; i < COMM_MAX_STARTED; i++) {
        op[i].kind = COMM_BARRIER;
        assert_int_equal(comm_start(c, &op[i]), STATUS_OK);
    }
    struct comm_op more = {COMM_BARRIER};
    assert_int_equal(comm_start(c, &more), STATUS_INVALID);
    assert_string_equal(status_message(),
                        "wait for operation 1 before starting 1024 more operations");
    for (int i = 0; i < COMM_MAX_STARTED; i++)
        assert_int_equal(comm_wait(c, &op[i]), STATUS_OK);
    assert_int_equal(comm_run(c, &more), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_solo, open_solo, close_solo),
        cmocka_unit_test_setup_teardown(test_refusals, open_solo, close_solo),
        cmocka_unit_test_setup_teardown(test_order_of_calls, open_solo, close_solo),
        cmocka_unit_test_setup_teardown(test_most_started, open_solo, close_solo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
