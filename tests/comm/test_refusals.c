/* Tests what every kind of communicator refuses, on a group of one rank. */
#include "exercise.h"
#include "tests/unit.h"

#include <string.h>

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
    assert_int_equal(exercise_kinds(c, 20000), 0);
    assert_int_equal(exercise_under_way(c, 1), 0);
}

static void test_refusals(void **state)
{
    static float x[4];
    static const struct {
        struct comm_op op;
        const char *message;
    } refused[] = {
        {{COMM_KIND_COUNT}, "unknown kind of operation"},
        {{COMM_ALLREDUCE, .type = DTYPE_TF32}, "elements in memory cannot have type"},
        {{COMM_ALLREDUCE, .type = DTYPE_U8}, "allreduce: u8 cannot be reduced"},
        {{COMM_ALLREDUCE, (enum comm_reduction)7}, "unknown reduction"},
        {{COMM_REDUCE, .root = 1}, "root 1 is not one of the 1 ranks"},
        {{COMM_REDUCE, .root = -1}, "root -1 is not one of the 1 ranks"},
        {{COMM_ALLREDUCE, .count = -1}, "the count -1 is out of range"},
        {{COMM_ALLREDUCE, .count = INT64_MAX / 2}, "is out of range"},
        {{COMM_ALLREDUCE, .send = x, .count = 2}, "send or recv is NULL for 2 elements"},
        {{COMM_ALLREDUCE, .send = x, .recv = x + 1, .count = 2}, "send and recv overlap"},
        {{COMM_ALLTOALL, .send = x, .recv = x, .count = 2}, "send and recv overlap"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct comm_op op = refused[i].op;
        assert_int_equal(comm_start(*state, &op), STATUS_INVALID);
        if (!strstr(status_message(), refused[i].message))
            fail_msg("'%s' does not contain '%s'", status_message(), refused[i].message);
        assert_int_equal(op.handle, 0);
    }
}

static void test_order_of_calls(void **state)
{
    struct comm *c = *state;
    struct comm_op op = {COMM_BARRIER};
    assert_int_equal(comm_open_local(0, 0, &c), STATUS_INVALID);
    assert_int_equal(comm_wait(c, &op), STATUS_INVALID);
    assert_int_equal(comm_start(c, &op), STATUS_OK);
    assert_int_equal(comm_start(c, &op), STATUS_INVALID);
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
    assert_non_null(strstr(status_message(), "wait for operation 1 before"));
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
