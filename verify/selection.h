/* Which cases of the table (cases.h) are run. */
#ifndef VERIFY_SELECTION_H
#define VERIFY_SELECTION_H

#include "verify/cases.h"

#include <stdbool.h>

enum { SELECTION_WITHOUT_MAX = 4 };

struct selection {
    const char *kind;                           /* of operations, as op_str has it; NULL: all */
    const char *only;                           /* text that the case's name contains; NULL: any */
    const char *without[SELECTION_WITHOUT_MAX]; /* text that it does not contain */
    int n_without;
    int every, share; /* the share-th (from 0) of `every` parts; a problem's layouts lie in one */
    int number;       /* of the one case; -1: all */
    bool depends_on_isa; /* cases alone whose CPU kernels exist once per instruction set */
};

bool selection_has(const struct selection *s, int number, const struct op_case *c);
#endif
