/* The scheduler of the shim: the threads of one block as fibres.
 *
 * A fibre takes threads of the block one after another and runs each to its end; only when a thread
 * waits does another fibre take the next. So kernels without barriers need a single fibre, and as
 * many fibres exist as the largest block of threads that waited. They are kept for the next
 * launch. */
#include "cuda_runtime.h"

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

enum state { IDLE, READY, AT_BLOCK, AT_WARP };

struct context {
    ucontext_t machine;
    const void *stack; /* bottom and size, for the address sanitizer */
    size_t size;
    void *fake_stack;
};

struct fibre {
    context where;
    state at = IDLE;
    unsigned thread = 0; /* that it runs, while it is not idle */
};

struct block {
    void (*body)(const void *);
    const void *argument;
    unsigned threads, next, left; /* in all, the next to be started, not yet ended */
    alignas(8) unsigned char lane[MAX_THREADS][8];
};

std::vector<fibre *> fibres;
fibre *current;
context scheduler;
block now;

void die(const char *why)
{
    fprintf(stderr, "shim: block (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z, why);
    abort();
}

/* The address sanitizer must be told which stack is in use. */
void switch_to(context *from, context *to)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
#endif
    swapcontext(&from->machine, &to->machine);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void place_thread(unsigned thread)
{
    threadIdx = dim3(thread % blockDim.x, thread / blockDim.x % blockDim.y,
                     thread / blockDim.x / blockDim.y);
}

void fibre_main()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, &scheduler.stack, &scheduler.size);
#endif
    fibre *self = current;
    for (;;) {
        while (now.next < now.threads) {
            self->thread = now.next++;
            place_thread(self->thread);
            now.body(now.argument);
            now.left--;
        }
        self->at = IDLE;
        switch_to(&self->where, &scheduler);
    }
}

void fibre_add()
{
    fibre *f = new fibre;
    char *stack = (char *)malloc(STACK);
    if (!stack || getcontext(&f->where.machine) != 0)
        die("no memory for a stack");
    f->where.stack = f->where.machine.uc_stack.ss_sp = stack;
    f->where.size = f->where.machine.uc_stack.ss_size = STACK;
    f->where.fake_stack = NULL;
    makecontext(&f->where.machine, fibre_main, 0);
    fibres.push_back(f);
}

void fibre_run(fibre *f)
{
    current = f;
    if (f->at == READY)
        place_thread(f->thread);
    f->at = READY;
    switch_to(&scheduler, &f->where);
}

/* Threads of the block, or of warp `warp`, that wait in the given state. */
unsigned waiting(state at, unsigned warp, bool all)
{
    unsigned n = 0;
    for (fibre *f : fibres)
        n += f->at == at && (all || f->thread / WARP == warp);
    return n;
}

void release(state at, unsigned warp, bool all)
{
    for (fibre *f : fibres)
        if (f->at == at && (all || f->thread / WARP == warp))
            f->at = READY;
}

/* Lets those go on who wait for nobody any more. */
void release_some()
{
    bool released = waiting(AT_BLOCK, 0, true) == now.threads;
    if (released)
        release(AT_BLOCK, 0, true);
    for (unsigned warp = 0; warp * WARP < now.threads; warp++) {
        unsigned rest = now.threads - warp * WARP, size = rest < WARP ? rest : WARP;
        if (waiting(AT_WARP, warp, false) == size) {
            release(AT_WARP, warp, false);
            released = true;
        }
    }
    if (!released)
        die("some threads wait at a barrier that others do not reach");
}

void run_block()
{
    now.next = 0;
    now.left = now.threads;
    while (now.left > 0) {
        bool ran = false;
        for (fibre *f : fibres)
            if (f->at == READY) {
                fibre_run(f);
                ran = true;
            }
        for (size_t i = 0; now.next < now.threads; i++) {
            if (i == fibres.size())
                fibre_add();
            if (fibres[i]->at == IDLE)
                fibre_run(fibres[i]);
            ran = true;
        }
        if (!ran)
            release_some();
    }
}

void wait_as(state at)
{
    fibre *self = current;
    self->at = at;
    switch_to(&self->where, &scheduler);
}

} // namespace

cudaError_t shim_launch(dim3 grid, dim3 block_dim, void (*body)(const void *), const void *context)
{
    unsigned threads = block_dim.x * block_dim.y * block_dim.z;
    if (threads == 0 || threads > MAX_THREADS || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
        grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    now.body = body;
    now.argument = context;
    now.threads = threads;
    gridDim = grid;
    blockDim = block_dim;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                run_block();
            }
    return cudaSuccess;
}

void shim_sync_block()
{
    wait_as(AT_BLOCK);
}

void shim_sync_warp()
{
    wait_as(AT_WARP);
}

void *shim_lane(unsigned lane)
{
    return now.lane[current->thread / WARP * WARP + lane];
}

unsigned shim_lane_id()
{
    return current->thread % WARP;
}
