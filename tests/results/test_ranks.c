/* Tests the records of ranks. They are written and read back, a run is resumed with another number
 * of ranks, and invalid records are refused. */
#include "base/file.h"
#include "base/rng.h"
#include "rank_run.h"
#include "results/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_file(const struct rank_run *f, const char *file)
{
    char path[SCRATCH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", f->dir, file);
    return path_exists(path);
}

static void test_round_trip(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 4, "node", 0);
    rank_run_add_epoch(r, 0, 4);
    rank_run_add_epoch(r, 1, 4);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    assert_int_equal(run->n_ranks, 8);
    for (int i = 0; i < 8; i++) {
        struct rank_record want = rank_run_row(i / 4, i % 4);
        assert_memory_equal(&run->rank[i], &want, sizeof want);
    }
    assert_int_equal(run_attempt_ranks(run, 0), 4);
    assert_int_equal(run_attempt_ranks(run, 1), 0);
    assert_int_equal(run_attempt_ranks(run, -1), 0);
    assert_string_equal(run_rank_host(run, 0, 3), "node1");
    assert_null(run_rank_host(run, 0, 4));
    int64_t hosts, per_host;
    assert_int_equal(run_hosts(run, 0, &hosts, &per_host), STATUS_OK);
    assert_true(hosts == 2 && per_host == 2);
    assert_int_equal(run_hosts(run, 1, &hosts, &per_host), STATUS_OK);
    assert_true(hosts == 1 && per_host == 1);
    const json_t *last = json_array_get(json_object_get(run->info, "ranks"), 3);
    assert_int_equal(json_integer_value(json_object_get(last, "pid")), 1003);
    run_free(run);
}

static void test_one_rank_leaves_no_file(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 1, NULL, 0);
    struct rank_record rank = rank_run_row(0, 0);
    assert_int_equal(record_rank(r, &rank), STATUS_INVALID);
    rank_run_add_epoch(r, 0, 0);
    assert_int_equal(record_close(r), STATUS_OK);
    assert_false(has_file(f, "ranks.jsonl"));
    struct run *run = rank_run_load(f);
    assert_int_equal(run->n_ranks, 0);
    assert_int_equal(run_attempt_ranks(run, 0), 0);
    assert_null(json_object_get(run->info, "ranks"));
    run_free(run);
}

static void test_wrong_calls(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 2, "node", 0);
    struct rank_record rank = rank_run_row(0, 2);
    assert_int_equal(record_rank(r, &rank), STATUS_INVALID);
    rank.rank = -1;
    assert_int_equal(record_rank(r, &rank), STATUS_INVALID);
    assert_int_equal(record_close(r), STATUS_OK);
    char dir[SCRATCH_MAX + 8];
    snprintf(dir, sizeof dir, "%s/other", f->dir);
    json_t *list = json_pack("[{s:i, s:s}]", "rank", 0, "host", "node0");
    struct run_info info = {.config = f->config, .device = "", .ranks = list};
    assert_int_equal(record_create(dir, &info, &r), STATUS_INVALID);
    json_decref(list);
}

/* Four ranks are killed while they record epoch 2. The run is then resumed at the beginning of
 * epoch 2: first with two ranks, then with one rank, and finally with three ranks. */
static void test_resume_with_other_ranks(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 4, "node", 0);
    for (int i = 0; i < 3; i++)
        rank_run_add_epoch(r, i, 4);
    assert_int_equal(record_close(r), STATUS_OK);
    scratch_append(f->dir, "ranks.jsonl", "{\"epoch\":3,\"ra", 14);
    struct run *run = rank_run_load(f);
    assert_int_equal(run->n_ranks, 12);
    run_free(run);

    r = rank_run_open(f, 2, "late", 2);
    run = rank_run_load(f);
    assert_int_equal(run->n_ranks, 8);
    run_free(run);
    rank_run_add_epoch(r, 2, 2);
    rank_run_add_epoch(r, 3, 2);
    assert_int_equal(record_close(r), STATUS_OK);
    r = rank_run_open(f, 1, NULL, 3);
    rank_run_add_epoch(r, 3, 0);
    assert_int_equal(record_close(r), STATUS_OK);
    r = rank_run_open(f, 3, "third", 4);
    rank_run_add_epoch(r, 4, 3);
    assert_int_equal(record_close(r), STATUS_OK);

    static const struct {
        int epoch, rank, attempt;
    } want[] = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 3, 0}, {1, 0, 0}, {1, 1, 0}, {1, 2, 0},
                {1, 3, 0}, {2, 0, 1}, {2, 1, 1}, {4, 0, 3}, {4, 1, 3}, {4, 2, 3}};
    run = rank_run_load(f);
    assert_int_equal(run->n_ranks, sizeof want / sizeof *want);
    for (int i = 0; i < run->n_ranks; i++) {
        assert_int_equal(run->rank[i].epoch, want[i].epoch);
        assert_int_equal(run->rank[i].rank, want[i].rank);
        assert_int_equal(run->rank[i].attempt, want[i].attempt);
    }
    assert_int_equal(run_attempt_ranks(run, 1), 2);
    assert_string_equal(run_rank_host(run, 1, 1), "late0");
    assert_int_equal(run_attempt_ranks(run, 2), 0);
    assert_string_equal(run_rank_host(run, 3, 2), "third1");
    run_free(run);
}

