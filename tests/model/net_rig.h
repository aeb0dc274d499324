/* A network opened on a device for a test. Whatever fails here fails the test. */
#pragma once

#include "model/network.h"

/* Fails with the message of the call. */
#define assert_ok(call) assert_ok_at((call), __FILE__, __LINE__)
void assert_ok_at(enum status st, const char *file, int line);

struct net_rig {
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct backend lazy; /* the device's backend, if it is lazy */
};

/* `n` programs of `arch` on "cpu" or "ref", two threads. Parameters are zero. */
void net_rig_open(struct net_rig *r, const char *device, const char *arch, int classes,
                  int image_size, const struct program_config *config, int n);
void net_rig_close(struct net_rig *r);

/* The same with device memory that costs nothing until it is touched: for the largest networks. It
 * is out of the address sanitizer's sight. */
void net_rig_open_lazy(struct net_rig *r, const char *device, const char *arch, int classes,
                       int image_size, const struct program_config *config, int n);

/* Weights and statistics of model/oracle_fill.h. */
void net_rig_fill(struct net_rig *r);

/* A parameter's value in plain order; the caller frees. */
float *net_rig_get(const struct net_rig *r, enum param_value v, int i);

/* Puts batch `step` of model/oracle_fill.h in place, for a program with float_input. */
void net_rig_input(struct net_rig *r, struct program *p, int step);
