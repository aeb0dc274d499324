/* Times work between events. */
#include "kernels/cuda/op_timer.h"

#include "base/array.h"
#include "base/half.h"
#include "base/rng.h"
#include "base/stats.h"

#include <stdlib.h>

enum {
    BURSTS = 5,
    LONGEST = 8, /* maximum number of executions in a burst */
    /* Size in bytes of the random numbers with which operands are filled. */
    PATTERN = 256 << 10,
    L2_UNKNOWN = 64 << 20,
    /* How many times memory is overwritten before a burst. On a GPU with 50 MB of L2 cache, one
     * time takes about 35 us: HEAD_FIRST suffices for eight executions, and HEAD_MOST for two
     * milliseconds of the host. */
    HEAD_FIRST = 4,
    HEAD_MOST = 64,
};

/* Maximum duration of a burst of short executions. */
static const double BURST_SECONDS = 200e-6;

struct op_timer {
    struct cuda_device *device;
    struct stream *stream;
    struct event *begin, *end;
    void *pattern[DTYPE_COUNT]; /* device memory with random numbers of each type; NULL until
                                 * needed */
    size_t cache;               /* bytes accessed before a set of operands is used again */
};

struct op_trial {
    struct op_timer *timer;
    int n, sets, next;
    int head;                      /* number of times that memory is overwritten before a burst */
    size_t at[TIMED_OPERANDS_MAX]; /* offset of each operand in its set; SIZE_MAX: absent */
    size_t set_bytes;
    void *memory;    /* `sets` sets of set_bytes each, then a block of `cache` bytes; overwriting
                      * that block evicts the operands from the cache */
    void *workspace; /* NULL until some work needs a workspace */
    size_t workspace_bytes;
};

/* --- the clock --- */

static void timer_close(struct op_timer *t)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        cuda_free(&t->device->base, t->pattern[i]);
    cuda_event_close(t->begin);
    cuda_event_close(t->end);
    cuda_stream_close(t->stream);
    free(t);
}

static void timer_close_with(struct cuda_device *dev)
{
    timer_close(dev->timer);
    dev->timer = NULL;
}

static enum status timer_open(struct cuda_device *dev)
{
    int l2 = 0;
    struct op_timer *t;
    TRY(array_new(&t, 1));
    enum status st;
    t->device = dev;
    CHECK(cuda_check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, dev->base.index),
                     "read the size of the L2 cache of GPU %d", dev->base.index));
    t->cache = 2 * (size_t)(l2 > 0 ? l2 : L2_UNKNOWN);
    CHECK(cuda_stream_open(&dev->base, &t->stream));
    CHECK(cuda_event_open(&dev->base, &t->begin));
    CHECK(cuda_event_open(&dev->base, &t->end));
    dev->timer = t;
    cuda_at_close(dev, timer_close_with);
done:
    if (st != STATUS_OK)
        timer_close(t);
    return st;
}

/* --- operands --- */

static enum status draw(enum dtype type, void *to)
{
    struct rng r = rng_at(0, RNG_DUMMY, 0, (uint64_t)type);
    size_t n = PATTERN / dtype_size(type);
    if (type != DTYPE_U8 && !dtype_is_float(type))
        return status_fail(STATUS_UNSUPPORTED, "cannot time an operand of type %s",
                           dtype_str(type));
    for (size_t i = 0; i < n; i++) {
        float v = 2 * rng_float(&r) - 1;
        if (type == DTYPE_F32)
            ((float *)to)[i] = v;
        else if (type == DTYPE_F16)
            ((uint16_t *)to)[i] = f16_from_float(v);
        else if (type == DTYPE_BF16)
            ((uint16_t *)to)[i] = bf16_from_float(v);
        else /* a mask: any bits */
            ((uint8_t *)to)[i] = (uint8_t)rng_u32(&r);
    }
    return STATUS_OK;
}

static enum status pattern_of(struct op_timer *t, enum dtype type, void **pattern)
{
    *pattern = t->pattern[type];
    if (*pattern)
        return STATUS_OK;
    char *host;
    void *mem = NULL;
    TRY(array_new(&host, PATTERN));
    enum status st;
    CHECK(draw(type, host));
    CHECK(cuda_alloc(&t->device->base, PATTERN, &mem));
    t->pattern[type] = *pattern = mem;
    CHECK(cuda_upload(t->stream, mem, host, PATTERN));
    CHECK(cuda_stream_sync(t->stream));
done:
    free(host);
    return st;
}

static enum status trial_fill(struct op_timer *t, const struct timed_operand *operand, char *to)
{
    void *pattern;
    TRY(pattern_of(t, operand->type, &pattern));
    for (size_t done = 0, part; done < operand->bytes; done += part) {
        part = done ? done : PATTERN;
        if (part > operand->bytes - done)
            part = operand->bytes - done;
        TRY(cuda_copy(t->stream, to + done, done ? to : pattern, part));
    }
    return STATUS_OK;
}

static char *place_of(const struct op_trial *t, int set, int operand)
{
    if (t->at[operand] == SIZE_MAX)
        return NULL;
    return (char *)t->memory + (size_t)set * t->set_bytes + t->at[operand];
}

static void trial_lay_out(struct op_trial *t, const struct timed_operand *operand)
{
    const size_t aligned = 256;
    for (int i = 0; i < t->n; i++) {
        t->at[i] = operand[i].bytes ? t->set_bytes : SIZE_MAX;
        t->set_bytes += (operand[i].bytes + aligned - 1) / aligned * aligned;
    }
    size_t sets = t->set_bytes ? (t->timer->cache + t->set_bytes - 1) / t->set_bytes : 1;
    t->sets = sets < LONGEST ? (int)sets : LONGEST;
}

