/* Tests when the harness stops and when it measures again, and the statistics that it computes from
 * the samples. */
#include "base/thread_pool.h"
#include "bench/harness.h"
#include "comm/comm.h"
#include "comm/world.h"
#include "tests/unit.h"

#include <math.h>
#include <unistd.h>

/* Samples in a fixed order, and the number of samples taken. */
struct script {
    const double *x;
    int n, taken;
};

static enum status next(void *context, double *seconds)
{
    struct script *s = context;
    if (s->taken == s->n)
        return status_fail(STATUS_IO, "no more samples");
    *seconds = s->x[s->taken++];
    return STATUS_OK;
}

static void test_interval(void **state)
{
    double x[1000], low, high;
    for (int i = 0; i < 1000; i++)
        x[i] = i + 1;
    assert_false(harness_interval(x, 1, &low, &high));
    assert_true(low == 1 && high == 1);
    assert_false(harness_interval(x, 5, &low, &high));
    assert_true(low == 1 && high == 5);
    /* From a published table: the 95 % interval of the median of n samples reaches from the
     * `low`-th smallest to the `high`-th smallest sample. */
    static const struct {
        int n, low, high;
    } known[] = {{6, 1, 6},   {8, 1, 8},   {9, 2, 8},    {10, 2, 9},   {15, 4, 12},
                 {20, 6, 15}, {25, 8, 18}, {50, 18, 33}, {100, 40, 61}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(harness_interval(x, known[i].n, &low, &high));
        assert_true(low == known[i].low && high == known[i].high);
    }
    /* By the normal approximation, the lower end is 500 - 0.98 sqrt(1000). */
    assert_true(harness_interval(x, 1000, &low, &high));
    assert_true(fabs(low - 469) <= 1 && high == 1001 - low);
}

/* When the harness stops: at the wanted width of the interval, at the most samples, or when the
 * time is over. Without a wanted width it does not stop early. */
static void test_stops(void **state)
{
    static const struct {
        double x[10];
        struct harness_config c;
        int taken;
        double median, low, high, p5, p95;
    } cases[] = {
        {{9, 9, 1, 1, 1, 1, 1, 1}, {.warmup = 2, .most = 100, .within = 0.01}, 8, 1, 1, 1, 1, 1},
        {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {.most = 9, .within = 0.01}, 9, 5, 2, 8, 1.4, 8.6},
        {{1, 2, 3}, {.most = 1, .within = 0.01}, 1, 1, 1, 1, 1, 1},
        {{1, 1, 1, 1, 1}, {.most = 100, .seconds = 3}, 3, 1, 1, 1, 1, 1},
        {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {.most = 10}, 10, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script s = {cases[i].x, 10, 0};
        struct harness_result r;
        assert_int_equal(harness_run(&cases[i].c, next, &s, &r), STATUS_OK);
        assert_int_equal(s.taken, cases[i].taken);
        assert_int_equal(r.n, cases[i].taken - cases[i].c.warmup);
        assert_true(cases[i].c.within == 0 || r.narrow == (i == 0));
        assert_true(r.min == 1 && r.median == cases[i].median);
        assert_true(r.low == cases[i].low && r.high == cases[i].high);
        assert_true(r.p5 == cases[i].p5 && r.p95 == cases[i].p95);
    }
}

static void test_failures(void **state)
{
    static const double x[] = {1, NAN, 1};
    struct script s = {x, 1, 0};
    struct harness_config c = {.most = 3};
    struct harness_result r;
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_IO);
    s = (struct script){x, 3, 0};
    assert_int_equal(harness_run(&c, next, &s, &r), STATUS_INVALID);
}

