/* A turn of bench throughput: one run of ours, or one request to the peer. */
#include "bench/throughput.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"

#include <math.h>
#include <string.h>

enum { MORE_STEPS = 8, PHOTO_CLASSES = 10, PHOTO_SIZE_MIN = 48 };

/* --- ours --- */

/* Images of the size that ImageNet's have beside networks of 224 pixels, enough for an epoch of all
 * steps: between epochs the loader begins again. */
static enum status make_photos(struct throughput *t, const char *dir, char why[TRAIN_WHY_SIZE])
{
    const struct throughput_config *c = t->config;
    int images = c->key[0].batch * (c->steps + MORE_STEPS);
    int size = c->image_size * 375 / 224;
    const struct train_photos photos = {.classes = PHOTO_CLASSES,
                                        .train = (images + PHOTO_CLASSES - 1) / PHOTO_CLASSES,
                                        .val =
                                            (c->key[0].batch + PHOTO_CLASSES - 1) / PHOTO_CLASSES,
                                        .size = size > PHOTO_SIZE_MIN ? size : PHOTO_SIZE_MIN};
    return train_child_photos(&t->work, &photos, dir, &t->photos_made, why);
}

static enum status add_data(struct throughput *t, struct throughput_row *row, struct words *w)
{
    int batch = t->config->key[row->slot.key].batch;
    if (row->slot.who == THROUGHPUT_FILES)
        return words_add(w, "%s/photos", t->work.scratch);
    TRY(words_add(w, "--dummy"));
    TRY(words_add(w, "--dummy-train=%lld", (long long)batch * (t->config->steps + MORE_STEPS)));
    return words_add(w, "--dummy-val=%d", batch);
}

static enum status train_args(struct throughput *t, struct throughput_row *row, struct words *w)
{
    const struct throughput_config *c = t->config;
    const struct throughput_key *key = &c->key[row->slot.key];
    TRY(add_data(t, row, w));
    TRY(words_add(w, "--arch=%s", c->net));
    TRY(words_add(w, "--image-size=%d", c->image_size));
    TRY(words_add(w, "--batch-size=%d", key->batch));
    TRY(words_add(w, "%s=%s", *key->precision == 'O' ? "--opt-level" : "--precision",
                  key->precision));
    TRY(words_add(w, "--steps=%d", c->steps));
    TRY(words_add(w, "--epochs=1000"));
    TRY(words_add(w, "--workers=%d", host_cores()));
    TRY(words_add(w, "--print-freq=1000"));
    if (c->threads > 0)
        TRY(words_add(w, "--threads=%d", c->threads));
    if (c->n_combinations == 0)
        return STATUS_OK;
    const struct throughput_combination *named = &c->combination[row->slot.combination];
    TRY(words_add(w, "--fuse=%s", fuse_str(named->fuse)));
    return named->graphs ? STATUS_OK : words_add(w, "--no-graph");
}

/* The folder of a turn's run: "<dir>/runs/amp-256-ampscale-r1". */
static enum status run_path(const struct throughput *t, const struct throughput_row *row, int round,
                            char out[TRAIN_PATH_SIZE])
{
    char name[128], turn[160];
    throughput_row_name(t, row, name, sizeof name);
    snprintf(turn, sizeof turn, "%s r%d", name, round + 1);
    return train_work_path(&t->work, turn, out);
}

static double median_rate(const struct run *run)
{
    const json_t *images = json_object_get(run->summary, "images_per_s");
    const json_t *median = json_object_get(images, "median");
    return json_is_number(median) ? json_number_value(median) : NAN;
}

static enum status train_turn(struct throughput *t, struct throughput_row *row, int round,
                              double *rate)
{
    char dir[TRAIN_PATH_SIZE];
    struct words args = {0};
    struct run *run = NULL;
    enum status st;
    CHECK(run_path(t, row, round, dir));
    CHECK(train_args(t, row, &args));
    CHECK(train_child_run(&t->work, &args, dir, &row->ladder, &run));
    if (run)
        *rate = median_rate(run);
    snprintf(row->why, sizeof row->why, "%s",
             run && isnan(*rate) ? "the run's summary has no images/s" : row->ladder.why);
done:
    words_free(&args);
    run_free(run);
    return st;
}

static enum status files_turn(struct throughput *t, struct throughput_row *row, int round,
                              double *rate)
{
    char dir[TRAIN_PATH_SIZE];
    TRY(path_format(dir, sizeof dir, "%s/photos", t->work.scratch));
    if (!t->photos_made)
        TRY(make_photos(t, dir, row->why));
    return t->photos_made ? train_turn(t, row, round, rate) : STATUS_OK;
}

/* --- the peer's --- */

static enum status peer_turn(struct throughput *t, struct throughput_row *row, double *rate)
{
    const struct throughput_key *key = &t->config->key[row->slot.key];
    const char *mode = row->slot.who == THROUGHPUT_COMPILE ? "compile" : "eager";
    return peer_ask(&t->peer, mode, key->precision, key->batch, t->config->steps, rate, row->why);
}

/* --- all --- */

enum status throughput_take(struct throughput *t, const struct throughput_turn *turn)
{
    struct throughput_row *row = &t->row[turn->slot];
    double rate = NAN;
    /* What cannot end in time would leave nothing, and keep others from their turn. */
    if (time_budget_left(&t->work.budget) <= row->seconds)
        return STATUS_OK;
    uint64_t begun = clock_ns();
    *row->why = '\0';
    if (row->slot.who == THROUGHPUT_OURS)
        TRY(train_turn(t, row, turn->round, &rate));
    else if (row->slot.who == THROUGHPUT_FILES)
        TRY(files_turn(t, row, turn->round, &rate));
    else
        TRY(peer_turn(t, row, &rate));
    t->taken++;
    if (isnan(rate))
        return STATUS_OK;
    row->rate[row->n++] = rate;
    row->seconds = (double)(clock_ns() - begun) * 1e-9;
    return STATUS_OK;
}