/* A run of one rank has no records of ranks. If it is resumed with two ranks, ranks.jsonl begins
 * with the second attempt. */
static void test_resume_grows_from_one(void **state)
{
    struct rank_run *f = *state;
    struct record *r = rank_run_open(f, 1, NULL, 0);
    rank_run_add_epoch(r, 0, 0);
    assert_int_equal(record_close(r), STATUS_OK);
    r = rank_run_open(f, 2, "node", 1);
    rank_run_add_epoch(r, 1, 2);
    assert_int_equal(record_close(r), STATUS_OK);
    struct run *run = rank_run_load(f);
    assert_int_equal(run->n_ranks, 2);
    assert_int_equal(run->rank[0].attempt, 1);
    run_free(run);
}

static const char run_text[] =
    "{\"schema\":1,\"config\":{},\"ranks\":[{\"rank\":0,\"host\":\"a\",\"pid\":1},"
    "{\"rank\":1,\"host\":\"b\",\"pid\":2}]}";
static const char rank_text[] =
    "{\"epoch\":0,\"rank\":0,\"steps\":10,\"images\":320,\"data_s\":0.1,\"h2d_s\":0,"
    "\"forward_s\":1,\"backward_s\":2,\"comm_s\":0.5,\"comm_busy_s\":1,\"optimizer_s\":0.1,"
    "\"total_s\":4,\"later\":[]}\n"
    "{\"epoch\":0,\"rank\":1,\"steps\":10,\"images\":320,\"data_s\":0.1,\"h2d_s\":0,"
    "\"forward_s\":1,\"backward_s\":2,\"comm_s\":0.5,\"comm_busy_s\":1,\"optimizer_s\":0.2,"
    "\"total_s\":4}\n";

static void write_texts(const char *dir)
{
    scratch_write(dir, "run.json", run_text, strlen(run_text));
    scratch_write(dir, "ranks.jsonl", rank_text, strlen(rank_text));
}

/* Writes `text` to `file`, and replaces the first occurrence of `old` by `new`. */
static void write_changed(const char *dir, const char *file, const char *text, const char *old,
                          const char *new)
{
    char changed[2048];
    const char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    scratch_write(dir, file, changed, strlen(changed));
}

static void expect_data_error(const char *dir, const char *part_of_message)
{
    struct run *run;
    assert_int_equal(run_load(dir, &run), STATUS_DATA);
    if (!strstr(status_message(), part_of_message))
        fail_msg("'%s' does not say '%s'", status_message(), part_of_message);
    assert_null(strchr(status_message(), '\n'));
}

static void test_bad_ranks(void **state)
{
    struct rank_run *f = *state;
    static const struct {
        const char *old, *new, *say;
    } cases[] = {
        {"\"rank\":0", "\"rank\":2", "line 1: 'rank' is out of range: the attempt has 2 ranks"},
        {"\"rank\":1", "\"rank\":9007199254740992", "line 2: 'rank' is out of range"},
        {"\"rank\":0", "\"rank\":-1", "line 1: 'rank' is out of range"},
        {"\"rank\":0", "\"rank\":null", "line 1: 'rank' is not a whole number"},
        {"\"rank\":0", "\"rank\":0,\"rank\":0", "line 1: not valid JSON"},
        {"\"rank\":0", "\"rank\":0,\"attempt\":1", "the attempt has 0 ranks"},
        {"\"rank\":0", "\"rank\":0,\"attempt\":9007199254740992", "the attempt has 0 ranks"},
        {"\"rank\":0,", "", "line 1: 'rank' is missing"},
        {"\"data_s\":0.1", "\"data_s\":-0.1", "line 1: 'data_s' is out of range"},
        {"\"comm_busy_s\":1", "\"comm_busy_s\":\"1\"", "line 1: 'comm_busy_s' is not a number"},
    };
    write_texts(f->dir);
    run_free(rank_run_load(f));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_changed(f->dir, "ranks.jsonl", rank_text, cases[i].old, cases[i].new);
        expect_data_error(f->dir, cases[i].say);
    }
}

