/* Makes and prints the records of benchmarks. */
#include "bench/record.h"

#include "base/json.h"
#include "results/environment.h"

static enum status add_head(const struct bench_head *head, json_t *record)
{
    char now[ENVIRONMENT_TIME_MAX];
    json_t *host;
    environment_time(now);
    TRY(json_put(record, "schema", json_integer(head->schema)));
    TRY(json_put(record, "bench", json_string(head->bench)));
    if (!head->plain)
        TRY(json_put(record, "measured", json_string(now)));
    if (head->device)
        TRY(json_put(record, "device", json_string(head->device)));
    if (head->threads >= 0)
        TRY(json_put(record, "threads", json_integer(head->threads)));
    if (head->plain)
        return STATUS_OK;
    TRY(environment_describe(&host));
    TRY(json_put(record, "host", host));
    return environment_program(record);
}

enum status bench_record(const struct bench_head *head, json_t *more, json_t **record)
{
    enum status st;
    *record = NULL;
    CHECK(json_new(record, "{}"));
    CHECK(add_head(head, *record));
    if (json_object_update(*record, more) != 0)
        st = status_fail(STATUS_OOM, "no memory for the record");
done:
    json_decref(more);
    if (st != STATUS_OK)
        json_decref(*record);
    return st;
}

enum status bench_record_rows(const struct bench_head *head, json_t *more, const char *key,
                              struct bench_table *t)
{
    json_t *rows, *record;
    enum status st = STATUS_OK;
    if (t->format != BENCH_JSON)
        goto done;
    CHECK(bench_table_take(t, &rows));
    CHECK(json_put(more, key, rows));
    TRY(bench_record(head, more, &record));
    return json_print(record, t->out, JSON_RECORD);
done:
    json_decref(more);
    return st;
}
