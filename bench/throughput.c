/* bench throughput: orders and takes the turns, and saves the record. */
#include "bench/throughput.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>

enum {
    LIMIT_SECONDS = 600,
    MORE_STEPS = 8,
    PHOTO_CLASSES = 10,
    PHOTO_SIZE_MIN = 48,
    COMPILE_SECONDS_MIN = 60, /* a compilation is not begun with less time */
};

/* --- the rows and the order of their turns --- */

static void add_slot(struct throughput_plan *p, int key, enum throughput_who who, int combination)
{
    p->slot[p->n_slots++] = (struct throughput_slot){key, who, combination};
}

static void add_slots(const struct throughput_config *c, int key, struct throughput_plan *p)
{
    add_slot(p, key, THROUGHPUT_OURS, 0);
    for (int i = 1; i < c->n_combinations; i++)
        add_slot(p, key, THROUGHPUT_OURS, i);
    if (c->files && key == 0)
        add_slot(p, key, THROUGHPUT_FILES, 0);
    if (c->peer)
        add_slot(p, key, THROUGHPUT_EAGER, 0);
    if (c->peer && !c->no_compile && key == 0)
        add_slot(p, key, THROUGHPUT_COMPILE, 0);
}

static void add_turn(struct throughput_plan *p, int slot, int round)
{
    p->turn[p->n_turns++] = (struct throughput_turn){slot, round};
}

/* Adds the turns of the key's compared rows, whose order reverses from round to round. */
static void add_round(int key, int round, struct throughput_plan *p)
{
    for (int i = 0; i < p->n_slots; i++) {
        int k = round % 2 == 0 ? i : p->n_slots - 1 - i;
        enum throughput_who who = p->slot[k].who;
        if (p->slot[k].key == key && (who == THROUGHPUT_OURS || who == THROUGHPUT_EAGER))
            add_turn(p, k, round);
    }
}

/* Adds `rounds` turns of the row that only the first key has. */
static void add_single(enum throughput_who who, int rounds, struct throughput_plan *p)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < p->n_slots; i++)
            if (p->slot[i].who == who)
                add_turn(p, i, round);
}

enum status throughput_plan_make(const struct throughput_config *c, struct throughput_plan *p)
{
    int64_t slots = (int64_t)c->n_keys * (c->n_combinations + THROUGHPUT_WHO_COUNT);
    int rounds = c->options.rounds;
    *p = (struct throughput_plan){0};
    TRY(array_new(&p->slot, slots));
    TRY(array_new(&p->turn, slots * rounds));
    for (int key = 0; key < c->n_keys; key++)
        add_slots(c, key, p);
    for (int round = 0; round < rounds; round++) {
        for (int key = 0; key < c->n_keys; key++)
            add_round(key, round, p);
        if (round == 0)
            add_single(THROUGHPUT_COMPILE, 1, p);
    }
    add_single(THROUGHPUT_FILES, rounds, p);
    return STATUS_OK;
}

void throughput_plan_free(struct throughput_plan *p)
{
    free(p->slot);
    free(p->turn);
    *p = (struct throughput_plan){0};
}

/* --- a turn: a training run of ampscale, or a request to the peer --- */

/* JPEG files for row "files". The side of a file's image is 375/224 times the side of the network's
 * input, as in ImageNet. There are enough files for all steps in one epoch, because the loader
 * restarts between epochs. */
static struct train_photos photos_of(const struct throughput_config *c)
{
    int batch = c->key[0].batch, images = batch * (c->steps + MORE_STEPS);
    int size = c->options.image_size * 375 / 224;
    return (struct train_photos){.classes = PHOTO_CLASSES,
                                 .train = (images + PHOTO_CLASSES - 1) / PHOTO_CLASSES,
                                 .val = (batch + PHOTO_CLASSES - 1) / PHOTO_CLASSES,
                                 .size = size > PHOTO_SIZE_MIN ? size : PHOTO_SIZE_MIN};
}

static enum status train_args(struct throughput *t, struct throughput_row *row, struct words *w)
{
    const struct throughput_config *c = t->config;
    const struct throughput_key *key = &c->key[row->slot.key];
    if (row->slot.who == THROUGHPUT_FILES) {
        TRY(words_add(w, "%s/photos", t->work.scratch.path));
    } else {
        TRY(words_add(w, "--dummy"));
        TRY(words_add(w, "--dummy-train=%lld", (long long)key->batch * (c->steps + MORE_STEPS)));
    }
    TRY(words_add(w, "--arch=%s", c->options.net));
    TRY(words_add(w, "--image-size=%d", c->options.image_size));
    TRY(words_add(w, "--batch-size=%d", key->batch));
    TRY(words_add(w, "%s=%s", *key->precision == 'O' ? "--opt-level" : "--precision",
                  key->precision));
    TRY(words_add(w, "--steps=%d", c->steps));
    TRY(words_add(w, "--epochs=1000"));
    TRY(words_add(w, "--training-only"));
    TRY(words_add(w, "--workers=%d", host_cores()));
    TRY(words_add(w, "--print-freq=1000"));
    if (c->options.threads > 0)
        TRY(words_add(w, "--threads=%d", c->options.threads));
    if (c->plans > 0)
        TRY(words_add(w, "--plans=%d", c->plans));
    if (c->n_combinations == 0)
        return STATUS_OK;
    const struct throughput_combination *named = &c->combination[row->slot.combination];
    TRY(words_add(w, "--fuse=%s", fuse_str(named->fuse)));
    return named->graphs ? STATUS_OK : words_add(w, "--no-graph");
}

