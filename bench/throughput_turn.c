/* Takes a turn of bench throughput: one training run of ampscale, or one request to the peer. */
#include "bench/throughput.h"

#include "base/clock.h"
#include "base/host.h"

#include <math.h>

enum {
    MORE_STEPS = 8,
    PHOTO_CLASSES = 10,
    PHOTO_SIZE_MIN = 48,
    COMPILE_SECONDS_MIN = 60, /* a compilation is not begun with less time */
};

/* --- ampscale --- */

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

/* --- the peer's --- */

static enum status peer_turn(struct throughput *t, struct throughput_row *row, double *rate)
{
    const struct throughput_key *key = &t->config->key[row->slot.key];
    const char *mode = row->slot.who == THROUGHPUT_COMPILE ? "compile" : "eager";
    return peer_ask(&t->peer, mode, key->precision, key->batch, t->config->steps, rate, row->why);
}

/* --- any turn --- */

static bool is_peer(const struct throughput_row *row)
{
    return row->slot.who == THROUGHPUT_EAGER || row->slot.who == THROUGHPUT_COMPILE;
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
    *row->why = '\0';
    *rate = NAN;
    if (is_peer(row))
        return peer_turn(t, row, rate);
    return (row->slot.who == THROUGHPUT_FILES ? files_turn : train_turn)(t, row, round, rate);
}

enum status throughput_take(struct throughput *t, const struct throughput_turn *turn)
{
    struct throughput_row *row = &t->row[turn->slot];
    int repeats = is_peer(row) || t->work.budget.seconds > 0 ? 0 : HARNESS_REPEATS;
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
    row->cut = is_peer(row) ? t->peer.cut : row->ladder.cut;
    t->taken += turn->round < t->config->options.rounds; /* another turn is not one of the plan */
    if (isnan(rate))
        return STATUS_OK;
    if (row->n == 0 || host_noise_judge(&row->ladder.noise, why))
        row->noise = row->ladder.noise;
    row->rate[row->n++] = rate;
    row->seconds = fmin((double)(clock_ns() - begun) * 1e-9, TURN_SECONDS);
    return stats_of(row->rate, row->n, &row->stats);
}
