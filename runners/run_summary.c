/* The run summary: the lines before the first step and after the last one, and summary.json. */
#include "runners/session.h"

#include "base/json.h"
#include "base/stop.h"
#include "base/text.h"
#include "results/noise.h"
#include "results/ranks.h"
#include "results/run.h"
#include "results/summary.h"

#include <inttypes.h>
#include <math.h>

static void run_summary_world(const struct session *s)
{
    int ranks = s->world.size, devices = s->devices.n;
    fprintf(s->out, "%s: %d rank%s of %d device%s, %" PRId64 " images per step",
            train_mode_str(s->mode), ranks, ranks == 1 ? "" : "s", devices, devices == 1 ? "" : "s",
            train_config_images(s->config, ranks));
    if (ranks > 1)
        fprintf(s->out, ", gradients in %d bucket%s over %s", engine_buckets(s->engine),
                engine_buckets(s->engine) == 1 ? "" : "s", world_network(&s->world));
    fprintf(s->out, "\n");
    /* If the devices exchange gradients without host memory, prints the transport. */
    if (s->devices.backend->asynchronous && engine_comm_name(s->engine)) {
        const char *why = engine_comm_why(s->engine);
        fprintf(s->out, "gradients between devices: %s%s%s%s\n", engine_comm_name(s->engine),
                *why ? " (" : "", why, *why ? ")" : "");
    }
}

void run_summary_begin(const struct session *s)
{
    char about[256];
    size_t params, arena;
    struct device *dev = engine_device(s->engine);
    dev->backend->describe(dev, about, sizeof about);
    fprintf(s->out, "%s, %d px, batch %d on %s\n", s->graph->arch, s->graph->image_size,
            s->config->batch, about);
    if (s->mode != MODE_ND)
        run_summary_world(s);
    engine_bytes(s->engine, &params, &arena);
    fprintf(s->out,
            "%.1f MiB of parameters, gradients and momentum, %.1f MiB for the buffers of a step\n",
            (double)params / 1048576.0, (double)arena / 1048576.0);
    if (s->decoder)
        fprintf(s->out, "JPEG images are decoded by %s\n", s->decoder->name);
    /* Prints the injected faults, so that the run is not mistaken for a normal one. */
    size_t i;
    json_t *fault, *faults = inject_any(&s->inject) ? inject_json(&s->inject) : NULL;
    json_array_foreach(faults, i, fault)
    {
        fprintf(s->out, "%s%s", i ? ", " : "injected faults: ", json_string_value(fault));
    }
    if (faults)
        fprintf(s->out, "\n");
    json_decref(faults);
    if (s->resumed)
        fprintf(s->out, "Resuming at epoch %" PRId64 ", step %" PRId64 "\n", s->state.epoch,
                s->state.step);
    if (session_emulates(s))
        fprintf(s->out, "%s is emulated in fp32: its speed says nothing about the type\n",
                s->policy.name);
    if (*s->crowd && session_leads(s))
        fprintf(stderr, "ampscale: warning: steps are slower with %s devices or ranks\n", s->crowd);
    if (*s->dir)
        text_print(s->out, "records and checkpoints: '%s'", s->dir);
    fflush(s->out);
}

/* Prints the time of the run and, with --desired-acc, the time at which the accuracy was reached.
 */
static void say_time(const struct session *s, const struct run *run)
{
    const struct epoch_record *reached = run_reached(run);
    fprintf(s->out, ", time elapsed %.1f s", run->elapsed);
    if (reached)
        fprintf(s->out, ", top-1 %g %% after %.1f s (epoch %" PRId64 ")", s->config->desired_acc,
                reached->elapsed, reached->epoch);
    else if (s->config->desired_acc > 0 && !s->config->evaluate)
        fprintf(s->out, ", top-1 %g %% not reached", s->config->desired_acc);
}

