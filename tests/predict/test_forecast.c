/* Compares costs, stragglers and schedules with hand-computed values, and fits the model to points
 * computed from a known system. */
#include "../results/scratch.h"
#include "base/rng.h"
#include "predict/prediction.h"

#include <math.h>
#include <string.h>

static void assert_close(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%.12g instead of %.12g", got, want);
}

static const struct network_cost cluster = {.intra = {.latency_s = 1e-6, .bytes_per_s = 40e9},
                                            .inter = {.latency_s = 1e-4, .bytes_per_s = 10e9},
                                            .ranks_per_node = 4};

/* 4 ranks on one node: the time of a ring is 6 latencies plus the time to send 1.5 times the bytes.
 * 16 ranks on 4 nodes: the data pass 3 hops between nodes and 12 hops within nodes, and each of
 * these hops twice. 30/16 of the bytes cross the slowest link, which may be within a node, unless a
 * node has one rank. A tree has two levels between nodes
 * and three hops within a node. The data pass each level and each hop twice, and twice the bytes
 * are sent. */
static void test_allreduce(void **state)
{
    static const struct {
        enum cost_algorithm algorithm;
        int64_t ranks;
        double bytes, seconds;
    } cases[] = {
        {COST_RING, 1, 1e9, 0},
        {COST_RING, 4, 40e6, 6e-6 + 1.5e-3},
        {COST_RING, 16, 40e6, 6e-4 + 24e-6 + 7.5e-3},
        {COST_TREE, 16, 40e6, 4e-4 + 6e-6 + 8e-3},
        {COST_AUTO, 16, 40e6, 6e-4 + 24e-6 + 7.5e-3},
        {COST_AUTO, 16, 1000, 4e-4 + 6e-6 + 2e-7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct network_cost net = cluster;
        net.algorithm = cases[i].algorithm;
        assert_close(cost_allreduce(&net, cases[i].ranks, cases[i].bytes), cases[i].seconds, 1e-12);
    }
    struct network_cost slow = cluster;
    slow.intra.bytes_per_s = 2e9;
    assert_close(cost_allreduce(&slow, 16, 40e6), 6e-4 + 24e-6 + 37.5e-3, 1e-12);
    slow.algorithm = COST_TREE;
    assert_close(cost_allreduce(&slow, 16, 40e6), 4e-4 + 6e-6 + 40e-3, 1e-12);
    slow.ranks_per_node = 1;
    assert_close(cost_allreduce(&slow, 16, 40e6), 8e-4 + 8e-3, 1e-12);
}

/* Expected maxima of n normal numbers: Harter, "Expected values of normal order statistics", 1961,
 * table 1. */
static void test_largest_of_many(void **state)
{
    const struct {
        int64_t n;
        double mean;
    } known[] = {{2, 0.56419}, {10, 1.53875}, {100, 2.50759}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct straggler s;
        double mean = 0;
        straggler_of(known[i].n, &s);
        for (int k = 0; k < STRAGGLER_QUANTILES; k++)
            mean += s.z[k] / STRAGGLER_QUANTILES;
        assert_close(mean, known[i].mean, 0.01);
    }
}

/* A system in which an image takes 10 ms: 3 ms in the forward pass, 6 ms in the backward pass, and
 * 1 ms in the optimizer. */
static struct system by_hand(void)
{
    return (struct system){.work = {.forward = 0.3, .backward = 0.6, .n = 2},
                           .net = cluster,
                           .image_s = 0.01,
                           .image_bytes = 1e5};
}

static struct forecast forecast_of(const struct system *s, int64_t ranks)
{
    struct straggler late;
    struct forecast f;
    straggler_of(ranks, &late);
    forecast_step(s, ranks, 1, &late, &f);
    assert_close(f.compute_s + f.straggler_s + f.exposed_s + f.input_s, f.step_s, 1e-9);
    return f;
}

/* On 4 ranks, a bucket of 40 MB takes 1.506 ms, and a bucket of 240 MB takes 9.006 ms. */
static void test_schedule(void **state)
{
    struct system s = by_hand();
    /* The first bucket is ready at 6 ms and done at 7.506 ms. The second is ready at 9 ms and done
     * at 10.506 ms: 1.506 ms after the backward pass. */
    s.work.bucket[0] = (struct bucket){.ready = 0.5, .bytes = 40e6};
    s.work.bucket[1] = (struct bucket){.ready = 1, .bytes = 40e6};
    assert_close(forecast_of(&s, 4).exposed_s, 1.506e-3, 1e-9);
    assert_true(forecast_of(&s, 4).limit == LIMIT_BANDWIDTH);
    /* The first bucket is done at 15.006 ms, and the second one starts then. */
    s.work.bucket[0].bytes = 240e6;
    assert_close(forecast_of(&s, 4).exposed_s, 15.006e-3 + 1.506e-3 - 9e-3, 1e-9);
    assert_close(forecast_of(&s, 4).busy_s, 10.512e-3, 1e-9);
    /* Communication that ends within the backward pass is not exposed. */
    s.work.n = 1;
    s.work.bucket[0].bytes = 40e6;
    assert_true(forecast_of(&s, 4).exposed_s == 0);
    assert_true(forecast_of(&s, 4).limit == LIMIT_COMPUTE);
}

static void test_limits(void **state)
{
    struct system s = by_hand();
    s.work.bucket[0] = s.work.bucket[1] = (struct bucket){.ready = 1, .bytes = 1000};
    s.input_bytes_per_s = 1e7; /* 4 images of 100 kB take 40 ms */
    struct forecast f = forecast_of(&s, 4);
    assert_close(f.step_s, 0.04, 1e-9);
    assert_close(f.images_per_s, 100, 1e-9);
    assert_true(f.limit == LIMIT_INPUT);
    s.input_bytes_per_s = 0;
    s.net.inter.latency_s = 1e-2;
    assert_true(forecast_of(&s, 8).limit == LIMIT_LATENCY);
    s.net.inter.latency_s = 0;
    s.sigma = 0.2;
    f = forecast_of(&s, 64);
    assert_true(f.limit == LIMIT_STRAGGLERS);
    assert_true(f.step_p5_s < f.step_s && f.step_s < f.step_p95_s);
}

/* Returns a number between low and high; its logarithm is uniform. */
static double between(struct rng *r, double low, double high)
{
    return low * pow(high / low, rng_double(r));
}

/* Whatever the network, with or without measured tables: a step on more ranks, with the same batch
 * per rank, does not take less time. */
static void test_efficiency_never_rises(void **state)
{
    static struct nccl_table table[2];
    for (int k = 0; k < 100; k++) {
        struct rng r = rng_at(1, RNG_TEST, (uint64_t)k, 0);
        struct system s = by_hand();
        s.work.n = 1 + (int)rng_below(&r, 4);
        for (int i = 0; i < s.work.n; i++)
            s.work.bucket[i] =
                (struct bucket){.ready = (i + 1.0) / s.work.n, .bytes = between(&r, 1e3, 1e9)};
        s.net = (struct network_cost){.intra = {between(&r, 1e-7, 1e-2), between(&r, 1e7, 1e12)},
                                      .inter = {between(&r, 1e-7, 1e-2), between(&r, 1e7, 1e12)},
                                      .ranks_per_node = 1 + (int)rng_below(&r, 8),
                                      .algorithm = (enum cost_algorithm)rng_below(&r, 3),
                                      .table = table,
                                      .n_tables = (int)rng_below(&r, 3)};
        s.sigma = between(&r, 1e-3, 0.5);
        s.input_bytes_per_s = rng_below(&r, 2) ? between(&r, 1e6, 1e10) : 0;
        for (int i = 0; i < 2; i++) {
            double latency = between(&r, 1e-7, 1e-2), bytes_per_s = between(&r, 1e7, 1e12);
            table[i] = (struct nccl_table){.ranks = i ? 24 : 8, .nodes = 1 + i, .n = 2};
            for (int row = 0; row < 2; row++)
                table[i].row[row] = (struct nccl_row){
                    .bytes = 1 + 1e9 * row, .seconds = latency + (1 + 1e9 * row) / bytes_per_s};
        }
        double before = 0;
        for (int64_t n = 1; n <= 64; n++) {
            double step_s = forecast_of(&s, n).step_s;
            if (step_s < before * (1 - 1e-9))
                fail_msg("system %d: %d ranks take less time than %d", k, (int)n, (int)n - 1);
            before = step_s;
        }
    }
}

/* resnet18 of torchvision has 11689512 parameters. Most of them are in the last layers, whose
 * gradients are ready first. */
static void test_buckets_of_a_network(void **state)
{
    struct workload_config c = {.arch = "resnet18",
                                .classes = 1000,
                                .image_size = 224,
                                .bucket_bytes = 8 << 20,
                                .gradient_bytes = 2,
                                .overlap = true};
    struct workload w;
    expect_ok(workload_of(&c, &w));
    assert_close(workload_bytes(&w), 2 * 11689512.0, 1e-12);
    assert_close(w.forward + w.backward, 1, 1e-12);
    /* the first layer computes no gradient of its input, and the gradients of fc alone exceed 1 MiB
     */
    assert_true(w.forward > 0.338 && w.forward < 0.345);
    assert_close(w.bucket[0].bytes, 2 * 513000.0, 1e-12);
    assert_true(w.n == 6 && w.bucket[w.n - 1].ready == 1);
    for (int i = 1; i < w.n; i++)
        assert_true(w.bucket[i].ready > w.bucket[i - 1].ready);
    c.overlap = false;
    expect_ok(workload_of(&c, &w));
    assert_true(w.n == 1 && w.bucket[0].ready == 1);
    c.arch = "resnet7";
    assert_int_equal(workload_of(&c, &w), STATUS_USAGE);
}

/* A source of one bucket of a byte, sent after the backward pass, from ranks of 100 images/s. */
static struct source source_by_hand(int64_t per_node)
{
    struct source s = {.ranks_per_node = per_node, .n = 1, .mode = "ddp", .label = "made"};
    s.work = (struct workload){.forward = 0.3, .backward = 0.7, .n = 1};
    s.work.bucket[0] = (struct bucket){.ready = 1, .bytes = 1};
    s.point[0] = (struct measured){.ranks = 1, .batch = 1, .images_per_s = 100};
    return s;
}

static struct prediction_config config_of(const struct source *source, int64_t ranks)
{
    return (struct prediction_config){.source = source,
                                      .system = {.net = {.intra = {1e-5, 40e9},
                                                         .inter = {5e-4, 5e9},
                                                         .ranks_per_node = source->ranks_per_node}},
                                      .known = {.sigma = true},
                                      .n_ranks = 1,
                                      .ranks = {ranks}};
}

/* Makes points at 1 to 32 ranks from a system far from the typical values. The fit finds the
 * parameters of this system. */
static void test_fit_finds_the_machine(void **state)
{
    static struct prediction p;
    struct system truth = by_hand();
    struct source source = {.ranks_per_node = 4, .n = 6, .label = "made"};
    struct prediction_config c = config_of(&source, 64);
    c.known = (struct fit_known){.intra = true};
    c.fit = true;
    c.system.net.intra = cluster.intra;
    c.system.sigma = 0.02;
    truth.work.bucket[0] = truth.work.bucket[1] = (struct bucket){.ready = 1, .bytes = 5e6};
    source.work = truth.work;
    truth.net.inter = (struct link){.latency_s = 2e-4, .bytes_per_s = 2e9};
    truth.sigma = 0.1;
    for (int i = 0; i < 6; i++) {
        struct forecast f = forecast_of(&truth, 1 << i);
        source.point[i] =
            (struct measured){.ranks = f.ranks, .batch = 1, .images_per_s = f.images_per_s};
    }
    expect_ok(prediction_make(&c, &p));
    assert_close(p.system.image_s, truth.image_s, 0.02);
    assert_close(p.system.sigma, truth.sigma,
                 0.2); /* the fit is biased towards the typical value */
    for (int64_t n = 64; n <= 256; n *= 2)
        assert_close(forecast_of(&p.system, n).images_per_s, forecast_of(&truth, n).images_per_s,
                     0.05);
    assert_true(p.system.net.intra.bytes_per_s == 40e9); /* a known value is not changed */
}

/* With all but the time of an image known, the forecast for the measured point is its throughput,
 * unless communication alone takes longer. */
static void test_calibration(void **state)
{
    static struct prediction p;
    struct source source = source_by_hand(4);
    struct prediction_config c = config_of(&source, 4);
    source.work.bucket[0].bytes = 80e6;
    source.point[0] = (struct measured){.ranks = 4, .batch = 1, .images_per_s = 200};
    c.known = (struct fit_known){true, true, true};
    expect_ok(prediction_make(&c, &p));
    assert_close(p.forecast[0].step.images_per_s, 200, 1e-5);
    source.point[0].images_per_s = 4000;
    assert_int_equal(prediction_make(&c, &p), STATUS_DATA);
}

/* Intervals of posteriors that were integrated on a grid (NumPy). One point and nothing unknown:
 * the point's noise and that of the forecast's measurement, 1.96 * 0.015 * sqrt(2). One point and
 * the latency between nodes from its prior. Two points that determine the latency to 4.7 %. */
static void test_intervals(void **state)
{
    static struct prediction p;
    struct source s = source_by_hand(1);
    struct prediction_config c = config_of(&s, 1);
    c.known.inter = c.known.intra = true;
    expect_ok(prediction_make(&c, &p));
    assert_close(p.forecast[0].low, 95.93, 0.01);
    assert_close(p.forecast[0].high, 104.25, 0.01);
    c.known.inter = false;
    c.ranks[0] = 2;
    expect_ok(prediction_make(&c, &p));
    assert_close(p.forecast[0].step.images_per_s, 181.8, 1e-3);
    assert_close(log(p.forecast[0].low), log(33.10), 0.08);
    assert_close(p.forecast[0].high, 202.9, 0.02);
    assert_true(p.origin[FIT_INTER] == ORIGIN_ASSUMED);
    s.n = 2;
    s.point[1] = (struct measured){.ranks = 4, .batch = 1, .images_per_s = 250};
    c.fit = true;
    c.ranks[0] = 64;
    expect_ok(prediction_make(&c, &p));
    assert_close(p.forecast[0].step.images_per_s, 470.6, 1e-3);
    assert_close(p.forecast[0].low, 432.1, 0.03);
    assert_close(p.forecast[0].high, 517.2, 0.03);
    assert_true(p.origin[FIT_INTER] == ORIGIN_FITTED);
    s.point[0].spread = s.point[1].spread = 0.3; /* repeats that differ widely */
    expect_ok(prediction_make(&c, &p));
    assert_true(p.forecast[0].low < 380 && p.forecast[0].high > 600);
}

/* Points on one node say nothing about the link between nodes; the prior widens the interval. */
static void test_assumed(void **state)
{
    static struct prediction p;
    struct source s = source_by_hand(2);
    struct prediction_config c = config_of(&s, 4);
    s.n = 2;
    s.work.bucket[0].bytes = 1e8;
    s.point[1] = (struct measured){.ranks = 2, .batch = 1, .images_per_s = 64};
    c.fit = true;
    expect_ok(prediction_make(&c, &p));
    assert_true(p.origin[FIT_INTER] == ORIGIN_ASSUMED);
    assert_true(p.origin[FIT_INTER + 1] == ORIGIN_ASSUMED);
    assert_true(p.origin[FIT_INTRA + 1] == ORIGIN_FITTED);
    assert_true(p.origin[FIT_SIGMA] == ORIGIN_KNOWN);
    /* Half the bandwidth of the machine is lost on 2 ranks, and 4 ranks are not more efficient. */
    assert_close(p.point[1].forecast.step.images_per_s, 64, 0.02);
    assert_true(p.forecast[0].step.images_per_s < 2 * 64);
    c.ranks[0] = 2;
    expect_ok(prediction_make(&c, &p));
    assert_true(p.origin[FIT_INTER + 1] == ORIGIN_UNUSED);
    c.known.inter = true;
    c.ranks[0] = 4;
    expect_ok(prediction_make(&c, &p));
    assert_true(p.origin[FIT_INTER + 1] == ORIGIN_KNOWN);
}

/* A held-out point outside its interval refutes a forecast, calibrated or fitted. */
static void test_refuted(void **state)
{
    static struct prediction p;
    struct source s = source_by_hand(1);
    struct prediction_config c = config_of(&s, 8);
    c.known.inter = true;
    c.system.net.inter.latency_s = 1e-5;
    s.n = 3;
    s.point[1] = (struct measured){.ranks = 2, .batch = 1, .images_per_s = 199};
    s.point[2] = (struct measured){.ranks = 4, .batch = 1, .images_per_s = 130};
    expect_ok(prediction_make(&c, &p));
    assert_false(p.point[1].outside);
    assert_true(p.point[2].outside);
    assert_int_equal(prediction_check(&p), STATUS_DATA);
    assert_non_null(strstr(status_message(), "1 of 2 held-out points lie outside its interval; the "
                                             "largest error is +6"));
    c.fit = true;
    c.fit_up_to = 2;
    expect_ok(prediction_make(&c, &p));
    assert_int_equal(prediction_check(&p), STATUS_DATA);
    c.fit_up_to = 0;
    expect_ok(prediction_make(&c, &p));
    expect_ok(prediction_check(&p));                         /* no point is held out */
    assert_true(p.forecast[0].high / p.forecast[0].low > 2); /* it does not reproduce its points */
}

/* Modes of one process have no ranks on other nodes. */
static void test_one_process(void **state)
{
    static struct prediction p;
    struct source s = source_by_hand(2);
    struct prediction_config c = config_of(&s, 4);
    for (int i = 0; i < 2; i++) {
        strcpy(s.mode, i ? "dp" : "nd");
        c.ranks[0] = 4;
        assert_int_equal(prediction_make(&c, &p), STATUS_USAGE);
        c.ranks[0] = 2;
        expect_ok(prediction_make(&c, &p));
    }
    strcpy(s.mode, "");
    c.ranks[0] = 4;
    expect_ok(prediction_make(&c, &p));
}

/* Four cells on 1, 2, 4 and 8 devices. The third one has no result. Then the cells have other
 * systems: fewer classes, half gradients, and at last 4 ranks with two devices each. */
static void test_source_of_a_study(void **state)
{
    static struct analysis_cell cell[4];
    static struct source source;
    int64_t place[4] = {0, 1, 2, 3};
    struct analysis_series series = {.n = 4, .cell = place};
    struct analysis a = {
        .study = "quick", .n_cells = 4, .cell = cell, .n_series = 1, .series = &series};
    for (int i = 0; i < 4; i++) {
        cell[i] = analysis_cell_unknown();
        strcpy(cell[i].arch, "resnet50");
        strcpy(cell[i].mode, i > 0 ? "ddp" : "nd");
        cell[i].devices = cell[i].ranks = 1 << i;
        cell[i].batch = 32 << i;
        cell[i].images_per_s.median = i == 2 ? NAN : 100 << i;
    }
    cell[1].images_per_s.low = 100; /* 200 within a factor of 2, with a probability of 95 % */
    cell[1].images_per_s.high = 400;
    double split[ANALYSIS_PARTS] = {[ANALYSIS_DATA] = 0.01,
                                    [ANALYSIS_H2D] = 0.01,
                                    [ANALYSIS_FORWARD] = 0.02,
                                    [ANALYSIS_BACKWARD] = 0.05,
                                    [ANALYSIS_OPTIMIZER] = 0.01};
    memcpy(cell[0].split, split, sizeof split);
    expect_ok(source_of_analysis(&a, 0, &source));
    assert_true(source.n == 3 && source.ranks_per_node == 1);
    assert_true(source.point[2].ranks == 8 && source.point[2].batch == 32);
    assert_close(source.point[2].images_per_s, 800, 1e-12);
    assert_true(source.point[0].spread == 0);
    assert_close(source.point[1].spread, log(2) / 1.96, 1e-12);
    assert_string_equal(source.mode, "ddp");
    assert_close(source.work.forward, 0.4, 1e-12);
    assert_close(source.work.backward, 0.5, 1e-12);
    assert_true(source.work.n > 3); /* overlapped with the backward pass */
    double all = workload_bytes(&source.work);
    for (int i = 0; i < 4; i++)
        cell[i].system = (struct analysis_system){1, 1 << i, 64, 10, 2};
    cell[3].ranks = 4;
    cell[3].system.ranks_per_host = 2;
    expect_ok(source_of_analysis(&a, 0, &source));
    assert_int_equal(source.ranks_per_node, 4);
    assert_true(workload_bytes(&source.work) < all / 2);
    strcpy(cell[3].mode, "dp");
    expect_ok(source_of_analysis(&a, 0, &source));
    assert_int_equal(source.work.n, 1); /* gradients are reduced after the backward pass */
    for (int i = 0; i < 4; i++)
        cell[i].images_per_s.median = NAN;
    assert_int_equal(source_of_analysis(&a, 0, &source), STATUS_DATA);
}

/* Two ranks on a host. The forward pass takes a fifth of a rank's own time, which alternates
 * between 10 % more and 10 % less. */
static void test_source_of_a_run(void **state)
{
    static struct source source;
    struct step_record step[40];
    struct run run = {.dir = "a", .name = "a", .n_steps = 40, .step = step};
    const struct run *one = &run;
    for (int i = 0; i < 40; i++) {
        double own = exp(i % 2 ? 0.1 : -0.1);
        step[i] = (struct step_record){.images = 64,
                                       .forward_s = 0.2 * own,
                                       .backward_s = 0.7 * own,
                                       .optimizer_s = 0.1 * own,
                                       .comm_s = 0.6,
                                       .total_s = 1.6,
                                       .bytes_read = 6400};
    }
    run.info =
        json_pack("{s:{s:s, s:i, s:i, s:i, s:s, s:s}}", "config", "arch", "resnet18", "image_size",
                  64, "world_size", 2, "batch_size", 32, "grad_compress", "bf16", "mode", "ddp2");
    expect_ok(source_of_runs(&one, 1, &source));
    assert_true(source.n == 1 && source.point[0].ranks == 2 && source.point[0].batch == 32);
    assert_string_equal(source.mode, "ddp2");
    assert_close(source.point[0].images_per_s, 40, 1e-9);
    assert_close(source.work.forward, 0.2, 1e-9);
    assert_close(source.work.backward, 0.7, 1e-9);
    assert_close(workload_bytes(&source.work), 2 * 11689512.0, 1e-12);
    assert_close(source.image_bytes, 100, 1e-9);
    assert_close(source.sigma, 0.14826, 1e-9);
    /* One rank in mode nd, whichever run is named first, does not make it a mode of one process. */
    struct run single = run;
    const struct run *both[] = {&single, &run};
    single.info = json_deep_copy(run.info);
    json_object_set_new(json_object_get(single.info, "config"), "world_size", json_integer(1));
    json_object_set_new(json_object_get(single.info, "config"), "mode", json_string("nd"));
    for (int i = 0; i < 2; i++) {
        both[i] = &single;
        both[1 - i] = &run;
        expect_ok(source_of_runs(both, 2, &source));
        assert_string_equal(source.mode, "ddp2");
    }
    json_decref(single.info);
    run.n_steps = 20; /* 10 steps after warm-up are too few for an estimate */
    expect_ok(source_of_runs(&one, 1, &source));
    assert_true(source.sigma == 0);
    run.n_steps = 0;
    assert_int_equal(source_of_runs(&one, 1, &source), STATUS_DATA);
    json_decref(run.info);
}

/* The throughput is the predicted one times the share of published results; its spread, 0.15, is in
 * the interval: ln(high / low) = 2 * 1.96 * 0.15 or a little more. */
static void test_source_of_a_step(void **state)
{
    static struct source source;
    static struct prediction p;
    json_t *step = json_pack("{s:s, s:s, s:s, s:i, s:i, s:{s:f, s:f}}", "device", "a GPU", "net",
                             "resnet18", "precision", "amp", "batch", 64, "image_size", 64, "sums",
                             "predicted_images_per_s", 1000.0, "published_share", 0.8);
    expect_ok(source_of_step(step, &source));
    assert_true(source.predicted && source.n == 1 && source.point[0].batch == 64);
    assert_close(source.point[0].images_per_s, 800, 1e-12);
    assert_close(workload_bytes(&source.work), 4 * 11689512.0, 1e-12);
    struct prediction_config c = config_of(&source, 1);
    expect_ok(prediction_make(&c, &p));
    assert_close(log(p.forecast[0].high / p.forecast[0].low), 2 * 1.96 * 0.15, 0.15);
    assert_true(p.origin[FIT_IMAGE] == ORIGIN_ASSUMED);
    json_t *share = json_object_get(json_object_get(step, "sums"), "published_share");
    json_real_set(share, 1);
    expect_ok(source_of_step(step, &source));
    assert_close(source.point[0].images_per_s, 760, 1e-12);
    json_real_set(share, 0);
    assert_int_equal(source_of_step(step, &source), STATUS_DATA);
    json_decref(step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce),
        cmocka_unit_test(test_largest_of_many),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_buckets_of_a_network),
        cmocka_unit_test(test_fit_finds_the_machine),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_source_of_a_study),
        cmocka_unit_test(test_source_of_a_run),
        cmocka_unit_test(test_source_of_a_step),
        cmocka_unit_test(test_efficiency_never_rises),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_assumed),
        cmocka_unit_test(test_refuted),
        cmocka_unit_test(test_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
