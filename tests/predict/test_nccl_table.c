/* Reads tables of nccl-tests, and refuses invalid ones. */
#include "predict/cost.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RANK(i, host)                                                                              \
    "#  Rank  " #i " Group  0 Pid  " #i "11 on      " host " device  " #i " [0x07] NVIDIA V100\n"
#define TWO_HOSTS RANK(0, "a") RANK(1, "a") RANK(2, "b") RANK(3, "b")
#define ONE_HOST  RANK(0, "a") RANK(1, "a")
#define HEAD                                                                                       \
    "#                                                              out-of-place          in-"     \
    "place\n"                                                                                      \
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "   \
    "time   algbw   busbw  #wrong\n"
#define ROW(size, time, alg, bus)                                                                  \
    "  " size "  1  float  sum  -1  999  9.0  9.0  0  " time "  " alg "  " bus "  0\n"
#define TAIL "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5\n#\n"

/* Four ranks on two hosts: a latency of 20 us, and 1 us per kB. The bus bandwidth is 1.5 times the
 * algorithm bandwidth. */
#define FOUR                                                                                       \
    TWO_HOSTS HEAD ROW("0", "5.00", "0.00", "0.00") ROW("1000", "21.00", "0.05", "0.07")           \
        ROW("10000", "30.00", "0.33", "0.50") ROW("1000000", "1020", "0.98", "1.47") TAIL
#define TWO                                                                                        \
    ONE_HOST HEAD ROW("1000", "2.10", "0.48", "0.48") ROW("1000000", "102", "9.80", "9.80") TAIL

static enum status load(const char *dir, const char *text, struct nccl_table *t)
{
    scratch_write_text(dir, "table.txt", text);
    return nccl_table_load(scratch_path(dir, "table.txt"), t);
}

static void assert_close(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want)))
        fail_msg("%.12g instead of %.12g", got, want);
}

static void test_reading(void **state)
{
    static struct nccl_table t;
    struct network_cost net = {.table = &t, .n_tables = 1, .intra = {1, 1}, .ranks_per_node = 1};
    expect_ok(load(*state, FOUR, &t));
    assert_true(t.ranks == 4 && t.nodes == 2 && t.n == 3);
    expect_ok(cost_from_tables(&net));
    assert_close(cost_allreduce(&net, 4, 10), 21e-6);
    assert_close(cost_allreduce(&net, 4, 5500), 25.5e-6);
    assert_close(cost_allreduce(&net, 4, 2e6), 2020e-6);
}

/* Two ranks on a node take 2 us (two hops of 1 us) plus 0.1 ns per byte (10 GB/s). Four ranks on
 * two nodes take 20 us: four hops of 1 us within the nodes, and two hops of 8 us between the nodes.
 * They take 1 ns per byte and send 1.5 times the bytes, so the bandwidth between nodes is 1.5 GB/s.
 */
static void test_network(void **state)
{
    static struct nccl_table t[2];
    struct network_cost net = {.table = t, .n_tables = 2, .ranks_per_node = 1};
    expect_ok(load(*state, TWO, &t[0]));
    expect_ok(load(*state, FOUR, &t[1]));
    expect_ok(cost_from_tables(&net));
    assert_int_equal(net.ranks_per_node, 2);
    assert_close(net.intra.latency_s, 1e-6);
    assert_close(net.intra.bytes_per_s, 10e9);
    assert_close(net.inter.latency_s, 8e-6);
    assert_close(net.inter.bytes_per_s, 1.5e9);
    assert_close(cost_allreduce(&net, 4, 10000), 30e-6); /* for 4 ranks, the measured time */
    assert_close(cost_allreduce(&net, 8, 1e6), 2 * 3 * 8e-6 + 2 * 4 * 1e-6 + 1.75e6 / 1.5e9);

    /* Without a table of one node, the latency within a node is not measured. The fit divides the
     * 20 us equally among the six hops. */
    net = (struct network_cost){.table = &t[1],
                                .n_tables = 1,
                                .intra = {.latency_s = 1e-5, .bytes_per_s = 40e9},
                                .ranks_per_node = 1};
    expect_ok(cost_from_tables(&net));
    assert_close(net.intra.latency_s, 20e-6 / 6);
    assert_close(net.inter.latency_s, 20e-6 / 6);
    assert_close(net.intra.bytes_per_s, 40e9);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {
        "hello\n",
        HEAD ROW("1000", "21", "0.05", "0.07") ROW("10000", "30", "0.33", "0.50"),
        TWO_HOSTS HEAD ROW("1000", "21", "0.05", "0.07"),
        TWO_HOSTS HEAD ROW("10000", "30", "0.33", "0.5") ROW("1000", "21", "0.05", "0.07"),
        TWO_HOSTS HEAD ROW("1000", "0", "0.05", "0.07") ROW("10000", "30", "0.33", "0.50"),
        TWO_HOSTS HEAD ROW("1000", "nan", "0.05", "0.07") ROW("10000", "30", "0.33", "0.50"),
        TWO_HOSTS HEAD ROW("1000", "1e99", "0.05", "0.07") ROW("10000", "30", "0.33", "0.50"),
        /* a table of another collective: bus bandwidth = 0.75 * algorithm bandwidth */
        TWO_HOSTS HEAD ROW("1000", "21", "0.05", "0.04") ROW("10000", "30", "0.33", "0.25"),
    };
    static struct nccl_table t;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (load(*state, bad[i], &t) != STATUS_DATA)
            fail_msg("table %zu was not refused: %s", i, status_message());
    assert_int_equal(nccl_table_load("/nowhere/table", &t), STATUS_DATA);
    static const char wrong[] =
        TWO_HOSTS HEAD "  1000  1  float  sum  -1  9  9.0  9.0  0  9  1.0  1.5  7\n";
    assert_int_equal(load(*state, wrong, &t), STATUS_MISMATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(test_reading), IN_FOLDER(test_network),
                                       IN_FOLDER(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
