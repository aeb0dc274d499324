/* Runs of several ranks. */
#include "rank_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int rank_run_begin(void **state)
{
    struct rank_run *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    f->config = json_object();
    *state = f;
    return 0;
}

int rank_run_end(void **state)
{
    struct rank_run *f = *state;
    scratch_remove(f->dir);
    json_decref(f->config);
    free(f);
    return 0;
}

/* Returns a list of n ranks, two on each of the hosts <name>0, <name>1, ... Returns NULL if n is 1.
 */
static json_t *rank_list(int n, const char *name)
{
    if (n == 1)
        return NULL;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char host[32];
        snprintf(host, sizeof host, "%s%d", name, i / 2);
        json_array_append_new(
            list, json_pack("{s:i, s:s, s:i}", "rank", i, "host", host, "pid", 1000 + i));
    }
    return list;
}

struct record *rank_run_open(const struct rank_run *f, int n, const char *name, int64_t from)
{
    static char *const argv[] = {"ampscale"};
    struct record *r;
    json_t *list = rank_list(n, name);
    struct run_info info = {
        .argc = 1, .argv = argv, .device = "a processor", .config = f->config, .ranks = list};
    enum status st = from > 0 ? record_resume(f->dir, &info, 10 * from, from, &r)
                              : record_create(f->dir, &info, &r);
    if (st != STATUS_OK)
        fail_msg("%s", status_message());
    json_decref(list);
    return r;
}

struct rank_record rank_run_row(int64_t epoch, int64_t rank)
{
    return (struct rank_record){
        .epoch = epoch,
        .rank = rank,
        .steps = 10,
        .images = 320,
        .data_s = 0.125,
        .h2d_s = 0.25,
        .forward_s = 1,
        .backward_s = 2,
        .comm_s = 0.5,
        .comm_busy_s = 0.75,
        .optimizer_s = 0.375,
        .total_s = 4.5,
    };
}

void rank_run_add_epoch(struct record *r, int64_t epoch, int n)
{
    struct epoch_record e = {.epoch = epoch};
    for (int i = 0; i < n; i++) {
        struct rank_record rank = rank_run_row(epoch, i);
        assert_int_equal(record_rank(r, &rank), STATUS_OK);
    }
    assert_int_equal(record_epoch(r, &e), STATUS_OK);
}

struct run *rank_run_load(const struct rank_run *f)
{
    struct run *run;
    if (run_load(f->dir, &run) != STATUS_OK)
        fail_msg("%s", status_message());
    return run;
}
