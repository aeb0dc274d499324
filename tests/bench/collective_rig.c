/* Measures collectives between devices whose memory the host cannot access. */
#include "collective_rig.h"

#include "../comm/async_device.h"
#include "bench/collective.h"
#include "comm/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

void collective_rig_run(collective_rig_open *open, bool direct)
{
    enum { RANKS = 2 };
    struct rank_info info = {.host = "node1", .pid = 1};
    struct world w = {.size = 1, .info = &info};
    for (enum comm_kind kind = 0; kind < COMM_BARRIER; kind++) {
        struct collective_config c = collective_config_default();
        struct device *device[RANKS];
        struct comm *host[RANKS], *comm[RANKS];
        char *text;
        size_t size;
        c.kind = kind;
        c.checks = 2;
        c.options.timing = (struct harness_config){.warmup = 1, .most = 2};
        c.first = 64, c.last = 4000, c.step = 3936;
        c.options.out = open_memstream(&text, &size);
        c.options.format = BENCH_JSON;
        for (int i = 0; i < RANKS; i++)
            assert_int_equal(async_device_open(&device[i]), STATUS_OK);
        assert_int_equal(comm_open_local(RANKS, 20, host), STATUS_OK);
        assert_int_equal(open(device, host, comm), STATUS_OK);
        const struct collective_ranks ranks = {
            .members = RANKS, .comm = comm, .words = direct ? host : comm};
        assert_int_equal(collective_run(&c, &w, &ranks), STATUS_OK);
        fclose(c.options.out);
        json_t *o = json_loads(text, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(o, "memory")), "device");
        assert_int_equal(json_array_size(json_object_get(o, "rows")), 2);
        assert_int_equal(json_integer_value(json_object_get(o, "wrong")), 0);
        json_decref(o);
        free(text);
        for (int i = 0; i < RANKS; i++) {
            comm_close(host[i]);
            device_close(device[i]);
        }
    }
}