/* The peak is the fastest call, after calls of half a second that were not faster by 1 %. */
static void test_least(void **state)
{
    static const struct {
        double x[10];
        int n, taken; /* the least number of calls; the number made */
        double least;
    } cases[] = {
        {{0.2, 0.2, 0.2, 0.2, 0.2, 0.1}, 1, 4, 0.2}, /* 3 calls of 0.2 s after the first */
        {{0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01}, 1, 8, 0.1},
        {{0.2, 0.1995, 0.199, 0.199, 0.1}, 1, 4, 0.199}, /* slightly faster is stable */
        {{0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.1}, 6, 6, 0.3},
        {{4, 3, 2}, 1, 2, 3}, /* at most about 5 s */
        {{4, 3, 2, 1}, 4, 4, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script s = {cases[i].x, 10, 0};
        double least = NAN;
        assert_int_equal(harness_least(cases[i].n, next, &s, &least), STATUS_OK);
        assert_int_equal(s.taken, cases[i].taken);
        assert_true(least == cases[i].least);
    }
    struct script s = {cases[0].x, 2, 0};
    double least;
    assert_int_equal(harness_least(1, next, &s, &least), STATUS_IO);
}

/* --- other work --- */

/* A host whose processors have been busy and idle for some seconds. */
struct host {
    const char *root;
    double busy_s, idle_s;
};

static void host_write(const struct host *h)
{
    char text[256];
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    int cpu = 0;
    cpu_set_t cpus;
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    snprintf(text, sizeof text, "cpu%d %.0f 0 0 %.0f 0 0 0 0 0 0\n", cpu, h->busy_s / tick_s,
             h->idle_s / tick_s);
    scratch_write_text(h->root, "stat", text);
}

/* A row of two samples, during which other work takes a share of the host's time. */
struct busy_row {
    struct host host;
    const double *others; /* of each measurement */
    int taken;            /* samples */
};

static enum status busy_sample(void *context, double *seconds)
{
    struct busy_row *r = context;
    double others = r->others[r->taken++ / 2];
    r->host.busy_s += 10 * others;
    r->host.idle_s += 10 * (1 - others);
    host_write(&r->host);
    *seconds = r->taken;
    return STATUS_OK;
}

static void test_repeats(void **state)
{
    static const struct {
        double others[4];
        int repeats, taken;
        bool disturbed;
    } cases[] = {
        {{0, 0.6}, 2, 2, false},          /* measured once */
        {{0.6, 0, 0.6}, 2, 4, false},     /* the second measurement counts */
        {{0.6, 0.6, 0.6, 0}, 2, 6, true}, /* the limit */
        {{0.6, 0.6, 0.05, 0}, 2, 6, false},
        {{0.6, 0}, 0, 2, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct busy_row row = {{*state, 100, 100}, cases[i].others, 0};
        struct harness_config c = {.most = 2, .repeats = cases[i].repeats, .proc = *state};
        struct harness_result r;
        char why[NOISE_TEXT_MAX];
        host_write(&row.host);
        assert_int_equal(harness_run(&c, busy_sample, &row, &r), STATUS_OK);
        assert_int_equal(row.taken, cases[i].taken);
        assert_true(r.n == 2 && r.median == row.taken - 0.5); /* the last two samples */
        assert_true(host_noise_judge(&r.noise, why) == cases[i].disturbed);
        assert_true(fabs(r.noise.others - cases[i].others[cases[i].taken / 2 - 1]) < 0.02);
    }
}

/* Three ranks on two hosts, of which one is busy: all ranks repeat, and have the busy host's noise.
 * The ranks' own work is no disturbance. */
struct ranks {
    struct comm *comm[3];
    struct rank_info process[3];
    struct host host[2];
    double work_s; /* other work on the first host */
    struct host_noise noise[3];
    bool again[3];
};

static enum status rank_run(void *context, int rank)
{
    struct ranks *r = context;
    struct host *host = &r->host[rank == 2];
    const struct harness_job job = {r->comm[rank], r->process, 1};
    const struct harness_config c = {.repeats = 1, .job = &job, .proc = host->root};
    struct comm_op together = {.kind = COMM_BARRIER, .on_host = true};
    struct quiet q = quiet_begin(&c);
    TRY(comm_run(r->comm[rank], &together));
    if (rank > 0) { /* the own work of the two ranks of the first host is 2 s each */
        host->busy_s += rank == 1 ? 4 + r->work_s : 0;
        host->idle_s += 10 - (rank == 1 ? 4 + r->work_s : 0);
        host_write(host);
    }
    TRY(comm_run(r->comm[rank], &together));
    q.begun.own_s -= rank < 2 ? 2 : 0;
    TRY(quiet_end(&q, &r->noise[rank]));
    r->again[rank] = q.again;
    return STATUS_OK;
}

static void test_ranks(void **state)
{
    char other[SCRATCH_MAX];
    scratch_make(other);
    struct ranks r = {.process = {{.host = "a"}, {.host = "a"}, {.host = "b"}},
                      .host = {{*state, 50, 50}, {other, 50, 50}}};
    for (int busy = 0; busy < 2; busy++) {
        struct thread_pool *pool;
        r.work_s = busy ? 5 : 0;
        host_write(&r.host[0]);
        host_write(&r.host[1]);
        expect_ok(comm_open_local(3, 60, r.comm));
        expect_ok(thread_pool_open(3, &pool));
        expect_ok(thread_pool_run(pool, rank_run, &r));
        thread_pool_close(pool);
        for (int i = 0; i < 3; i++) {
            comm_close(r.comm[i]);
            assert_true(r.again[i] == (busy == 1));
            assert_true(fabs(r.noise[i].others - (busy ? 0.5 : 0)) < 0.05);
        }
    }
    scratch_remove(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least), IN_FOLDER(test_repeats),
        IN_FOLDER(test_ranks),        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_stops), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
