/* Tests that a batch is returned to its loader only when the engine has read it. The engine and the
 * loader are fakes that record the calls of batches_in_use.c. */
#include "runners/batches_in_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BATCHES = ENGINE_HOLDS + 3 };

/* The recorded calls, in order. "read 2" waits for the batch that was added 2 calls before the
 * latest batch. "back 0" returns batch 0. */
struct log {
    char text[512];
    int lag;
    enum status reads; /* the result of waiting */
};
static struct log calls; /* global, because the wrapped functions have no context */
static struct batch batch[BATCHES];

int __wrap_engine_lag(const struct engine *e);
enum status __wrap_engine_batch_read(struct engine *e, int ago);
void __wrap_loader_release(struct loader *l, struct batch *b);

static void note(const char *what, int number)
{
    size_t n = strlen(calls.text);
    snprintf(calls.text + n, sizeof calls.text - n, "%s %d, ", what, number);
}

int __wrap_engine_lag(const struct engine *e)
{
    (void)e;
    return calls.lag;
}

enum status __wrap_engine_batch_read(struct engine *e, int ago)
{
    (void)e;
    note("read", ago);
    return calls.reads;
}

void __wrap_loader_release(struct loader *l, struct batch *b)
{
    (void)l;
    note("back", (int)(b - batch));
}

static int begin(void **state)
{
    (void)state;
    calls = (struct log){.reads = STATUS_OK};
    return 0;
}

static void test_asynchronous_device(void **state)
{
    struct batches_in_use h = {0};
    (void)state;
    calls.lag = 1;
    for (int i = 0; i < ENGINE_HOLDS; i++)
        assert_int_equal(batches_in_use_add(&h, &batch[i]), STATUS_OK);
    assert_string_equal(calls.text, "");
    assert_int_equal(batches_in_use_add(&h, &batch[2]), STATUS_OK);
    assert_string_equal(calls.text, "read 2, back 0, ");
    assert_int_equal(batches_in_use_add(&h, &batch[3]), STATUS_OK);
    assert_string_equal(calls.text, "read 2, back 0, read 2, back 1, ");
    calls.text[0] = '\0';
    assert_int_equal(batches_in_use_release(&h), STATUS_OK);
    assert_string_equal(calls.text, "read 1, back 2, read 0, back 3, ");
    assert_int_equal(h.n, 0);
}

static void test_device_that_is_waited_for(void **state)
{
    struct batches_in_use h = {0};
    (void)state;
    for (int i = 0; i < BATCHES; i++) {
        calls.text[0] = '\0';
        assert_int_equal(batches_in_use_add(&h, &batch[i]), STATUS_OK);
        assert_int_equal(h.n, 0);
    }
    assert_string_equal(calls.text, "read 0, back 4, ");
}

/* If waiting fails, the batch is not returned, because the device may still read it. */
static void test_failed_wait(void **state)
{
    struct batches_in_use h = {0};
    (void)state;
    calls.reads = STATUS_LIBRARY;
    assert_int_equal(batches_in_use_add(&h, &batch[0]), STATUS_LIBRARY);
    assert_string_equal(calls.text, "read 0, ");
    assert_int_equal(h.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_asynchronous_device, begin),
        cmocka_unit_test_setup(test_device_that_is_waited_for, begin),
        cmocka_unit_test_setup(test_failed_wait, begin),
    };
    _Static_assert(ENGINE_HOLDS == 2, "the expected calls assume ENGINE_HOLDS == 2");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