enum status op_trial_open(struct cuda_device *dev, const struct timed_operand *operand, int n,
                          struct op_trial **out)
{
    *out = NULL;
    TRY(cuda_enter(dev));
    if (!dev->timer)
        TRY(timer_open(dev));
    struct op_trial *t;
    TRY(array_new(&t, 1));
    enum status st;
    dev->trials++;
    t->timer = dev->timer;
    t->n = n;
    t->head = HEAD_FIRST;
    trial_lay_out(t, operand);
    CHECK(cuda_alloc(&dev->base, (size_t)t->sets * t->set_bytes + t->timer->cache, &t->memory));
    for (int set = 0; set < t->sets; set++)
        for (int i = 0; i < n; i++)
            if (operand[i].bytes)
                CHECK(trial_fill(t->timer, &operand[i], place_of(t, set, i)));
    *out = t;
done:
    if (st != STATUS_OK)
        op_trial_close(t);
    return st;
}

void op_trial_close(struct op_trial *t)
{
    if (!t)
        return;
    t->timer->device->trials--;
    cuda_free(&t->timer->device->base, t->workspace);
    cuda_free(&t->timer->device->base, t->memory);
    free(t);
}

/* --- executions --- */

static enum status grow_workspace(struct op_trial *t, size_t bytes)
{
    struct device *dev = &t->timer->device->base;
    if (bytes <= t->workspace_bytes)
        return STATUS_OK;
    cuda_free(dev, t->workspace);
    t->workspace = NULL;
    t->workspace_bytes = 0;
    TRY(cuda_alloc(dev, bytes, &t->workspace));
    t->workspace_bytes = bytes;
    return STATUS_OK;
}

static enum status enqueue(struct op_trial *t, const struct timed_work *work)
{
    void *operand[TIMED_OPERANDS_MAX];
    for (int i = 0; i < t->n; i++)
        operand[i] = place_of(t, t->next, i);
    t->next = (t->next + 1) % t->sets;
    return work->enqueue(work->context, operand, t->workspace, cuda_stream_of(t->timer->stream));
}

/* Runs one burst. Sets *ahead to whether the host had put the whole burst on the stream before the
 * device began to execute it. */
static enum status run_burst(struct op_trial *t, const struct timed_work *work, int n,
                             double *seconds, bool *ahead)
{
    struct op_timer *timer = t->timer;
    char *overwritten = (char *)t->memory + (size_t)t->sets * t->set_bytes;
    for (int i = 0; i < t->head; i++)
        TRY(cuda_zero(timer->stream, overwritten, timer->cache));
    TRY(cuda_event_record(timer->begin, timer->stream));
    for (int i = 0; i < n; i++)
        TRY(enqueue(t, work));
    TRY(cuda_event_record(timer->end, timer->stream));
    *ahead = cudaEventQuery(timer->begin->raw) == cudaErrorNotReady;
    cudaGetLastError(); /* clears the error, which the next launch would report again */
    TRY(cuda_event_wait(timer->end));
    *seconds = cuda_event_seconds(timer->begin, timer->end) / n;
    return *seconds >= 0 ? STATUS_OK : status_fail(STATUS_LIBRARY, "cannot measure a time");
}

/* If the device began the burst too early, runs it again, and the second time with more work before
 * it. Once may be an accident: another process took the processor from this thread. Twice means
 * that the host is slow to enqueue this work. The number belongs to the trial, because it depends
 * on the work: a network has hundreds of trials with up to 20 candidates each, and if one slow
 * operation raised the number for all of them, planning would take minutes longer. */
static enum status time_burst(struct op_trial *t, const struct timed_work *work, int n,
                              double *seconds)
{
    bool ahead, again = false;
    TRY(run_burst(t, work, n, seconds, &ahead));
    while (!ahead && t->head < HEAD_MOST) {
        t->head *= again ? 4 : 1;
        again = true;
        TRY(run_burst(t, work, n, seconds, &ahead));
    }
    return STATUS_OK;
}

enum status op_trial_run(struct op_trial *t, const struct timed_work *work)
{
    TRY(grow_workspace(t, work->workspace));
    TRY(enqueue(t, work));
    return cuda_stream_sync(t->timer->stream);
}

enum status op_trial_time(struct op_trial *t, const struct timed_work *work, double limit,
                          struct timed_seconds *time)
{
    double burst[BURSTS];
    bool ahead;
    TRY(grow_workspace(t, work->workspace));
    TRY(run_burst(t, work, 1, &burst[0], &ahead)); /* loads kernels */
    TRY(time_burst(t, work, 1, &burst[0]));
    *time = (struct timed_seconds){burst[0], burst[0]};
    if ((limit > 0 && burst[0] >= limit) || cuda_times_once(t->timer->device))
        return STATUS_OK;
    int n = burst[0] * LONGEST > BURST_SECONDS ? (int)(BURST_SECONDS / burst[0]) : LONGEST;
    if (n < 1)
        n = 1;
    for (int i = n > 1 ? 0 : 1; i < BURSTS; i++)
        TRY(time_burst(t, work, n, &burst[i]));
    time->median = stats_median(burst, BURSTS);
    return STATUS_OK;
}

bool op_trial_lives(struct op_trial *t)
{
    bool lives = cudaStreamSynchronize(cuda_stream_of(t->timer->stream)->raw) == cudaSuccess;
    cudaGetLastError(); /* clears the error, which the next launch would report again */
    return lives;
}
