/* bench throughput --resume: takes the results of earlier calls from the record in the folder of
 * the runs. The file may have any contents. */
#include "bench/throughput.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum { RECORD_MAX_BYTES = 16 << 20 };

static struct throughput_row *find_row(struct throughput *t, const char *name)
{
    char own[128];
    for (int i = 0; i < t->plan.n_slots; i++) {
        throughput_row_name(t, &t->row[i], own, sizeof own);
        if (strcmp(own, name) == 0)
            return &t->row[i];
    }
    return NULL;
}

/* Takes the row's results, at most one for each round. A row without a result begins anew. */
static enum status take_row(struct throughput *t, const json_t *from)
{
    struct throughput_row *row = find_row(t, json_text_at(from, "name"));
    const json_t *rate = json_object_get(from, "rates");
    size_t n = json_array_size(rate);
    if (!row || row->n > 0 || n == 0)
        return STATUS_OK;
    for (size_t i = 0; i < n && row->n < t->config->options.rounds; i++) {
        double v = json_number_value(json_array_get(rate, i));
        if (!(v > 0) || !isfinite(v))
            return status_fail(STATUS_DATA, "row '%s' has a rate that is no number above 0",
                               json_text_at(from, "name"));
        row->rate[row->n++] = v;
    }
    t->taken += row->n;
    row->noise = host_noise_read(from);
    train_ladder_resume(&row->ladder, from);
    return stats_of(row->rate, row->n, &row->stats);
}

static bool is_same(const json_t *record, const char *key, int value)
{
    return json_number_at(record, key) == value;
}

static enum status take_record(struct throughput *t, const json_t *record)
{
    const struct throughput_config *c = t->config;
    const json_t *row;
    size_t i;
    if (strcmp(json_text_at(record, "bench"), "throughput") != 0 ||
        !is_same(record, "schema", THROUGHPUT_SCHEMA))
        return status_fail(STATUS_DATA, "it is no record of bench throughput");
    if (strcmp(json_text_at(record, "net"), c->options.net) != 0 ||
        !is_same(record, "image_size", c->options.image_size) ||
        !is_same(record, "steps", c->steps) || !is_same(record, "plans", c->plans) ||
        !is_same(record, "threads", c->options.threads))
        return status_fail(STATUS_USAGE, "it is of other settings; give another --out");
    json_array_foreach(json_object_get(record, "rows"), i, row) TRY(take_row(t, row));
    for (int k = 0; k < t->plan.n_slots; k++)
        t->work.budget.measured = t->work.budget.measured || t->row[k].n > 0;
    if (t->work.budget.measured)
        text_clean(t->work.device, sizeof t->work.device, json_text_at(record, "device"));
    text_clean(t->peer.about, sizeof t->peer.about, json_text_at(record, "peer"));
    return STATUS_OK;
}

enum status throughput_resume(struct throughput *t)
{
    char path[TRAIN_PATH_SIZE];
    json_t *record;
    TRY(path_format(path, sizeof path, "%s/throughput.json", t->work.dir));
    if (!path_exists(path))
        return STATUS_OK;
    TRY(json_read(path, RECORD_MAX_BYTES, &record));
    enum status st = take_record(t, record);
    json_decref(record);
    return status_context(st, "'%s'", path);
}
