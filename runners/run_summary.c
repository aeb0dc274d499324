/* The lines before the first step, and after the last. */
#include "runners/run_summary.h"

#include "results/ranks.h"
#include "results/text.h"

#include <inttypes.h>

/* Do gradients travel between devices whose memory is not the host's? */
static bool devices_beside_host(const struct session *s)
{
    return s->devices.backend->asynchronous && engine_comm_name(s->engine);
}

static void run_summary_world(const struct session *s)
{
    int ranks = s->world.size, devices = s->devices.n;
    fprintf(s->out, "%s: %d rank%s of %d device%s, %" PRId64 " images a step",
            train_mode_str(s->world.mode), ranks, ranks == 1 ? "" : "s", devices,
            devices == 1 ? "" : "s", train_config_images(s->config, ranks));
    if (ranks > 1)
        fprintf(s->out, ", gradients in %d bucket%s over %s", engine_buckets(s->engine),
                engine_buckets(s->engine) == 1 ? "" : "s", world_network(&s->world));
    fprintf(s->out, "\n");
    if (devices_beside_host(s)) {
        const char *why = engine_comm_why(s->engine);
        fprintf(s->out, "gradients between devices: %s%s%s%s\n", engine_comm_name(s->engine),
                *why ? " (" : "", why, *why ? ")" : "");
    }
}

/* Lest anyone take such a run for a good one. */
static void run_summary_faults(const struct session *s)
{
    size_t i;
    json_t *fault, *faults = inject_any(&s->inject) ? inject_json(&s->inject) : NULL;
    json_array_foreach(faults, i, fault)
    {
        fprintf(s->out, "%s%s", i ? ", " : "faults are injected: ", json_string_value(fault));
    }
    if (faults)
        fprintf(s->out, "\n");
    json_decref(faults);
}

void run_summary_begin(const struct session *s)
{
    char about[256];
    struct device *dev = engine_device(s->engine);
    dev->backend->describe(dev, about, sizeof about);
    fprintf(s->out, "%s, %d px, batch %d on %s\n", s->graph->arch, s->graph->image_size,
            s->config->batch, about);
    if (s->world.mode != MODE_ND)
        run_summary_world(s);
    fprintf(s->out, "%.1f MiB of parameters, gradients and momentum, %.1f MiB for a step\n",
            (double)engine_param_bytes(s->engine) / 1048576.0,
            (double)engine_arena_bytes(s->engine) / 1048576.0);
    run_summary_faults(s);
    if (s->resumed)
        fprintf(s->out, "Resuming at epoch %" PRId64 ", step %" PRId64 "\n", s->state.epoch,
                s->state.step);
    if (*s->dir)
        fprintf(s->out, "records and checkpoints go to '%s'\n", s->dir);
    fflush(s->out);
}

void run_summary_end(const struct session *s, const json_t *summary)
{
    const json_t *median = json_object_get(json_object_get(summary, "images_per_s"), "median");
    const json_t *wall = json_object_get(summary, "images_per_s_wall");
    const char *before = ": ";
    fprintf(s->out, "Finished %" PRId64 " step%s", s->state.step, s->state.step == 1 ? "" : "s");
    if (json_is_number(median)) {
        fprintf(s->out, "%s%.1f images/s (median step)", before, json_number_value(median));
        before = ", ";
    }
    if (json_is_number(wall))
        fprintf(s->out, "%s%.1f images/s (wall clock)", before, json_number_value(wall));
    if (s->state.best_top1 > 0)
        fprintf(s->out, ", best top-1 %.2f %%", s->state.best_top1);
    if (s->ladder.n_falls > 0) {
        char began[RUNG_NAME_MAX], rung[RUNG_NAME_MAX];
        ladder_rung_name(&s->ladder, s->ladder.fall[0].rung, began);
        ladder_rung_name(&s->ladder, s->ladder.rung, rung);
        fprintf(s->out, ", on rung '%s' since '%s' failed", rung, began);
    }
    json_int_t left_out = json_integer_value(json_object_get(summary, "images_left_out"));
    if (left_out > 0)
        fprintf(s->out, ", %" JSON_INTEGER_FORMAT " image%s left out that could not be decoded",
                left_out, left_out == 1 ? "" : "s");
    fprintf(s->out, "\n");
}

enum status run_summary_straggler(const struct session *s, const struct run *run)
{
    struct ranks r;
    char host[HOST_NAME_MAX_LEN];
    TRY(ranks_of(run, &r));
    if (r.n == 0)
        return STATUS_OK;
    text_clean(host, sizeof host, r.rank[r.slowest].host);
    fprintf(s->out,
            "%s rank %" PRId64 " (%s), +%.1f %% (noise ±%.1f %%): %.3f ms a step without "
            "communication, median of the others %.3f ms, mostly %s\n",
            r.slow ? "Straggler:" : "No straggler: slowest is", r.slowest, host, 100 * r.behind,
            100 * r.noise, 1e3 * r.rank[r.slowest].own_s, 1e3 * r.median_own_s,
            rank_part_str(r.part));
    ranks_free(&r);
    return STATUS_OK;
}
