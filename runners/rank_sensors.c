/* Gathers the sensor values of all ranks, and the load of their hosts. */
#include "runners/rank_sensors.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "results/run.h"
#include "results/sensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES_MAX = 1 << 20
}; /* maximum size of a rank's message; a device needs some hundred bytes */

enum status rank_samples_take(void *context, struct telemetry_record *row, int n)
{
    struct rank_samples *s = context;
    for (int i = 0; i < n; i++) {
        TRY(array_reserve(&s->row, s->n));
        s->row[s->n++] = row[i];
    }
    return STATUS_OK;
}

void rank_samples_free(struct rank_samples *samples)
{
    free(samples->row);
    *samples = (struct rank_samples){0};
}

/* Adds rank, host and index to each of a rank's devices. */
static void name_devices(const struct world *w, const struct device_list *devices, json_t *list)
{
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o)
    {
        int64_t device = json_integer_value(json_object_get(o, "device"));
        json_put(o, "rank", json_integer(w->rank));
        json_put(o, "host", json_utf8(w->info[w->rank].host));
        if (device < devices->n)
            json_put(o, "index", json_integer(devices->index[device]));
    }
}

/* Makes the message of this rank: a list of its devices. Rank 0's message is empty, because its
 * devices are already in the summary. */
static enum status own_text(const struct world *w, const struct device_list *devices,
                            const struct rank_samples *own, char **text)
{
    const struct run run = {.telemetry = own->row, .n_telemetry = own->n};
    enum status st;
    json_t *list = json_array();
    CHECK(sensors_devices(&run, list));
    name_devices(w, devices, list);
    *text = json_text(list, JSON_COMPACT | JSON_REAL_PRECISION(17));
done:
    json_decref(list);
    return st;
}

/* Appends the devices of rank `rank` to the list. */
static enum status append_devices(int rank, const char *text, json_t *list)
{
    json_t *devices = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool ok = json_is_array(devices) && json_array_extend(list, devices) == 0;
    json_decref(devices);
    return ok ? STATUS_OK
              : status_fail(STATUS_DATA, "the sensors' summary of rank %d is invalid", rank);
}

/* On rank 0, appends the devices of all other ranks to `list`. */
static enum status gather_devices(struct world *w, const char *own, json_t *list)
{
    for (int i = 1; i < w->size; i++) {
        char *text;
        enum status st = world_text(w, i, own, TEXT_BYTES_MAX, &text);
        if (st == STATUS_OK && w->rank == 0)
            st = append_devices(i, text, list);
        free(text);
        TRY(st);
    }
    return STATUS_OK;
}

enum status rank_sensors_gather(struct world *w, const struct device_list *devices,
                                const struct rank_samples *own, json_t *summary)
{
    char *text = NULL;
    enum status st;
    json_t *list = NULL;
    if (w->size == 1)
        return STATUS_OK;
    CHECK(own_text(w, devices, own, &text));
    if (w->rank == 0) {
        if (!json_object_get(summary, "telemetry"))
            json_put(summary, "telemetry", json_array());
        list = json_object_get(summary, "telemetry");
        name_devices(w, devices, list);
    }
    CHECK(gather_devices(w, text, list));
    if (list && json_array_size(list) == 0)
        json_object_del(summary, "telemetry");
done:
    free(text);
    return st;
}

/* Reads the counters of all ranks at the same time: no rank leaves the sum before the last one has
 * entered it. */
static enum status read_together(struct world *w, const struct load_meter *m, struct load *load)
{
    double barrier = 0;
    TRY(comm_sum(w->comm, &barrier, 1));
    *load = load_read(m);
    return STATUS_OK;
}

enum status rank_load_begin(struct world *w, struct rank_load *own)
{
    cpu_set_t cpus;
    const char *host = w->info[w->rank].host;
    CPU_ZERO(&cpus);
    for (int i = 0; i < w->size; i++)
        if (strcmp(w->info[i].host, host) == 0)
            CPU_OR(&cpus, &cpus, &w->info[i].cores);
    if (!file_first_line("/proc/sys/kernel/random/boot_id", own->kernel, sizeof own->kernel))
        snprintf(own->kernel, sizeof own->kernel, "%s", host);
    load_open(&own->meter, NULL, &cpus);
    return read_together(w, &own->meter, &own->begin);
}

/* Returns what rank `first` has read. The own time is that of all ranks that count the same
 * processors. */
static struct host_noise joint_noise(const struct rank_load *load, int n, int first)
{
    struct load end = load[first].end;
    for (int i = 0; i < n; i++) {
        if (i == first || strcmp(load[i].kernel, load[first].kernel) != 0 ||
            !CPU_EQUAL(&load[i].meter.cpus, &load[first].meter.cpus))
            continue;
        end.own_s += load[i].end.own_s - load[i].begin.own_s;
        end.preempted += load[i].end.preempted - load[i].begin.preempted;
    }
    return load_between(&load[first].begin, &end);
}

struct host_noise rank_load_worst(const struct rank_load *load, int n, int *rank)
{
    struct host_noise worst = {0};
    double most = -1;
    for (int i = 0; i < n; i++) {
        char text[NOISE_TEXT_MAX];
        struct host_noise h = joint_noise(load, n, i);
        double sum = fmax(h.steal, 0) + fmax(h.others, 0) + fmax(h.throttled, 0);
        sum += host_noise_judge(&h, text) ? 10 : 0;
        if (sum <= most)
            continue;
        most = sum;
        worst = h;
        *rank = i;
    }
    return worst;
}

enum status rank_load_end(struct world *w, struct rank_load *own, struct host_noise *host,
                          int *rank)
{
    struct rank_load *all;
    TRY(read_together(w, &own->meter, &own->end));
    TRY(array_new(&all, w->size));
    enum status st = comm_gather(w->comm, own, all, sizeof *own);
    if (st == STATUS_OK)
        *host = rank_load_worst(all, w->size, rank);
    free(all);
    return st;
}
