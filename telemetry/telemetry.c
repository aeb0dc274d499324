/* Runs the thread that samples the meter. */
#include "telemetry/telemetry.h"

#include "base/array.h"
#include "base/json.h"
#include "telemetry/meter.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct telemetry {
    struct meter *meter; /* NULL: nothing can be measured */
    char missing[256];   /* why nothing can be measured */
    double seconds;
    telemetry_take *take;
    void *context;
    struct telemetry_record *row; /* (meter->n) rows of the sample that is being taken */
    pthread_t thread;
    bool running;
    pthread_mutex_t metering; /* locked while the meter is read */
    pthread_mutex_t lock;     /* protects `stopping` */
    pthread_cond_t wake;
    bool stopping;
    struct first_failure failure; /* the first failure of take() */
};

enum status telemetry_open(const struct telemetry_config *c, struct telemetry **out)
{
    enum status st;
    struct telemetry *t;
    TRY(array_new(&t, 1));
    pthread_condattr_t monotonic;
    pthread_mutex_init(&t->metering, NULL);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    t->seconds = c->seconds;
    st = c->gpu ? nvml_meter_open(c->index, c->n, &t->meter)
                : host_meter_open(c->sysfs ? c->sysfs : "/sys", &t->meter);
    if (st == STATUS_UNSUPPORTED)
        snprintf(t->missing, sizeof t->missing, "%s", status_message());
    else
        CHECK(st);
    if (t->meter)
        CHECK(array_new(&t->row, t->meter->n));
    *out = t;
    return STATUS_OK;
done:
    telemetry_close(t);
    return st;
}

static void sample(struct telemetry *t)
{
    if (t->failure.status != STATUS_OK)
        return;
    pthread_mutex_lock(&t->metering);
    for (int i = 0; i < t->meter->n; i++) {
        t->row[i] = telemetry_nothing;
        t->row[i].device = i;
        t->meter->sample(t->meter, i, &t->row[i]);
    }
    pthread_mutex_unlock(&t->metering);
    first_failure_keep(&t->failure, t->take(t->context, t->row, t->meter->n));
}

static struct timespec after(struct timespec at, double seconds)
{
    double whole = floor(seconds);
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((seconds - whole) * 1e9);
    if (at.tv_nsec >= 1000000000L) {
        at.tv_nsec -= 1000000000L;
        at.tv_sec++;
    }
    return at;
}

/* Waits until the time `until` and returns false. If the thread should stop, returns true at
 * once. */
static bool rest(struct telemetry *t, const struct timespec *until)
{
    int code = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->stopping && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&t->wake, &t->lock, until);
    bool stopping = t->stopping;
    pthread_mutex_unlock(&t->lock);
    return stopping;
}

static void *run(void *arg)
{
    struct telemetry *t = arg;
    struct timespec next;
    do {
        clock_gettime(CLOCK_MONOTONIC, &next);
        next = after(next, t->seconds);
        sample(t);
    } while (!rest(t, &next));
    return NULL;
}

enum status telemetry_start(struct telemetry *t, telemetry_take *take, void *context)
{
    t->take = take;
    t->context = context;
    if (!t->meter)
        return STATUS_OK;
    int code = pthread_create(&t->thread, NULL, run, t);
    if (code != 0)
        return status_fail(STATUS_OOM, "cannot start the thread for telemetry: %s", strerror(code));
    t->running = true;
    return STATUS_OK;
}

enum status telemetry_stop(struct telemetry *t)
{
    if (!t || !t->running)
        return STATUS_OK;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    t->running = false;
    sample(t);
    return first_failure_return(&t->failure);
}

void telemetry_close(struct telemetry *t)
{
    if (!t)
        return;
    if (t->meter)
        t->meter->close(t->meter);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->metering);
    free(t->row);
    free(t);
}

double telemetry_joules(struct telemetry *t)
{
    if (!t || !t->meter)
        return NAN;
    double sum = 0;
    pthread_mutex_lock(&t->metering);
    for (int i = 0; i < t->meter->n; i++)
        sum += t->meter->joules(t->meter, i);
    pthread_mutex_unlock(&t->metering);
    return sum;
}

json_t *telemetry_facts(struct telemetry *t)
{
    if (!t->meter)
        return json_new("{s:{s:s}}", "telemetry", "missing", t->missing);
    json_t *devices = json_array();
    for (int i = 0; i < t->meter->n; i++)
        json_add(devices, t->meter->facts(t->meter, i));
    return json_new("{s:{s:s, s:f}, s:o}", "telemetry", "source", t->meter->source, "seconds",
                    t->seconds, "devices", devices);
}

const char *telemetry_lost(const struct telemetry *t)
{
    return t && t->meter && *t->meter->lost ? t->meter->lost : NULL;
}