/* Prints the run's totals: throughput (from the summary), accuracy and time. */
static void say_end(const struct session *s, const struct run *run, const json_t *summary)
{
    const json_t *rate = json_object_get(summary, "images_per_s");
    const json_t *wall = json_object_get(summary, "images_per_s_wall");
    double mean = json_number_at(summary, "images_per_s_mean");
    const char *before = ": ";
    if (s->config->evaluate)
        fprintf(s->out, "Finished the validation");
    else
        fprintf(s->out, "Finished %" PRId64 " step%s", s->state.step,
                s->state.step == 1 ? "" : "s");
    if (isfinite(mean)) {
        fprintf(s->out, ": %.1f images/s (mean), %.1f images/s (median step)", mean,
                json_number_at(rate, "median"));
        before = ", ";
    }
    if (json_is_number(wall))
        fprintf(s->out, "%s%.1f images/s (wall clock)", before, json_number_value(wall));
    if (s->state.best_top1 > 0 && !s->config->evaluate)
        fprintf(s->out, ", best top-1 %.2f %%", s->state.best_top1);
    say_time(s, run);
    if (s->ladder.n_falls > 0) {
        char began[RUNG_NAME_MAX], rung[RUNG_NAME_MAX];
        ladder_rung_name(&s->ladder, s->ladder.fall[0].rung, began);
        ladder_rung_name(&s->ladder, s->ladder.rung, rung);
        fprintf(s->out, ", on rung '%s' since '%s' failed", rung, began);
    }
    json_int_t left_out = json_integer_value(json_object_get(summary, "images_left_out"));
    if (left_out > 0)
        fprintf(s->out, ", %" JSON_INTEGER_FORMAT " image%s skipped that could not be decoded",
                left_out, left_out == 1 ? "" : "s");
    if (session_emulates(s))
        fprintf(s->out, ", %s emulated in fp32", s->policy.name);
    char noise[NOISE_TEXT_MAX];
    const char *host = json_text_at(json_object_get(summary, "noise"), "host");
    if (noise_recorded(summary, noise))
        fprintf(s->out, "; disturbed%s%s: %s", *host ? " on " : "", host, noise);
    fprintf(s->out, "\n");
}

/* Returns the final state of loss scaling: {"scale", "growths", "skipped" (steps)}. */
static json_t *summary_scaler(const struct session *s, const struct run *run)
{
    json_int_t growths = 0;
    for (int64_t i = 1; i < run->n_steps; i++)
        growths += run->step[i].loss_scale > run->step[i - 1].loss_scale;
    growths += run->n_steps > 0 && s->state.scaler.scale > run->step[run->n_steps - 1].loss_scale;
    return json_new("{s:f, s:I, s:I}", "scale", s->state.scaler.scale, "growths", growths,
                    "skipped", (json_int_t)s->state.scaler.skipped);
}

/* Prints the straggler of `run` and the part of a step in which it is slow, or that there is no
 * straggler. Prints nothing if the run has one rank. */
static enum status say_straggler(const struct session *s, const struct run *run)
{
    struct ranks r;
    char host[HOST_NAME_MAX_LEN];
    TRY(ranks_of(run, &r));
    if (r.n == 0)
        return STATUS_OK;
    text_clean(host, sizeof host, r.rank[r.slowest].host);
    fprintf(s->out,
            "%s rank %" PRId64 " (%s), +%.1f %% (noise ±%.1f %%): %.3f ms a step without "
            "communication, median of the other ranks %.3f ms, largest difference in %s\n",
            r.slow ? "Straggler:" : "No straggler: slowest is", r.slowest, host, 100 * r.behind,
            100 * r.noise, 1e3 * r.rank[r.slowest].own_s, 1e3 * r.median_own_s,
            rank_part_str(r.part));
    ranks_free(&r);
    return STATUS_OK;
}

/* Returns why the run ended. */
static const char *ended_by(const struct session *s)
{
    const struct train_config *c = s->config;
    bool accurate = c->desired_acc > 0 && s->state.best_top1 >= c->desired_acc;
    return c->evaluate                   ? "evaluation"
           : s->state.epoch >= c->epochs ? "epochs"
           : accurate                    ? "desired accuracy"
                                         : "steps";
}

