/* Devices and records of benchmarks of single operations. */
#include "bench/micro.h"

#include "base/file.h"
#include "bench/peak.h"
#include "results/environment.h"

#include <stdlib.h>
#include <string.h>

enum { PEAK_ROUNDS = 5 };

enum status micro_open(const char *devices, int threads, struct micro *m)
{
    *m = (struct micro){.dev = NULL};
    TRY(device_open(devices, threads, &m->dev));
    TRY(device_open("ref", 1, &m->ref_dev));
    TRY(m->dev->backend->stream_open(m->dev, &m->stream));
    TRY(m->ref_dev->backend->stream_open(m->ref_dev, &m->ref));
    m->dev->backend->describe(m->dev, m->about, sizeof m->about);
    return STATUS_OK;
}

static void close_stream(struct stream *s)
{
    if (s)
        s->device->backend->stream_close(s);
}

void micro_close(struct micro *m)
{
    close_stream(m->stream);
    close_stream(m->ref);
    device_close(m->dev);
    device_close(m->ref_dev);
    *m = (struct micro){.dev = NULL};
}

enum status micro_peaks(struct micro *m, const char *path)
{
    return path ? peaks_read(path, &m->peaks) : peak_measure(m->dev, PEAK_ROUNDS, 0, &m->peaks);
}

enum status micro_record(const struct micro *m, const char *bench, int schema, json_t **record)
{
    return bench_record(bench, schema, m->about, m->dev->threads, record);
}

enum status bench_record(const char *bench, int schema, const char *device, int threads,
                         json_t **record)
{
    char now[ENVIRONMENT_TIME_MAX];
    json_t *host;
    environment_time(now);
    TRY(environment_describe(&host));
    *record = json_pack("{s:i, s:s, s:s, s:s, s:i, s:o}", "schema", schema, "bench", bench,
                        "measured", now, "device", device, "threads", threads, "host", host);
    if (*record && environment_program(*record))
        return STATUS_OK;
    json_decref(*record);
    return status_fail(STATUS_OOM, "no memory for the record");
}

void micro_print(json_t *record, FILE *out)
{
    json_dumpf(record, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(record);
}

enum status bench_record_write(json_t *record, const char *path)
{
    char *text = json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(record);
    if (!text)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    enum status st = file_replace(path, text, strlen(text));
    free(text);
    return st;
}
