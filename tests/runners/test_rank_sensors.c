/* Tests the sensors of several ranks, which are threads here. Rank 0 gathers their summaries. */
#include "runners/rank_sensors.h"
#include "tests/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, SAMPLES = 3000 };

struct member {
    struct world world;
    struct rank_samples samples;
    json_t *summary; /* summary of rank 0 */
    enum status st;
};

static void *gather(void *arg)
{
    struct member *m = arg;
    const struct device_list devices = {.n = 1, .index = {4 + m->world.rank}};
    m->st = rank_sensors_gather(&m->world, &devices, &m->samples, m->summary);
    return NULL;
}

/* Returns the summary of rank 0, which begins as `first`, after all ranks have gathered theirs. Of
 * the other ranks, only those with a number below `dumb` have sensors. */
static json_t *gather_all(const char *first, int dumb)
{
    struct comm *comm[RANKS];
    struct rank_info info[RANKS] = {{.host = "a"}, {.host = "b"}, {.host = "b"}};
    struct member member[RANKS];
    pthread_t thread[RANKS];
    assert_int_equal(comm_open_local(RANKS, 60, comm), STATUS_OK);
    for (int i = 0; i < RANKS; i++) {
        member[i] =
            (struct member){.world = {.comm = comm[i], .rank = i, .size = RANKS, .info = info}};
        for (int k = 0; i > 0 && i < dumb && k < SAMPLES; k++) {
            struct telemetry_record row = telemetry_nothing;
            row.temperature_c = 50 + 10 * i + k % 5;
            assert_int_equal(rank_samples_take(&member[i].samples, &row, 1), STATUS_OK);
        }
    }
    member[0].summary = json_loads(first, 0, NULL);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, gather, &member[i]), 0);
    for (int i = 0; i < RANKS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(member[i].st, STATUS_OK);
        rank_samples_free(&member[i].samples);
    }
    for (int i = 0; i < RANKS; i++)
        comm_close(comm[i]);
    return member[0].summary;
}

/* A rank that measured nothing adds nothing. If no rank measured, the summary is empty. */
static void test_gathered(void **state)
{
    static const struct {
        const char *first;
        int dumb, from, to; /* the ranks in the summary */
    } cases[] = {
        {"{\"telemetry\": [{\"device\": 0, \"temperature_c\": 54}]}", RANKS, 0, RANKS},
        {"{}", 2, 1, 2},
        {"{}", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *summary = gather_all(cases[i].first, cases[i].dumb);
        const json_t *list = json_object_get(summary, "telemetry");
        assert_int_equal(json_array_size(list), cases[i].to - cases[i].from);
        for (int rank = cases[i].from; rank < cases[i].to; rank++) {
            const json_t *o = json_array_get(list, (size_t)(rank - cases[i].from));
            assert_int_equal(json_integer_value(json_object_get(o, "rank")), rank);
            assert_int_equal(json_integer_value(json_object_get(o, "index")), 4 + rank);
            assert_string_equal(json_string_value(json_object_get(o, "host")), rank ? "b" : "a");
            assert_true(json_number_value(json_object_get(o, "temperature_c")) == 54 + 10 * rank);
            assert_true(rank == 0 || json_integer_value(json_object_get(o, "samples")) == SAMPLES);
        }
        json_decref(summary);
    }
}

/* Two processors on which the ranks and foreign work run; counters grow from different values. */
static struct rank_load load_of(const char *kernel, double busy, double own)
{
    struct rank_load l = {
        .begin = {.wall_s = 100, .all_s = 500, .busy_s = 50, .own_s = 7},
        .end = {.wall_s = 110, .all_s = 520, .busy_s = 50 + busy * 10, .own_s = 7 + own}};
    snprintf(l.kernel, sizeof l.kernel, "%s", kernel);
    CPU_ZERO(&l.meter.cpus);
    CPU_SET(0, &l.meter.cpus);
    CPU_SET(1, &l.meter.cpus);
    return l;
}

/* `busy`: processors that are busy on the host; both ranks of a host run from 0 to 10 s. */
static void test_load(void **state)
{
    (void)state;
    int rank = -1;
    /* Each rank uses one processor all the time. */
    struct rank_load idle[] = {load_of("a", 2, 10), load_of("a", 2, 10)};
    struct host_noise n = rank_load_worst(idle, 2, &rank);
    assert_true(n.others == 0 && n.seconds == 10 && n.processors == 2 && rank == 0);

    /* On host b, foreign work has 0.8 of 2 processors; on c, it has 0.2. */
    struct rank_load hosts[] = {load_of("c", 2, 9), load_of("b", 2, 6), load_of("c", 2, 9),
                                load_of("b", 2, 6)};
    n = rank_load_worst(hosts, 4, &rank);
    assert_true(fabs(n.others - 0.4) < 1e-9 && rank == 1);

    /* A disturbed host counts, although another one has larger shares that are allowed. */
    hosts[1].end.own_s = hosts[3].end.own_s = 7 + 9.1;
    hosts[0].end.throttled_s = hosts[2].end.throttled_s = 1; /* of 20 s, in their one group */
    hosts[0].end.own_s = hosts[2].end.own_s = 7 + 10;
    hosts[2].end.preempted = hosts[0].end.preempted = 30;
    n = rank_load_worst(hosts, 4, &rank);
    assert_true(rank == 0 && fabs(n.throttled - 0.05) < 1e-9 && n.others == 0);
    assert_true(fabs(n.preempted_per_s - 6) < 1e-9);

    /* Ranks on other processors of the host have other counters. */
    CPU_CLR(1, &idle[1].meter.cpus);
    idle[1].end.own_s = 7 + 12;
    n = rank_load_worst(idle, 2, &rank);
    assert_true(fabs(n.others - 0.5) < 1e-9 && rank == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gathered),
                                       cmocka_unit_test(test_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
