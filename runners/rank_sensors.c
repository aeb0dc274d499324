/* Sensors of all ranks. */
#include "runners/rank_sensors.h"

#include "results/run.h"
#include "results/sensors.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 20 }; /* of a rank: some hundred for each device */

enum status rank_samples_take(void *context, struct telemetry_record *row, int n)
{
    struct rank_samples *s = context;
    if (s->n + n > s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : 1024;
        struct telemetry_record *more = realloc(s->row, (size_t)capacity * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for %lld samples", (long long)capacity);
        s->row = more;
        s->capacity = capacity;
    }
    memcpy(s->row + s->n, row, (size_t)n * sizeof *row);
    s->n += n;
    return STATUS_OK;
}

void rank_samples_free(struct rank_samples *samples)
{
    free(samples->row);
    *samples = (struct rank_samples){0};
}

/* Says of a rank's devices where they are. */
static void name_devices(const struct world *w, const struct device_list *devices, json_t *list)
{
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o)
    {
        int64_t device = json_integer_value(json_object_get(o, "device"));
        json_object_set_new(o, "rank", json_integer(w->rank));
        json_object_set_new(o, "host", json_string(w->info[w->rank].host));
        if (device < devices->n)
            json_object_set_new(o, "index", json_integer(devices->index[device]));
    }
}

/* What this rank sends: a list of its devices; rank 0's is empty. */
static enum status own_text(const struct world *w, const struct device_list *devices,
                            const struct rank_samples *own, char **text)
{
    const struct run run = {.telemetry = own->row, .n_telemetry = own->n};
    json_t *list = json_array();
    enum status st = list ? sensors_devices(&run, list) : STATUS_OK;
    if (st == STATUS_OK && list)
        name_devices(w, devices, list);
    *text = list && st == STATUS_OK ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (st == STATUS_OK && !*text)
        st = status_fail(STATUS_OOM, "no memory for what sensors say");
    return st;
}

static enum status allgather(struct world *w, const void *own, void *all, int64_t bytes)
{
    struct comm_op op = {
        .kind = COMM_ALLGATHER, .type = DTYPE_U8, .send = own, .recv = all, .count = bytes};
    return comm_run(w->comm, &op);
}

/* The longest of the ranks' texts, its NUL counted. */
static enum status longest(struct world *w, const char *text, int64_t *bytes)
{
    int64_t own = (int64_t)strlen(text) + 1;
    int64_t *all = calloc((size_t)w->size, sizeof *all);
    if (!all)
        return status_fail(STATUS_OOM, "no memory for %d ranks", w->size);
    enum status st = allgather(w, &own, all, sizeof own);
    *bytes = 0;
    for (int i = 0; i < w->size; i++)
        *bytes = all[i] > *bytes ? all[i] : *bytes;
    free(all);
    if (st == STATUS_OK && (*bytes < own || *bytes > TEXT_BYTES_MAX))
        st = status_fail(STATUS_DATA, "what a rank's sensors say takes %lld bytes",
                         (long long)*bytes);
    return st;
}

/* Every rank's text in `bytes` of memory that the caller frees. */
static enum status gather_texts(struct world *w, const char *text, int64_t bytes, char **all)
{
    enum status st = STATUS_OK;
    char *own = calloc(1, (size_t)bytes);
    *all = calloc((size_t)w->size, (size_t)bytes);
    if (!own || !*all) {
        st = status_fail(STATUS_OOM, "no memory for what sensors of %d ranks say", w->size);
        goto done;
    }
    strcpy(own, text);
    CHECK(allgather(w, own, *all, bytes));
    for (int i = 0; i < w->size; i++)
        (*all)[(i + 1) * bytes - 1] = '\0';
done:
    free(own);
    return st;
}

/* Appends the devices of all ranks but the first, whose own are there. */
static enum status append_devices(const struct world *w, const char *all, int64_t bytes,
                                  json_t *summary)
{
    json_t *list = json_object_get(summary, "telemetry");
    if (!list && json_object_set_new(summary, "telemetry", json_array()) == 0)
        list = json_object_get(summary, "telemetry");
    for (int i = 1; i < w->size; i++) {
        json_t *devices = json_loads(all + i * bytes, JSON_REJECT_DUPLICATES, NULL);
        bool ok = json_is_array(devices) && json_array_extend(list, devices) == 0;
        json_decref(devices);
        if (!ok)
            return status_fail(STATUS_DATA, "what the sensors of rank %d say cannot be read", i);
    }
    if (json_array_size(list) == 0)
        json_object_del(summary, "telemetry");
    return STATUS_OK;
}

enum status rank_sensors_gather(struct world *w, const struct device_list *devices,
                                const struct rank_samples *own, json_t *summary)
{
    char *text = NULL, *all = NULL;
    int64_t bytes = 0;
    enum status st;
    if (w->size == 1)
        return STATUS_OK;
    CHECK(own_text(w, devices, own, &text));
    CHECK(longest(w, text, &bytes));
    CHECK(gather_texts(w, text, bytes, &all));
    if (w->rank != 0)
        goto done;
    name_devices(w, devices, json_object_get(summary, "telemetry"));
    CHECK(append_devices(w, all, bytes, summary));
done:
    free(all);
    free(text);
    return st;
}
