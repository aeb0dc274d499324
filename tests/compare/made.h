/* Runs that were made, to be compared. A failure fails the test. */
#pragma once

#include "../results/scratch.h"
#include "compare/compare.h"

#include <math.h>

#define expect_near(a, b, slack) assert_true(fabs((a) - (b)) <= (slack))

enum { STEPS = 30, REPEATS = 9 };

/* A run of STEPS steps; a member that is 0 is as in the base. */
struct made {
    double slower;    /* share by which steps take longer */
    bool uneven;      /* every third repeat is that much faster instead */
    double top1;      /* less accuracy */
    const char *more; /* members of run.json's configuration, ", ..." */
    const char *device;
    const char *by;   /* what ended the run; "": nothing, it is there still */
    double joules;    /* of an image; 0: not measured */
    double decode_s;  /* of an image; 0: no files are read */
    double forward_s; /* of a step, instead of a third of it */
    double first_s;   /* when the first repeat began, the others a minute after one another; 0: not
                       * given */
    double drift;     /* so many times as long does each repeat take as the one before; 0: once */
};

struct fixture {
    char dir[SCRATCH_MAX];
    char side[2][SCRATCH_MAX + 128];
    struct compare_config config;
};

/* Makes the folder of one run, the repeat-th of its side. */
void make_run(const char *dir, const struct made *m, int repeat);

/* For cmocka: a fixture in *state. Every metric decides where the base has it. */
int set_up(void **state);
int tear_down(void **state);

/* Names the folder of a side (0: base, 1: new) inside that of the fixture. */
void set_side(struct fixture *f, int side, const char *name);

/* A folder of `n` repeats. */
void make_side(struct fixture *f, int side, const char *name, const struct made *m, int n);

/* compare_compare of the two sides. */
enum status compare(struct fixture *f, struct compare_report *report);

/* Compares REPEATS runs as in the base, and n of `m`. */
struct compare_report made(struct fixture *f, const struct made *m, int n);

/* The first cell's result of a metric; NULL: there is none. */
const struct compare_result *result(const struct compare_report *r, enum metric_id id);

/* Fails unless that is its verdict. */
void expect(const struct compare_report *r, enum metric_id id, enum compare_verdict verdict);
