/* Runs steps on batches of zeros before the steps of the run. */
#include "engine/engine_parts.h"

#include "base/clock.h"
#include "base/stats.h"

#include <string.h>

/* The first execution of a phase runs without a graph; the second is recorded as a graph, which is
 * then launched. */
enum { REHEARSALS = 2 };

enum { ROUNDS = 5 };               /* timed steps with an option, and as many without it */
static const double MARGIN = 0.01; /* fraction of a step's time that an option must save */

static enum status rehearse_step(struct engine *e, enum program_use use, const struct batch *b)
{
    static const struct step_state state = {.loss_scale = 1};
    struct step_result unread;
    int of = e->config.accumulate > 1 && use == USE_TRAIN ? 2 : 1;
    for (int i = 0; i < of; i++) {
        struct micro_batch micro = {.use = use, .batch = b, .state = &state, .number = i, .of = of};
        TRY(engine_batch(e, &micro));
    }
    TRY(engine_update(e));
    return engine_result(e, &unread);
}

static enum status rehearse_use(struct engine *e, enum program_use use, const struct batch *b)
{
    struct step_result unread;
    for (int i = 0; i < REHEARSALS; i++) {
        if (use != USE_VAL) {
            TRY(rehearse_step(e, use, b));
            continue;
        }
        TRY(engine_evaluate(e, b));
        TRY(engine_result(e, &unread));
    }
    return STATUS_OK;
}

/* Times steps with an option and steps without it, and turns the option on if it saves time. All
 * ranks execute the same steps. Each rank chooses for itself, because the option does not change
 * the results' bits. If recording graphs with the option fails, graphs are used without it. */
static enum status choose(struct engine *e, const struct batch *b,
                          void (*set)(struct engine *e, bool use))
{
    double seconds[2][ROUNDS];
    bool lost = engine_graphs_lost(e) != NULL, works = true;
    for (int i = -REHEARSALS; i < ROUNDS; i++) /* the first rounds record the graphs */
        for (int use = 0; use < 2; use++) {
            set(e, use && works);
            uint64_t begin = clock_ns();
            TRY(rehearse_step(e, USE_TRAIN, b));
            if (i >= 0)
                seconds[use][i] = (double)(clock_ns() - begin) * 1e-9;
            if (lost || !use || !works || !engine_graphs_lost(e))
                continue;
            works = false;
            for (int r = 0; r < e->n; r++)
                network_restore_graphs(e->replica[r].net);
        }
    double without = stats_median(seconds[0], ROUNDS), with = stats_median(seconds[1], ROUNDS);
    set(e, works && with * (1 + MARGIN) < without);
    return STATUS_OK;
}

/* Chooses whether options that are set to OPTION_AUTO are used. A run that has fallen to a lower
 * rung of the ladder leaves these options off. Ranks may have GPUs of different generations. If any
 * rank might support early launches, all ranks rehearse with them, because steps contain sums over
 * ranks. */
static enum status choose_options(struct engine *e, const struct batch *b)
{
    const struct engine_config *c = &e->config;
    bool pdl = engine_ranks(e) > 1 ? c->devices->backend->pdl != NULL : engine_has_pdl(e);
    if (!engine_trains(e) || (c->ladder && c->ladder->n_falls > 0))
        return STATUS_OK;
    if (c->wgrad_stream == OPTION_AUTO && network_has_wgrad_stream(e->replica[0].net))
        TRY(choose(e, b, engine_set_wgrad_stream));
    return c->pdl == OPTION_AUTO && pdl ? choose(e, b, engine_set_pdl) : STATUS_OK;
}

/* Makes a batch of zeros with the largest number of rows, in host memory allocated by device 0,
 * like the run's batches. */
static enum status open_batch(struct engine *e, struct batch *b)
{
    struct device *dev = engine_device(e);
    size_t side = (size_t)e->config.graph->image_size, rows = 0;
    void *pixels, *label;
    for (int u = 0; u < USE_COUNT; u++)
        rows = (size_t)e->config.rows[u] > rows ? (size_t)e->config.rows[u] : rows;
    TRY(dev->backend->alloc_host(dev, rows * side * side * 3, &pixels));
    b->pixels = pixels;
    TRY(dev->backend->alloc_host(dev, rows * sizeof *b->label, &label));
    b->label = label;
    memset(b->pixels, 0, rows * side * side * 3);
    memset(b->label, 0, rows * sizeof *b->label);
    return STATUS_OK;
}

/* No faults are injected during the rehearsal. The counters are reset after it, so that the run
 * begins as if there had been no rehearsal. */
enum status engine_rehearse(struct engine *e)
{
    const struct inject *faults = e->config.inject;
    struct device *dev = engine_device(e);
    struct batch b = {0};
    e->config.inject = NULL;
    struct scaler_state scaler = scaler_begin(&e->config.scaler);
    enum status st;
    CHECK(open_batch(e, &b));
    CHECK(engine_set_scale(e, &scaler));
    for (int u = 0; u < USE_COUNT; u++) {
        b.count = e->config.rows[u];
        if (b.count > 0)
            CHECK(rehearse_use(e, (enum program_use)u, &b));
    }
    b.count = e->config.rows[USE_TRAIN];
    CHECK(choose_options(e, &b));
done:
    engine_idle(e);
    dev->backend->free_host(dev, b.pixels);
    dev->backend->free_host(dev, b.label);
    e->config.inject = faults;
    e->begun = e->ended = e->batches = 0;
    return st;
}
