/* bench throughput: turn after turn, and what is kept meanwhile. */
#include "bench/throughput.h"

#include "base/file.h"
#include "bench/micro.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT_SECONDS = 600 };

/* A combination that was named is run as it is, or not at all. */
static enum status open_rows(struct throughput *t)
{
    const struct throughput_config *c = t->config;
    const struct throughput_shape shape = {.keys = c->n_keys,
                                           .combinations =
                                               c->n_combinations ? c->n_combinations : 1,
                                           .rounds = c->rounds,
                                           .peer = c->peer,
                                           .files = c->files};
    TRY(throughput_plan_make(&shape, &t->plan));
    t->row = calloc((size_t)t->plan.n_slots, sizeof *t->row);
    if (!t->row)
        return status_fail(STATUS_OOM, "no memory for %d rows", t->plan.n_slots);
    for (int i = 0; i < t->plan.n_slots; i++) {
        t->row[i].slot = t->plan.slot[i];
        t->row[i].ladder.fixed = c->n_combinations > 0;
    }
    return STATUS_OK;
}

/* What there is so far, for whoever is killed. */
static enum status keep_record(const struct throughput *t)
{
    json_t *record;
    TRY(throughput_json(t, &record));
    return train_work_keep(&t->work, "throughput.json", record);
}

static enum status take_turns(struct throughput *t)
{
    for (int i = 0; i < t->plan.n_turns; i++) {
        TRY(train_child_interrupted(process_signals_received(&t->work.signals)));
        TRY(throughput_take(t, &t->plan.turn[i]));
        TRY(keep_record(t));
    }
    return STATUS_OK;
}

static enum status print_all(const struct throughput *t)
{
    json_t *record;
    if (!t->config->json) {
        throughput_print(t);
        return STATUS_OK;
    }
    TRY(throughput_json(t, &record));
    micro_print(record, t->config->stream);
    return STATUS_OK;
}

/* Names the rows that have no number. */
static enum status check_rows(const struct throughput *t)
{
    char names[640] = "", name[128];
    int missing = 0;
    for (int i = 0; i < t->plan.n_slots; i++) {
        size_t used = strlen(names);
        if (t->row[i].n > 0)
            continue;
        throughput_row_name(t, &t->row[i], name, sizeof name);
        missing++;
        if (used + strlen(name) + 8 < sizeof names)
            snprintf(names + used, sizeof names - used, "%s%s", used ? "; " : "", name);
        else if (used && names[used - 1] != '.')
            strcpy(names + used, " ...");
    }
    return missing == 0 ? STATUS_OK
                        : status_fail(STATUS_DATA, "%d of %d rows have no number: %s", missing,
                                      t->plan.n_slots, names);
}

/* Whatever ended the turns, what was measured is printed. */
static enum status measure(struct throughput *t)
{
    struct first_failure first = {0};
    TRY(peer_start(&t->peer)); /* it loads its libraries while ours train */
    first_failure_keep(&first, take_turns(t));
    peer_stop(&t->peer);
    first_failure_keep(&first, print_all(t));
    first_failure_keep(&first, check_rows(t));
    return first_failure_tell(&first);
}

enum status bench_throughput(const struct throughput_config *c)
{
    struct throughput *t = calloc(1, sizeof *t);
    char log[TRAIN_PATH_SIZE];
    enum status st;
    if (!t)
        return status_fail(STATUS_OOM, "no memory for rows of throughput");
    t->config = c;
    t->work = (struct train_work){.program = c->program,
                                  .devices = c->devices,
                                  .limit_s = LIMIT_SECONDS,
                                  .budget = time_budget_begin(c->budget_s)};
    CHECK(train_work_open(&t->work, c->out));
    CHECK(open_rows(t));
    CHECK(path_format(log, sizeof log, "%s/peer.log", t->work.dir));
    t->peer = (struct peer){.script = c->peer,
                            .device = c->devices,
                            .net = c->net,
                            .image_size = c->image_size,
                            .threads = c->threads,
                            .log = log,
                            .signals = &t->work.signals,
                            .budget = &t->work.budget,
                            .lost = !c->peer};
    CHECK(measure(t));
done:
    st = train_work_close(&t->work, st);
    throughput_plan_free(&t->plan);
    free(t->row);
    free(t);
    return st;
}
