/* The table of cases on which a device is compared with the reference. */
#ifndef VERIFY_CASES_H
#define VERIFY_CASES_H

#include "verify/fill.h"

struct op_case {
    char name[160];
    int problem; /* cases with the same number differ in nothing but layouts */
    enum fill fill;
    struct op_desc desc;
};

struct case_list {
    struct op_case *item;
    int n, capacity, problems;
    enum status status; /* the first failure to grow; nothing is added after it */
};

/* From this size on the CPU backend is to write results past the caches: far below its own
 * threshold, so that the table has results of both kinds and none that takes long. */
enum { CASES_STREAM_BYTES = 256 << 10 };

/* Everything. The numbers of cases stay while the table is not edited. */
MUST_CHECK enum status case_list_new(struct case_list *list);
void case_list_free(struct case_list *list);

/* Adds `d`, which is plain, once per layout that suits it. For convolution and linear these are
 * ANY for all that may choose, then each known layout. Elsewhere they are each known layout for
 * all activations, then nChw16c (or plain) for what is read and ANY for what is written. */
void cases_add(struct case_list *list, const struct op_desc *d, enum fill fill);

/* Adds one case of a problem; `layouts` names them. */
void cases_add_one(struct case_list *list, int problem, const struct op_desc *d, enum fill fill,
                   const char *layouts);

/* The parts of the table. */
void cases_conv(struct case_list *list);
void cases_bn(struct case_list *list);
void cases_rest(struct case_list *list);
void cases_precision(struct case_list *list);
void cases_fused(struct case_list *list);

#endif
