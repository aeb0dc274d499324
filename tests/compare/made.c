/* Makes records of runs for tests of comparisons. */
#include "made.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes run.json. What may differ between the repeats of a side differs. */
static void write_info(const char *dir, const struct made *m, int repeat)
{
    char text[1024], started[64] = "";
    if (m->first_s > 0)
        snprintf(started, sizeof started, "\"started_s\": %.3f, ", m->first_s + 60 * repeat);
    snprintf(text, sizeof text,
             "{\"schema\": 1, %s\"started\": \"2024-01-31T12:00:00Z\", \"build\": \"Release\","
             "\"version\": \"%d\", \"seed\": %d, \"device\": \"%s\", \"host\": {\"hostname\":"
             "\"node%d\", \"memory_bytes\": %d}, \"config\": {\"arch\": \"resnet18\", "
             "\"precision\": \"fp32\", \"mode\": \"nd\", \"seed\": %d, \"batch_size\": 32, "
             "\"data\": \"/data/%d/images/\"%s}}",
             started, repeat, repeat, m->device ? m->device : "a \\\"quick\\\" device", repeat,
             1000000 + repeat, repeat, repeat, m->more ? m->more : "");
    scratch_write_text(dir, "run.json", text);
}

void make_run(const char *dir, const struct made *m, int repeat)
{
    double slower = m->uneven && repeat % 3 == 0 ? -m->slower : m->slower;
    double drift = m->drift > 0 ? pow(m->drift, repeat) : 1, vary = 1 + 0.001 * repeat;
    double total = 0.1 * (1 + slower) * vary * drift;
    expect_ok(dir_make(dir));
    write_info(dir, m, repeat);
    for (int64_t i = 0; i < STEPS; i++) {
        double wait = i % 10 == 5 ? m->stall_s : 0;
        struct step_record s = {.step = i,
                                .batch = i,
                                .images = 32,
                                .bytes_read = m->decode_s > 0 ? 32 * 1000 : 0,
                                .files_read = m->decode_s > 0 ? 32 : 0,
                                .decode_s = 32 * m->decode_s * vary,
                                .loss = 1,
                                .forward_s = m->forward_s > 0 ? m->forward_s * vary : total / 3,
                                .backward_s = total / 2,
                                .data_s = wait,
                                .total_s = total + wait,
                                .elapsed = (double)(i + 1) * total};
        run_rig_append(dir, &step_schema, &s);
    }
    struct epoch_record e = {.steps = STEPS,
                             .train_images = (int64_t)STEPS * 32,
                             .val_images = 100,
                             .val_top1 = 75 - m->top1 + 0.1 * repeat,
                             .val_top5 = 90,
                             .elapsed = STEPS * total};
    run_rig_append(dir, &epoch_schema, &e);
    for (int i = 0; i < 2 && m->joules > 0; i++) {
        struct telemetry_record t = telemetry_nothing;
        t.sample = i;
        t.energy_j = i * m->joules * STEPS * 32 * vary;
        t.elapsed = i * STEPS * total;
        run_rig_append(dir, &telemetry_schema, &t);
    }
    if (m->paused)
        scratch_write_text(dir, "summary.json",
                           "{\"schema\": 1, \"ended_by\": \"epochs\", \"paused\": true}");
    else if (!m->by)
        scratch_write_text(dir, "summary.json", "{\"schema\": 1, \"ended_by\": \"epochs\"}");
    else if (*m->by)
        scratch_write_changed(dir, "summary.json", "{\"schema\": 1, \"ended_by\": \"BY\"}", "BY",
                              m->by);
}

int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    f->config = compare_defaults();
    for (int i = 0; i < METRICS; i++)
        f->config.role[i] = COMPARE_OPTION;
    *state = f;
    return 0;
}

int tear_down(void **state)
{
    struct fixture *f = *state;
    compare_report_free(&f->report);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

void set_side(struct fixture *f, int side, const char *name)
{
    char path[sizeof f->side[side]];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    memcpy(f->side[side], path, sizeof path);
}

void make_side(struct fixture *f, int side, const char *name, const struct made *m, int n)
{
    char run[sizeof f->side[side] + 16];
    set_side(f, side, name);
    for (int i = 0; i < n; i++) {
        snprintf(run, sizeof run, "%s/r%d", f->side[side], i + 1);
        make_run(run, m, i);
    }
}

enum status compare(struct fixture *f)
{
    char *base = f->side[0], *new = f->side[1];
    compare_report_free(&f->report);
    return compare_compare(&base, 1, &new, 1, &f->config, &f->report);
}

const struct compare_report *made(struct fixture *f, const struct made *m, int n)
{
    make_side(f, 0, "base", &(struct made){.joules = m->joules > 0}, REPEATS);
    make_side(f, 1, "new", m, n);
    expect_ok(compare(f));
    assert_int_equal(f->report.n_cells, 1);
    return &f->report;
}

const struct compare_result *result(const struct compare_report *r, enum metric_id id)
{
    for (int i = 0; i < r->cell[0].n_results; i++)
        if (r->cell[0].result[i].metric == id)
            return &r->cell[0].result[i];
    return NULL;
}

void expect(const struct compare_report *r, enum metric_id id, enum compare_verdict verdict)
{
    const struct compare_result *found = result(r, id);
    if (!found)
        fail_msg("%s was not compared", metrics[id].name);
    if (found->verdict != verdict)
        fail_msg("%s: %s, not %s", metrics[id].name, compare_verdict_str(found->verdict),
                 compare_verdict_str(verdict));
}