/* Makes a summary with the values that cannot be computed from the records. */
static enum status summary_new(struct session *s, json_t **out)
{
    uint64_t bits;
    char state[20];
    *out = json_new("{s:I, s:I, s:f, s:s}", "epochs", (json_int_t)s->state.epoch, "steps",
                    (json_int_t)s->state.step, "best_top1", s->state.best_top1, "ended_by",
                    ended_by(s));
    if (s->config->evaluate)
        return STATUS_OK;
    TRY(engine_state_bits(s->engine, &bits));
    snprintf(state, sizeof state, "%016" PRIx64, bits);
    json_put(*out, "state_bits", json_utf8(state));
    return STATUS_OK;
}

/* Writes the summary, and then runs the command of --on-save a last time. If the command fails,
 * writes the summary again, with the failure. */
static enum status write_summary(struct session *s, json_t *summary)
{
    if (!s->on_save)
        return record_finish(s->record, summary);
    int64_t before = on_save_failures(s->on_save);
    json_put(summary, "on_save", on_save_json(s->on_save));
    TRY(record_finish(s->record, summary));
    TRY(session_end_saves(s));
    if (on_save_failures(s->on_save) == before)
        return STATUS_OK;
    json_put(summary, "on_save", on_save_json(s->on_save));
    return record_finish(s->record, summary);
}

/* Adds the name of the block device to "io". If the run ended within its first epoch, no epoch was
 * recorded. In that case also adds the rates at which this attempt read from storage. */
static void add_storage(const struct session *s, json_t *io)
{
    const struct session_reads *r = &s->reads;
    if (!io || !*s->storage.device)
        return;
    json_put(io, "device", text_json(s->storage.device));
    if (json_object_get(io, "storage_bytes_per_s") || !(r->seconds > 0) ||
        !isfinite(r->storage.process + r->storage.device))
        return;
    json_put(io, "storage_bytes_per_s", json_finite(r->storage.process / r->seconds));
    json_put(io, "device_bytes_per_s", json_finite(r->storage.device / r->seconds));
    json_put(io, "cached_percent",
             json_finite(storage_cached_percent(r->storage.process, r->loaders)));
}

/* Adds to the summary whether other work disturbed the run, on the host of rank `rank`. */
static enum status add_noise(const struct session *s, const struct run *run, struct noise *noise,
                             int rank, json_t *summary)
{
    TRY(noise_of_steps(run, noise));
    if (stop_was_paused()) /* the programs that take turns with a paused run are no disturbance */
        noise->host.others = NAN;
    json_put(summary, "noise", noise_json(noise));
    if (s->world.size > 1)
        json_put(json_object_get(summary, "noise"), "host", json_utf8(s->world.info[rank].host));
    return STATUS_OK;
}

/* Computes the summary from the records, so that it includes earlier attempts. */
enum status run_summary_finish(struct session *s)
{
    enum status st;
    int rank;
    struct noise noise;
    struct run *run = NULL;
    json_t *summary = NULL;
    TRY(telemetry_stop(s->telemetry));
    TRY(rank_load_end(&s->world, &s->load, &noise.host, &rank));
    if (!session_leads(s))
        return rank_sensors_gather(&s->world, &s->devices, &s->samples, NULL);
    CHECK(summary_new(s, &summary));
    CHECK(record_sync(s->record));
    CHECK(run_load(s->dir, &run));
    if (s->ladder.applies)
        json_put(summary, "ladder", ladder_json(&s->ladder));
    if (s->scaled)
        json_put(summary, "loss_scaler", summary_scaler(s, run));
    CHECK(summary_add(run, summary));
    if (stop_was_paused())
        json_put(summary, "paused", json_true());
    CHECK(rank_sensors_gather(&s->world, &s->devices, &s->samples, summary));
    add_storage(s, json_object_get(summary, "io"));
    CHECK(add_noise(s, run, &noise, rank, summary));
    CHECK(write_summary(s, summary));
    say_end(s, run, summary);
    summary_explain(run, summary, s->out);
    CHECK(say_straggler(s, run));
    if (s->expected) {
        CHECK(expected_end(s->expected, s->state.step, json_text_at(summary, "state_bits")));
        text_print(s->out, "all losses and the final state are bitwise equal to those of '%s'",
                   s->config->expect);
    }
done:
    run_free(run);
    json_decref(summary);
    return st;
}
