/* Collectives of GPUs over a fake of NCCL. */
#include "../comm/nccl_fake.h"
#include "collective_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct nccl_port *port;

static enum status open_nccl(struct device *const *device, struct comm *const *host,
                             struct comm **c)
{
    (void)host; /* both devices are of one process, which is alone */
    struct comm *alone;
    TRY(comm_open_solo(&alone));
    const struct comm_nccl_config config = {.port = port, .host = alone, .timeout_s = 20};
    enum status st = comm_open_nccl(&config, 2, device, c);
    comm_close(alone);
    return st;
}

static void test_nccl(void **state)
{
    (void)state;
    assert_int_equal(nccl_fake_open(&port), STATUS_OK);
    collective_rig_run(open_nccl, true);
    port->drop(port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nccl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
