/* What a plan is made of: an engine of the library and the settings of its knobs. */
#ifndef KERNELS_CUDA_PLAN_CHOICE_H
#define KERNELS_CUDA_PLAN_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_KNOBS_MAX = 32 };

struct plan_knob {
    int64_t type; /* cudnnBackendKnobType_t */
    int64_t value;
};

struct plan_choice {
    int64_t engine;      /* the library's number of it among those for the graph's pattern */
    int64_t nanoseconds; /* that an execution took when it was timed */
    int n_knobs;
    struct plan_knob knob[PLAN_KNOBS_MAX];
};

/* The same plan, however long it took. */
static inline bool plan_choice_same(const struct plan_choice *a, const struct plan_choice *b)
{
    bool same = a->engine == b->engine && a->n_knobs == b->n_knobs;
    for (int i = 0; same && i < a->n_knobs; i++)
        same = a->knob[i].type == b->knob[i].type && a->knob[i].value == b->knob[i].value;
    return same;
}

#endif
