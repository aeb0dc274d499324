/* Makes and prints the records of benchmarks. */
#include "bench/record.h"

#include "base/host.h"
#include "base/json.h"
#include "results/environment.h"

static bool is_oversubscribed(const struct bench_head *head, char text[128])
{
    return host_oversubscribed(head->workers ? head->workers : head->threads, text, 128);
}

json_t *bench_record(const struct bench_head *head, json_t *more)
{
    char now[ENVIRONMENT_TIME_MAX], unused[128];
    environment_time(now);
    json_t *record = json_new("{s:i, s:s, s:s}", "schema", head->schema, "bench", head->bench,
                              head->time ? head->time : "measured", now);
    if (head->device)
        json_put(record, "device", json_utf8(head->device));
    if (head->threads >= 0)
        json_put(record, "threads", json_integer(head->threads));
    json_put(record, "oversubscribed", json_boolean(is_oversubscribed(head, unused)));
    json_put(record, "host", environment_describe());
    environment_program(record);
    json_object_update(record, more);
    json_decref(more);
    return record;
}

void bench_warn(const struct bench_head *head, const struct bench_table *t)
{
    char text[128];
    bar_erase(t->bar);
    if (is_oversubscribed(head, text))
        fprintf(stderr, "ampscale: warning: %s: threads that share a core slow each other down\n",
                text);
    if (t->disturbed)
        fprintf(stderr,
                "ampscale: warning: %d of %d rows were disturbed by other work: repeat on an idle "
                "machine\n",
                t->disturbed, t->judged);
    if (t->above)
        fprintf(stderr,
                "ampscale: warning: %d of %d rows are above the measured peak, so the peak was "
                "disturbed: measure it again with 'ampscale bench peak'\n",
                t->above, t->judged);
}

enum status bench_record_rows(const struct bench_head *head, json_t *more, const char *key,
                              struct bench_table *t)
{
    char why[NOISE_TEXT_MAX];
    if (t->noise) {
        if (t->format == BENCH_JSON)
            json_put(more, "noise", host_noise_json(t->noise));
        else if (t->format == BENCH_TEXT && host_noise_judge(t->noise, why))
            fprintf(t->out, "disturbed: %s\n", why);
    }
    bench_warn(head, t);
    if (t->format != BENCH_JSON) {
        json_decref(more);
        return STATUS_OK;
    }
    json_put(more, key, bench_table_take(t));
    json_print(bench_record(head, more), t->out, JSON_RECORD);
    return STATUS_OK;
}
