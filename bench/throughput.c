/* bench throughput: runs the turns, saves the record, and prints the results. */
#include "bench/throughput.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>

enum { LIMIT_SECONDS = 600 };

/* Makes the rows. If the user requested combinations of settings, ladder.fixed is set: a failed run
 * is then not repeated on a lower rung of its ladder. */
static enum status open_rows(struct throughput *t)
{
    const struct throughput_config *c = t->config;
    const struct throughput_shape shape = {.keys = c->n_keys,
                                           .combinations =
                                               c->n_combinations ? c->n_combinations : 1,
                                           .rounds = c->options.rounds,
                                           .peer = c->peer,
                                           .compile = !c->no_compile,
                                           .files = c->files};
    TRY(throughput_plan_make(&shape, &t->plan));
    TRY(array_new(&t->row, t->plan.n_slots));
    for (int i = 0; i < t->plan.n_slots; i++) {
        t->row[i].slot = t->plan.slot[i];
        t->row[i].ladder.fixed = c->n_combinations > 0;
    }
    return STATUS_OK;
}

/* Takes a turn, and writes the record, so that a killed process leaves the results of the finished
 * turns. */
static enum status take_turn(struct throughput *t, const struct throughput_turn *turn, int after)
{
    json_t *record;
    TRY(train_child_interrupted(process_signals_received(&t->work.signals)));
    t->work.budget.after = after;
    TRY(throughput_take(t, turn));
    TRY(throughput_json(t, &record));
    return train_work_keep(&t->work, "throughput.json", record);
}

/* Whether an earlier call took the turn. */
static bool is_taken(const struct throughput *t, const struct throughput_turn *turn)
{
    return t->row[turn->slot].n > turn->round;
}

static bool is_left(const struct throughput *t)
{
    bool left = false;
    for (int i = 0; i < t->plan.n_turns; i++)
        left = left || !is_taken(t, &t->plan.turn[i]);
    return left;
}

int throughput_after(const struct throughput *t, int i)
{
    const struct throughput_turn *turn = t->plan.turn;
    const struct throughput_row *row = &t->row[turn[i].slot];
    int n = 0;
    for (int k = i + 1; k < t->plan.n_turns && row->slot.who != THROUGHPUT_COMPILE; k++)
        if (t->row[turn[k].slot].n == 0 && (row->n > 0 || turn[k].round == turn[i].round))
            n += t->row[turn[k].slot].slot.who == THROUGHPUT_COMPILE ? 3 : 1;
    return n;
}

static enum status take_turns(struct throughput *t)
{
    struct bar *bar = t->config->options.timing.bar;
    const struct throughput_plan *p = &t->plan;
    bar_begin(bar, p->n_turns);
    for (int i = 0; i < p->n_turns; i++) {
        if (!is_taken(t, &p->turn[i]))
            TRY(take_turn(t, &p->turn[i], throughput_after(t, i)));
        bar_step(bar);
    }
    for (int i = 0; i < p->n_slots; i++)
        if (t->row[i].cut && t->row[i].n == 0)
            TRY(take_turn(t, &(struct throughput_turn){i, t->config->options.rounds}, 0));
    return STATUS_OK;
}

static enum status throughput_print_all(const struct throughput *t)
{
    json_t *record;
    if (t->config->options.format == BENCH_TEXT) {
        throughput_print(t);
        return STATUS_OK;
    }
    TRY(throughput_json(t, &record));
    return json_print(record, t->config->options.out, JSON_RECORD);
}

/* Fails with STATUS_DATA if rows have no result; the message names these rows. */
static enum status throughput_check_rows(const struct throughput *t)
{
    char names[640] = "", name[128];
    int missing = 0;
    for (int i = 0; i < t->plan.n_slots; i++) {
        if (t->row[i].n > 0)
            continue;
        throughput_row_name(t, &t->row[i], name, sizeof name);
        missing++;
        text_join(names, sizeof names, "; ", "%s", name);
    }
    return missing == 0 ? STATUS_OK
                        : status_fail(STATUS_DATA, "%d of %d rows have no result: %s", missing,
                                      t->plan.n_slots, names);
}

/* Prints the available results, even if the turns ended early. */
static enum status measure_throughput(struct throughput *t)
{
    struct first_failure first = {0};
    if (is_left(t))
        TRY(peer_start(&t->peer)); /* the peer loads its libraries while ampscale trains */
    first_failure_keep(&first, take_turns(t));
    peer_stop(&t->peer);
    bar_erase(t->config->options.timing.bar);
    first_failure_keep(&first, throughput_print_all(t));
    first_failure_keep(&first, throughput_check_rows(t));
    return first_failure_return(&first);
}

enum status bench_throughput(const struct throughput_config *c)
{
    const struct bench_options *o = &c->options;
    struct throughput *t;
    enum status st;
    TRY(array_new(&t, 1));
    t->config = c;
    t->work.limit_s = LIMIT_SECONDS;
    CHECK(train_work_open(&t->work, o));
    CHECK(open_rows(t));
    t->peer = (struct peer){.script = c->peer,
                            .device = o->devices,
                            .net = o->net,
                            .image_size = o->image_size,
                            .threads = o->threads,
                            .dir = t->work.dir,
                            .signals = &t->work.signals,
                            .budget = &t->work.budget,
                            .lost = !c->peer};
    if (c->resume)
        CHECK(throughput_resume(t));
    CHECK(measure_throughput(t));
done:
    st = train_work_close(&t->work, st);
    for (int i = 0; t->row && i < t->plan.n_slots; i++)
        train_ladder_close(&t->row[i].ladder);
    throughput_plan_free(&t->plan);
    free(t->row);
    free(t);
    return st;
}
