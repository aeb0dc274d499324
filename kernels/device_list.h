/* Declares the backends that are linked into the program, and the list of devices that --devices
 * names. */
#pragma once

#include "kernels/backend.h"

extern const struct backend backend_cpu; /* oneDNN for convolution and linear, else own kernels */
extern const struct backend backend_ref; /* plain C, one loop per formula; the tests' reference */

enum { DEVICES_MAX = 64 };

/* "cpu:2" is two CPU devices, numbered 0 and 1, that share the processor's cores; "ref:2" likewise.
 * GPUs are chosen by number: "cuda:0,1,5"; "cuda" is GPU 0. */
struct device_list {
    const struct backend *backend;
    int n;
    bool numbered; /* the text lists device numbers: "cuda:0,1" */
    int index[DEVICES_MAX];
};

MUST_CHECK enum status device_list_parse(const char *text, struct device_list *list);
