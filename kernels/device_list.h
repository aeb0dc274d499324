/* What --devices names: several devices of one backend. */
#ifndef KERNELS_DEVICE_LIST_H
#define KERNELS_DEVICE_LIST_H

#include "kernels/backend.h"

enum { DEVICES_MAX = 64 };

/* "cpu:2" is two CPU devices, numbered 0 and 1, that share the processor's cores; "ref:2" likewise.
 * GPUs are there already and are chosen by number: "cuda:0,1,5"; "cuda" is the first. */
struct device_list {
    const struct backend *backend;
    int n;
    bool numbered; /* the text says which: "cuda:0,1" */
    int index[DEVICES_MAX];
};

MUST_CHECK enum status device_list_parse(const char *text, struct device_list *list);
#endif