static void test_bad_rank_lists(void **state)
{
    struct rank_run *f = *state;
    static const struct {
        const char *old, *new;
    } cases[] = {
        {"\"rank\":1", "\"rank\":0"},
        {"\"rank\":1", "\"rank\":2"},
        {"\"rank\":0", "\"rank\":\"0\""},
        {"\"host\":\"a\"", "\"host\":7"},
        {"\"host\":\"a\",", ""},
        {"\"pid\":2", "\"pid\":\"2\""},
        {"[{\"rank\":0", "[null,{\"rank\":0"},
        {"\"ranks\":", "\"ranks\":null,\"was\":"},
        {"\"ranks\":", "\"ranks\":[],\"was\":"},
    };
    write_texts(f->dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_changed(f->dir, "run.json", run_text, cases[i].old, cases[i].new);
        expect_data_error(f->dir, "run.json': 'ranks' is not a list of ranks");
    }
    write_texts(f->dir);
    const char *event = "{\"event\":\"resume\",\"step\":0,\"epoch\":0,\"ranks\":{}}\n";
    scratch_write(f->dir, "steps.jsonl", event, strlen(event));
    expect_data_error(f->dir, "steps.jsonl' line 1: 'ranks' is not a list of ranks");
}

/* A second record of the same rank and epoch replaces the first record. All records between these
 * two records are dropped. */
static void test_last_one_wins(void **state)
{
    struct rank_run *f = *state;
    static const struct {
        int epoch, rank;
    } order[] = {{0, 0}, {0, 1}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {1, 1}};
    write_texts(f->dir);
    scratch_write(f->dir, "ranks.jsonl", "", 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char line[SCHEMA_LINE_MAX];
        struct rank_record r = rank_run_row(order[i].epoch, order[i].rank);
        r.images = (int64_t)i;
        scratch_append(f->dir, "ranks.jsonl", line, schema_format(&rank_schema, &r, line));
    }
    static const int64_t want[] = {0, 2, 3, 7};
    struct run *run = rank_run_load(f);
    assert_int_equal(run->n_ranks, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(run->rank[i].images, want[i]);
    run_free(run);
}

/* run_load must read or refuse files with random damage. If it reads them, ranks_of must summarize
 * or refuse the result. Sanitizers detect invalid memory accesses. */
static void test_damage(void **state)
{
    struct rank_run *f = *state;
    const char *const files[] = {"run.json", "ranks.jsonl"};
    const char *const texts[] = {run_text, rank_text};
    int found = 0;
    write_texts(f->dir);
    for (int i = 0; i < 2000; i++) {
        struct rng rng = rng_at(2, RNG_TEST, (uint64_t)i, 0);
        char bytes[1024];
        const char *text = texts[i % 2];
        size_t size = strlen(text);
        memcpy(bytes, text, size);
        for (int k = 0; k <= i % 3; k++)
            bytes[rng_below(&rng, (uint32_t)size)] = (char)rng_below(&rng, 256);
        if (i % 5 == 0)
            size = rng_below(&rng, (uint32_t)size);
        scratch_write(f->dir, files[i % 2], bytes, size);
        struct run *run;
        enum status st = run_load(f->dir, &run);
        assert_true(st == STATUS_OK || st == STATUS_DATA);
        if (st == STATUS_OK) {
            struct ranks ranks;
            st = ranks_of(run, &ranks);
            assert_true(st == STATUS_OK || st == STATUS_DATA);
            if (st == STATUS_OK)
                ranks_free(&ranks);
            run_free(run);
        } else {
            found++;
        }
        scratch_write(f->dir, files[i % 2], text, strlen(text));
    }
    assert_true(found > 500);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, rank_run_begin, rank_run_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_round_trip),
        WITH_FOLDER(test_one_rank_leaves_no_file),
        WITH_FOLDER(test_wrong_calls),
        WITH_FOLDER(test_resume_with_other_ranks),
        WITH_FOLDER(test_resume_grows_from_one),
        WITH_FOLDER(test_bad_ranks),
        WITH_FOLDER(test_bad_rank_lists),
        WITH_FOLDER(test_last_one_wins),
        WITH_FOLDER(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
