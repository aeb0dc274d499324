/* Runs the threads of one block as fibres. A fibre executes threads of the block one after another,
 * each to its end. If a thread waits, another fibre executes the next thread. A kernel without
 * barriers therefore needs a single fibre, and a block whose threads wait needs a fibre per thread.
 * Fibres are reused by later blocks and launches. The last thread that reaches a barrier marks the
 * fibres of the waiting threads as ready and continues. A thread that waits lets another fibre run.
 */
#include "cuda_runtime.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{

const unsigned WARP = 32, MAX_THREADS = 1024;
const size_t STACK = 64 << 10;

struct context {
    ucontext_t machine;
    jmp_buf left; /* where it was left, if it has begun */
    bool begun;
    const void *stack; /* bottom of the stack, for the address sanitizer */
    size_t size;
    void *fake_stack;
};

struct fibre {
    context where;
    unsigned number; /* index of the fibre */
    unsigned thread = 0; /* number of the thread that the fibre runs, unless it is idle */
};

/* A set of fibres. */
struct fibre_set {
    uint64_t word[MAX_THREADS / 64];

    void add(unsigned n)
    {
        word[n / 64] |= (uint64_t)1 << n % 64;
    }
    void remove(unsigned n)
    {
        word[n / 64] &= ~((uint64_t)1 << n % 64);
    }

    /* Returns the first or the last member, or -1. */
    int first() const
    {
        for (int i = 0; i < (int)(MAX_THREADS / 64); i++)
            if (word[i])
                return i * 64 + __builtin_ctzll(word[i]);
        return -1;
    }
    int last() const
    {
        for (int i = MAX_THREADS / 64 - 1; i >= 0; i--)
            if (word[i])
                return i * 64 + 63 - __builtin_clzll(word[i]);
        return -1;
    }
};

/* The number of threads that have reached a barrier. */
struct barrier {
    unsigned first, size, arrived;
};

struct block {
    void (*body)(const void *);
    const void *argument;
    unsigned threads, next, left; /* number in total; first not started; number not complete */
    unsigned waits; /* number of threads that wait for the previous kernel */
    void (*previous_done)();      /* NULL: the previous kernel was complete before the launch */
    barrier all, warp[MAX_THREADS / WARP];
    fibre *runs[MAX_THREADS]; /* the fibre of each thread that has started */
    bool backwards;           /* fibres are chosen from the end; alternates between launches */
    bool odd[MAX_THREADS];    /* whether the number of the thread's past shuffles is odd */
    alignas(8) unsigned char lane[2][MAX_THREADS][8];
};

std::vector<fibre *> fibres;
fibre_set idle, ready; /* a fibre in neither waits; the current one is in `ready` */
fibre *current;
context scheduler;
block now;

void die(const char *why)
{
    fprintf(stderr, "shim: block (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z, why);
    abort();
}

/* Switches to another fibre. The address sanitizer has to know the new stack, and intercepts
 * longjmp. Elsewhere longjmp is used, because swapcontext makes two system calls. */
void switch_to(context *from, context *to)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
    swapcontext(&from->machine, &to->machine);
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#else
    from->begun = true;
    if (_setjmp(from->left) != 0)
        return;
    if (to->begun)
        _longjmp(to->left, 1);
    setcontext(&to->machine);
#endif
}

void place_thread(unsigned thread)
{
    threadIdx = dim3(thread % blockDim.x, thread / blockDim.x % blockDim.y,
                     thread / blockDim.x / blockDim.y);
}

fibre *fibre_next();

void fibre_main()
{
#if defined(__SANITIZE_ADDRESS__)
    if (current->number == 0) /* the scheduler switches to fibre 0 only */
        __sanitizer_finish_switch_fiber(NULL, &scheduler.stack, &scheduler.size);
    else
        __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    fibre *self = current;
    for (;;) {
        while (now.next < now.threads) {
            self->thread = now.next++;
            now.runs[self->thread] = self;
            place_thread(self->thread);
            now.body(now.argument);
            now.left--;
        }
        ready.remove(self->number);
        idle.add(self->number);
        if (now.left == 0) {
            switch_to(&self->where, &scheduler);
        } else {
            current = fibre_next();
            switch_to(&self->where, &current->where);
        }
    }
}

