/* Checks that a training step allocates no memory: in computing, loading and recording.
 *
 * This test replaces malloc by a version that counts its calls. The project's own code must not
 * call malloc. Libraries may call malloc if the blocks are small and freed again: oneDNN allocates
 * a table of arguments for each primitive that it executes. Without AVX-512, its general matrix
 * product also allocates buffers in each call, so plans for AVX2 do without. */
#include "input/loader.h"
#include "input/synth.h"
#include "kernels/cpu/onednn.h"
#include "results/record.h"
#include "tests/model/net_rig.h"
#include "tests/unit.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
    puts("skipped: the sanitizer replaces malloc itself");
    return 77;
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

/* a larger block would be a buffer instead of a table */
enum { LIBRARY_BLOCK_MAX = 1024, WARM_UP = 3, STEPS = 3, SIZE = 64 };

/* Counts in all threads, because worker and OpenMP threads are part of a step. */
static struct {
    atomic_bool armed;
    atomic_long ours, library, library_large, freed;
    const void
        *base; /* load address of this program, which distinguishes its code from libraries */
} counter;

static void count(size_t size, const void *caller)
{
    Dl_info where;
    if (!counter.armed)
        return;
    if (dladdr(caller, &where) && where.dli_fbase == counter.base) {
        counter.ours++;
    } else {
        counter.library++;
        counter.library_large += size > LIBRARY_BLOCK_MAX;
    }
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *mem);

/* Not inlined, because the return address must be that of the caller. */
#define KEPT __attribute__((noinline))

KEPT void *malloc(size_t size)
{
    count(size, __builtin_return_address(0));
    return __libc_malloc(size);
}

KEPT void *calloc(size_t n, size_t size)
{
    count(n * size, __builtin_return_address(0));
    return __libc_calloc(n, size);
}

KEPT void *realloc(void *old, size_t size)
{
    count(size, __builtin_return_address(0));
    return __libc_realloc(old, size);
}

KEPT void *aligned_alloc(size_t align, size_t size)
{
    count(size, __builtin_return_address(0));
    return __libc_memalign(align, size);
}

KEPT int posix_memalign(void **mem, size_t align, size_t size)
{
    count(size, __builtin_return_address(0));
    *mem = __libc_memalign(align, size);
    return *mem ? 0 : ENOMEM;
}

void free(void *mem)
{
    counter.freed += counter.armed && mem;
    __libc_free(mem);
}

static void arm(void)
{
    Dl_info self;
    assert_true(dladdr((void *)(uintptr_t)count, &self) != 0);
    counter.base = self.dli_fbase;
    counter.ours = counter.library = counter.library_large = counter.freed = 0;
    counter.armed = true;
}

/* Tests the counter itself. */
static void the_counter_counts(void **state)
{
    arm();
    void *volatile mem = malloc(1);
    mem = realloc(mem, 2);
    free(mem);
    mem = calloc(1, 1);
    free(mem);
    mem = aligned_alloc(64, 64);
    free(mem);
    counter.armed = false;
    assert_int_equal(counter.ours, 4);
    assert_int_equal(counter.freed, 3);
    assert_int_equal(counter.library, 0);
}

static void train(struct program *p, uint64_t step, const uint8_t *pixels, const int32_t *label)
{
    const struct step_state s = {.step = step, .lr = 0.01f, .loss_scale = 1, .grad_scale = 1};
    struct loss_metrics m;
    assert_ok(program_state(p, &s));
    assert_ok(program_input(p, pixels, label));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_ok(program_run(p, (enum phase)phase));
    assert_ok(program_wait(p));
    assert_ok(program_metrics(p, &m));
}

static const struct program_config training = {
    .batch = 2, .train = true, .momentum = 0.9f, .std = {1, 1, 1}};