/* Trains. The folder of the run has a name such as "<dir>/runs/amp-256-ampscale-r1". */
static enum status train_turn(struct throughput *t, struct throughput_row *row, int round,
                              double *rate)
{
    char name[128], turn[160];
    struct words args = {0};
    enum status st;
    throughput_row_name(t, row, name, sizeof name);
    snprintf(turn, sizeof turn, "%s r%d", name, round + 1);
    CHECK(train_args(t, row, &args));
    CHECK(train_work_measure(&t->work, &args, turn, "images_per_s", "median", &row->ladder, rate,
                             row->why));
done:
    words_free(&args);
    return st;
}

static enum status files_turn(struct throughput *t, struct throughput_row *row, int round,
                              double *rate)
{
    const struct train_photos photos = photos_of(t->config);
    TRY(train_work_photos(&t->work, &photos, row->why));
    return t->work.photos_made ? train_turn(t, row, round, rate) : STATUS_OK;
}

/* Whether the row's turn could give a result in the time left. If not, it would take time from
 * other rows, or the peer would be killed. */
static bool can_end(const struct throughput *t, struct throughput_row *row)
{
    double left = time_budget_left(&t->work.budget);
    if (row->slot.who != THROUGHPUT_COMPILE || left >= COMPILE_SECONDS_MIN)
        return left >= fmax(1, row->seconds);
    snprintf(row->why, sizeof row->why, "less than %d s were left", COMPILE_SECONDS_MIN);
    return false;
}

static enum status turn_once(struct throughput *t, struct throughput_row *row, int round,
                             double *rate)
{
    const struct throughput_key *key = &t->config->key[row->slot.key];
    const char *mode = row->slot.who == THROUGHPUT_COMPILE ? "compile" : "eager";
    *row->why = '\0';
    *rate = NAN;
    if (!throughput_is_ours(row))
        return peer_ask(&t->peer, mode, key->precision, key->batch, t->config->steps, rate,
                        row->why);
    return (row->slot.who == THROUGHPUT_FILES ? files_turn : train_turn)(t, row, round, rate);
}

/* A turn without a result is not a failure here. */
static enum status throughput_take(struct throughput *t, const struct throughput_turn *turn)
{
    struct throughput_row *row = &t->row[turn->slot];
    int repeats = !throughput_is_ours(row) || t->work.budget.seconds > 0 ? 0 : HARNESS_REPEATS;
    char why[NOISE_TEXT_MAX];
    uint64_t begun;
    double rate = NAN, once;
    if (!can_end(t, row))
        return STATUS_OK;
    do {
        begun = clock_ns();
        TRY(turn_once(t, row, turn->round, &once));
        rate = isnan(once) ? rate : once;
    } while (repeats-- > 0 && !isnan(once) && host_noise_judge(&row->ladder.noise, why));
    row->cut = throughput_is_ours(row) ? row->ladder.cut : t->peer.cut;
    t->taken += turn->round < t->config->options.rounds; /* another turn is not one of the plan */
    if (isnan(rate))
        return STATUS_OK;
    if (row->n == 0 || host_noise_judge(&row->ladder.noise, why))
        row->noise = row->ladder.noise;
    row->rate[row->n++] = rate;
    row->seconds = fmin((double)(clock_ns() - begun) * 1e-9, TURN_SECONDS);
    return stats_of(row->rate, row->n, &row->stats);
}

/* --- all turns --- */

/* Makes the rows. If the user requested combinations of settings, ladder.fixed is set: a failed run
 * is then not repeated on a lower rung of its ladder. */
static enum status open_rows(struct throughput *t)
{
    const struct throughput_config *c = t->config;
    TRY(throughput_plan_make(c, &t->plan));
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
    TRY(process_signals_check(&t->work.signals));
    t->work.budget.after = after;
    TRY(throughput_take(t, turn));
    return train_work_keep(&t->work, "throughput.json", throughput_json(t));
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

/* Returns the number of turns behind turn `i` for which it leaves time: those of rows without a
 * result, and for a row that has none itself only those of the same round. The compilation counts
 * as three, because it is not begun with less time. It leaves none: at its time limit the peer is
 * killed, and then no time may be left in which the peer would have had turns. */
static int throughput_after(const struct throughput *t, int i)
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
    if (t->config->options.format == BENCH_TEXT) {
        throughput_print(t);
        return STATUS_OK;
    }
    json_print(throughput_json(t), t->config->options.out, JSON_RECORD);
    return STATUS_OK;
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
