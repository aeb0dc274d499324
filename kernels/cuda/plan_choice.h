/* What is remembered of an operation: the plan that was the fastest (an engine of the library and
 * the settings of its knobs), that there is none, or how long the operation takes. */
#ifndef KERNELS_CUDA_PLAN_CHOICE_H
#define KERNELS_CUDA_PLAN_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_KNOBS_MAX = 32 };

struct plan_knob {
    int64_t type; /* cudnnBackendKnobType_t */
    int64_t value;
};

enum plan_fact {
    PLAN_CHOSEN,  /* a problem's plan: all members of struct plan_choice */
    PLAN_LACKING, /* the library has no plan for the problem: no other member, all are 0 */
    PLAN_TIMED,   /* an operation's time: `nanoseconds`, above 0; the others are 0 */
};

struct plan_choice {
    enum plan_fact fact;
    int64_t engine;      /* the library's number of it among those for the graph's pattern */
    int64_t nanoseconds; /* that an execution took when it was timed */
    int n_knobs;
    struct plan_knob knob[PLAN_KNOBS_MAX];
};

/* The same plan, however long it took. */
static inline bool plan_choice_same(const struct plan_choice *a, const struct plan_choice *b)
{
    bool same = a->fact == b->fact && a->engine == b->engine && a->n_knobs == b->n_knobs;
    for (int i = 0; same && i < a->n_knobs; i++)
        same = a->knob[i].type == b->knob[i].type && a->knob[i].value == b->knob[i].value;
    return same;
}

#endif