static void steps_of(const char *arch)
{
    static uint8_t pixels[2 * SIZE * SIZE * 3];
    static const int32_t label[2] = {1, 2};
    struct net_rig r;
    net_rig_open_lazy(&r, "cpu", arch, 10, SIZE, &training, 1);
    net_rig_fill(&r);
    struct program *p = network_program(r.net, 0);
    for (int i = 0; i < WARM_UP; i++)
        train(p, (uint64_t)i, pixels, label);
    arm();
    for (int i = 0; i < STEPS; i++)
        train(p, (uint64_t)(WARM_UP + i), pixels, label);
    counter.armed = false;
    assert_int_equal(counter.ours, 0);
    if (onednn_vector_bits() >= 256)
        assert_int_equal(counter.library_large, 0);
    assert_int_equal(counter.library, counter.freed);
    net_rig_close(&r);
}

static void steps_of_a_residual_network(void **state)
{
    steps_of("resnet18");
}

static void steps_of_a_plain_network_with_dropout(void **state)
{
    steps_of("alexnet");
}

/* A training loop like the trainer's. */
struct loop {
    char dir[SCRATCH_MAX];
    struct net_rig rig;
    struct dataset *data;
    struct loader *loader;
    struct record *record;
    int64_t step;
};

enum { IMAGES = 12 };

static void loop_open(struct loop *l, bool dummy)
{
    char folder[SCRATCH_MAX + 16];
    scratch_make(l->dir);
    snprintf(folder, sizeof folder, "%s/data", l->dir);
    const struct synth_config synth = {
        .out = folder, .classes = 2, .train = IMAGES / 2, .val = 1, .size = 96, .workers = 1};
    if (dummy) {
        assert_ok(dataset_dummy(IMAGES, 2, &l->data));
    } else {
        assert_ok(synth_write(&synth));
        assert_ok(dataset_open(folder, "train", &l->data));
    }
    const struct loader_config config = {.data = l->data,
                                         .train = true,
                                         .image_size = SIZE,
                                         .batch = 2,
                                         .workers = 2,
                                         .prefetch = 2,
                                         .world = 1};
    assert_ok(loader_open(&config, &l->loader));
    net_rig_open(&l->rig, "cpu", "resnet8", 2, SIZE, &training, 1);
    net_rig_fill(&l->rig);
    json_t *settings = json_object();
    const struct run_info info = {.config = settings, .device = "cpu"};
    snprintf(folder, sizeof folder, "%s/run", l->dir);
    assert_ok(record_create(folder, &info, &l->record));
    json_decref(settings);
}

static void loop_close(struct loop *l)
{
    assert_ok(record_close(l->record));
    loader_close(l->loader);
    dataset_free(l->data);
    net_rig_close(&l->rig);
    scratch_remove(l->dir);
}

static void loop_epoch(struct loop *l, int64_t epoch)
{
    struct batch *b;
    assert_ok(loader_start(l->loader, epoch, 0));
    while (loader_next(l->loader, &b) == STATUS_OK && b) {
        train(network_program(l->rig.net, 0), (uint64_t)l->step, b->pixels, b->label);
        const struct step_record rec = {
            .epoch = epoch, .step = l->step++, .batch = b->index, .images = b->count};
        loader_release(l->loader, b);
        assert_ok(record_step(l->record, &rec));
    }
}

/* Runs `epochs` epochs to warm up, and then the same number of epochs again. Returns how often the
 * project's own code allocated memory in the second half. */
static long count_epochs(bool dummy, int epochs)
{
    struct loop l = {0};
    loop_open(&l, dummy);
    for (int e = 0; e < epochs; e++)
        loop_epoch(&l, e);
    arm();
    for (int e = epochs; e < 2 * epochs; e++)
        loop_epoch(&l, e);
    counter.armed = false;
    assert_int_equal(l.step, epochs * IMAGES);
    loop_close(&l);
    return counter.ours;
}

static void epochs_of_dummy_images(void **state)
{
    assert_int_equal(count_epochs(true, 3), 0);
}

/* A worker's buffers grow at each crop that is larger than all crops before. Such crops become
 * rare. */
static void epochs_of_jpegs(void **state)
{
    assert_in_range(count_epochs(false, 6), 0, 6 * IMAGES / 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(steps_of_a_residual_network),
        cmocka_unit_test(steps_of_a_plain_network_with_dropout),
        cmocka_unit_test(epochs_of_dummy_images),
        cmocka_unit_test(epochs_of_jpegs),
    };
    return cmocka_run_group_tests_name("no_allocation", tests, NULL, NULL);
}

#endif
