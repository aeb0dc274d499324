/* Makes and compares records of runs, for tests. If a function fails, the test fails. */
#pragma once

#include "../results/run_rig.h"
#include "compare/compare.h"

#include <math.h>

#define expect_near(a, b, slack) assert_true(fabs((a) - (b)) <= (slack))

enum { STEPS = 30, REPEATS = 9 };

/* A run of STEPS steps. If a member is 0, this property of the run is the same as in the base. */
struct made {
    double slower;    /* fraction by which steps take longer than in the base */
    bool uneven;      /* every third repeat is faster by the fraction above, instead of slower */
    double top1;      /* number by which the accuracy is lower than in the base */
    const char *more; /* further members of run.json's configuration, each after a comma */
    const char *device;
    const char *by;   /* the reason for the end of the run; "": the run has not ended */
    double joules;    /* per image; 0: not measured */
    double decode_s;  /* per image; 0: no files are read */
    double forward_s; /* seconds of the forward pass of a step; 0: a third of the step */
    double first_s;   /* start time of the first repeat; 0: not recorded. Each repeat starts a
                         minute after the previous repeat. */
    double stall_s;   /* seconds that every tenth step waits for data */
    bool paused;      /* signals stopped and continued the run */
    double drift;     /* factor between the durations of successive repeats; 0: no drift */
};

struct fixture {
    char dir[SCRATCH_MAX];
    char side[2][SCRATCH_MAX + 128];
    struct compare_config config;
    struct compare_report report; /* of the last comparison */
};

/* Makes the folder of one run, which is number `repeat` of its side. */
void make_run(const char *dir, const struct made *m, int repeat);

/* For cmocka: a fixture in *state. Every metric that the base has is gating. */
int set_up(void **state);
int tear_down(void **state);

/* Sets the folder of a side (0: base, 1: new) to the folder `name` inside the fixture's folder. */
void set_side(struct fixture *f, int side, const char *name);

/* Makes a folder of `n` repeats. */
void make_side(struct fixture *f, int side, const char *name, const struct made *m, int n);

/* Compares the two sides with compare_compare. */
enum status compare(struct fixture *f);

/* Compares REPEATS base runs with n runs of `m`, and returns the report. */
const struct compare_report *made(struct fixture *f, const struct made *m, int n);

/* The first cell's result of a metric; NULL: there is none. */
const struct compare_result *result(const struct compare_report *r, enum metric_id id);

/* Fails unless the metric has the given verdict. */
void expect(const struct compare_report *r, enum metric_id id, enum compare_verdict verdict);
