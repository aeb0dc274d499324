/* Runs training in tests, and compares the resulting files. */
#include "scene.h"

#include "input/loader.h"
#include "runners/settings.h"
#include "values.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* The real backend_find, which does not know the backends of tests. */
enum status __real_backend_find(const char *name, const struct backend **b);
enum status __wrap_backend_find(const char *name, const struct backend **b);

struct stream_backend scene_streams;
unsigned scene_blank;

enum status __wrap_backend_find(const char *name, const struct backend **b)
{
    if (strcmp(name, "stream") != 0)
        return __real_backend_find(name, b);
    *b = &scene_streams.base;
    return STATUS_OK;
}

/* Each batch comes late, so that an asynchronous device computes while the host waits for it. */
enum status __real_loader_next(struct loader *l, struct batch **b);
enum status __wrap_loader_next(struct loader *l, struct batch **b);

enum status __wrap_loader_next(struct loader *l, struct batch **b)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    enum status st = __real_loader_next(l, b);
    if (st != STATUS_OK || !*b || (*b)->index >= 32 || (scene_blank >> (*b)->index & 1) == 0)
        return st;
    (*b)->stats.bad = (*b)->count;
    for (int i = 0; i < (*b)->count; i++)
        (*b)->label[i] = -1;
    return STATUS_OK;
}

/* --- runs --- */

static ssize_t output_write(void *cookie, const char *text, size_t n)
{
    struct output *o = cookie;
    size_t room = sizeof o->text - 1 - o->length;
    size_t kept = n < room ? n : room;
    memcpy(o->text + o->length, text, kept);
    o->length += kept;
    if (o->stop_at && strstr(o->text, o->stop_at)) {
        o->stop_at = NULL;
        raise(SIGTERM);
    }
    return (ssize_t)n;
}

struct train_config scene_config(void)
{
    struct train_config c = train_config_default();
    c.arch = "resnet8";
    c.dummy = true;
    c.dummy_train = 14; /* batches of 4, 4, 4 and 2 */
    c.dummy_val = 5;
    c.classes = 5;
    c.image_size = 8;
    c.batch = 4;
    c.epochs = 2;
    c.workers = 2;
    c.lr = 0.05;
    c.print_freq = 1;
    c.precision = "fp32";
    c.devices = "";
    c.scaler.interval = 3;
    return c;
}

void scene_run(struct scene *s, const struct train_config *config, const char *device,
               enum status want)
{
    char devices[32];
    char dir[SCRATCH_MAX + 32], argument[] = "ampscale";
    char *const argv[] = {argument, NULL};
    struct train_config c = *config;
    const cookie_io_functions_t io = {.write = output_write};
    FILE *out = fopencookie(&s->output, "w", io);
    assert_non_null(out);
    setvbuf(out, NULL, _IOLBF, 4096);
    snprintf(dir, sizeof dir, "%s/run", s->dir);
    snprintf(devices, sizeof devices, "%s%s", device, config->devices);
    c.devices = devices;
    c.out = dir;
    enum status st = trainer_run(&c, 1, argv, out);
    snprintf(s->message, sizeof s->message, "%s", st == STATUS_OK ? "" : status_message());
    fclose(out);
    if (st != want)
        print_error("%s\n", s->message);
    assert_int_equal(st, want);
}

/* --- files of a run --- */

struct run *scene_load(const struct scene *s)
{
    struct run *r;
    char dir[SCRATCH_MAX + 32];
    snprintf(dir, sizeof dir, "%s/run", s->dir);
    assert_int_equal(run_load(dir, &r), STATUS_OK);
    return r;
}

/* The times of the parts of a step add up to at most the time of the step. */
static void times_make_sense(const struct run *r)
{
    for (int64_t i = 0; i < r->n_steps; i++) {
        const struct step_record *s = &r->step[i];
        double parts = s->h2d_s + s->forward_s + s->backward_s + s->comm_s + s->optimizer_s;
        assert_true(s->h2d_s > 0 && s->forward_s > 0 && s->backward_s > 0 && s->optimizer_s > 0);
        assert_true(s->data_s >= 0 && s->total_s > 0);
        assert_true(parts + s->data_s <= s->total_s * 1.001 + 1e-6);
    }
}

/* Returns the text of a run's values; the caller frees it. */
static char *values_of(const struct run *r)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    values_print(r, out);
    fclose(out);
    return text;
}

void scene_same_records(const struct scene *a, const struct scene *b)
{
    struct run *x = scene_load(a), *y = scene_load(b);
    char *want = values_of(x), *got = values_of(y);
    assert_string_equal(got, want);
    times_make_sense(y);
    free(want);
    free(got);
    run_free(x);
    run_free(y);
}

void scene_same_file(const struct scene *a, const struct scene *b, const char *name)
{
    size_t n, m;
    char path[64];
    snprintf(path, sizeof path, "run/%s", name);
    char *x = scratch_read(a->dir, path, &n), *y = scratch_read(b->dir, path, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

void scene_same_run(const struct scene *a, const struct scene *b)
{
    scene_same_records(a, b);
    scene_same_file(a, b, CHECKPOINT_NAME);
    scene_same_file(a, b, BEST_NAME);
}

struct scene *scene_open(void)
{
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    scratch_make(s->dir);
    return s;
}

void scene_close(struct scene *s)
{
    scratch_remove(s->dir);
    free(s);
}
