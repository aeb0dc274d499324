/* Selects which cases of the table (cases.h) are run. */
#pragma once

#include "verify/cases.h"

#include <stdbool.h>

enum { SELECTION_WITHOUT_MAX = 4 };

struct selection {
    const char *kind; /* kind of operation, as op_str names it; NULL: all */
    const char *only; /* text that the case's name contains; NULL: all */
    const char *without[SELECTION_WITHOUT_MAX]; /* texts that the case's name does not contain */
    int n_without;
    int every, share;    /* number of parts of the table, and index of the part that is run; all
                          * layouts of a problem are in the same part */
    int first;           /* number of the first case; 0: all */
    int number;          /* number of a single case; -1: all */
    bool depends_on_isa; /* only cases whose CPU kernels exist in a version for each instruction
                          * set */
};

bool selection_has(const struct selection *s, int number, const struct op_case *c);