void fibre_add()
{
    fibre *f = new fibre;
    char *stack = (char *)malloc(STACK);
    if (!stack || getcontext(&f->where.machine) != 0)
        die("no memory for a stack");
    f->number = (unsigned)fibres.size();
    f->where.stack = f->where.machine.uc_stack.ss_sp = stack;
    f->where.size = f->where.machine.uc_stack.ss_size = STACK;
    f->where.fake_stack = NULL;
    f->where.begun = false;
    makecontext(&f->where.machine, fibre_main, 0);
    fibres.push_back(f);
}

/* Returns the fibre to run next: an idle fibre if there are threads to start, else a ready fibre.
 * In one launch, the search always begins at the same end. Some threads therefore run as far ahead
 * of the other threads as barriers allow. This reveals missing barriers. */
fibre *fibre_next()
{
    bool start = now.next < now.threads;
    const fibre_set &from = start ? idle : ready;
    int n = now.backwards ? from.last() : from.first();
    if (n < 0 && !start)
        die("some threads wait at a barrier that others do not reach");
    if (n < 0) {
        n = (int)fibres.size();
        fibre_add();
    }
    idle.remove((unsigned)n);
    ready.add((unsigned)n);
    return fibres[(size_t)n];
}

void wait_at(barrier *b)
{
    fibre *self = current;
    if (++b->arrived == b->size) {
        b->arrived = 0;
        for (unsigned t = b->first; t < b->first + b->size; t++)
            ready.add(now.runs[t]->number);
        return;
    }
    ready.remove(self->number);
    current = fibre_next();
    switch_to(&self->where, &current->where);
    place_thread(self->thread);
}

void run_block()
{
    now.next = 0;
    now.left = now.threads;
    now.waits = 0;
    now.all = barrier{0, now.threads, 0};
    for (unsigned first = 0; first < now.threads; first += WARP) {
        unsigned rest = now.threads - first;
        now.warp[first / WARP] = barrier{first, rest < WARP ? rest : WARP, 0};
    }
    if (fibres.empty())
        fibre_add();
    current = fibres[0];
    idle.remove(0);
    ready.add(0);
    switch_to(&scheduler, &current->where);
    if (now.waits != now.threads)
        die("not every thread waits once for the previous kernel");
}

} // namespace

bool shim_grid_valid(dim3 grid, dim3 block)
{
    unsigned threads = block.x * block.y * block.z;
    return threads > 0 && threads <= MAX_THREADS && grid.x > 0 && grid.y > 0 && grid.z > 0 &&
           grid.y <= 65535 && grid.z <= 65535;
}

void shim_run(dim3 grid, dim3 block_dim, void (*body)(const void *), const void *context,
              bool (*enough)(), void (*previous_done)())
{
    now.body = body;
    now.previous_done = previous_done;
    now.argument = context;
    now.threads = block_dim.x * block_dim.y * block_dim.z;
    now.backwards = !now.backwards;
    gridDim = grid;
    blockDim = block_dim;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                run_block();
                if (enough && enough())
                    return;
            }
}

void cudaGridDependencySynchronize()
{
    now.waits++;
    if (now.previous_done)
        now.previous_done();
    now.previous_done = NULL;
}

void shim_sync_block()
{
    wait_at(&now.all);
}

/* Consecutive shuffles of a thread use two places in turn. The threads of a warp reach the barrier
 * of the next shuffle only after they have read the values of this shuffle. A value is therefore
 * not overwritten before it has been read. */
void shim_exchange(void *value, size_t size, unsigned lane_mask)
{
    unsigned me = current->thread;
    bool odd = now.odd[me];
    now.odd[me] = !odd;
    memcpy(now.lane[odd][me], value, size);
    wait_at(&now.warp[me / WARP]);
    memcpy(value, now.lane[odd][me ^ lane_mask], size);
}
