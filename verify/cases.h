/* The table of cases on which a device is compared with the reference. */
#pragma once

#include "verify/fill.h"

struct op_case {
    char name[160];
    int problem; /* cases with the same number differ only in their layouts */
    enum fill fill;
    struct op_desc desc;
};

struct case_list {
    struct op_case *item;
    int n, problems;
    enum status status; /* the first failed allocation; nothing is added after it */
};

/* In these cases the CPU backend uses non-temporal stores for results of at least this many bytes.
 * The backend's usual threshold is far higher; with CASES_STREAM_BYTES, small cases cover both
 * kinds of stores. */
enum { CASES_STREAM_BYTES = 256 << 10 };

/* Makes the whole table. Case numbers do not change unless the table is edited. */
MUST_CHECK enum status case_list_new(struct case_list *list);
void case_list_free(struct case_list *list);

/* Adds `d`, whose layouts are plain, once for each choice of layouts that fits it. For convolution
 * and linear: ANY for all tensors; then each known layout for activations, with ANY for weights.
 * For other operations: each known layout for all activations; then nChw16c (or plain) for inputs
 * and ANY for outputs. */
void cases_add(struct case_list *list, struct op_desc d, enum fill fill);

/* Adds one case of a problem; `layouts` is the part of the case's name that names the layouts. */
void cases_add_one(struct case_list *list, int problem, struct op_desc d, enum fill fill,
                   const char *layouts);

/* Each function adds a part of the table. */
void cases_conv(struct case_list *list);
void cases_bn(struct case_list *list);
void cases_rest(struct case_list *list);
void cases_precision(struct case_list *list);
void cases_fused(struct case_list *list);
