/* Opens a network on a device for a test. A failure fails the test. */
#pragma once

#include "model/network.h"

/* Fails the test with the message of the failed call. */
#define assert_ok(call) assert_ok_at((call), __FILE__, __LINE__)
void assert_ok_at(enum status st, const char *file, int line);

struct net_rig {
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct backend lazy; /* backend of the device after net_rig_open_lazy */
};

/* Opens `arch` on "cpu" or "ref" with `n` programs and two threads. Parameters are zero. */
void net_rig_open(struct net_rig *r, const char *device, const char *arch, int classes,
                  int image_size, const struct program_config *config, int n);
void net_rig_close(struct net_rig *r);

/* Like net_rig_open, for the largest networks: device memory takes no space until it is written or
 * read. The address sanitizer does not check this memory. */
void net_rig_open_lazy(struct net_rig *r, const char *device, const char *arch, int classes,
                       int image_size, const struct program_config *config, int n);

/* Sets weights and statistics by model/oracle_fill.h. */
void net_rig_fill(struct net_rig *r);

/* Returns a parameter's value in plain order; the caller frees it. */
float *net_rig_get(const struct net_rig *r, enum param_value v, int i);

/* Writes batch `step` of model/oracle_fill.h to the input of a program with float_input. */
void net_rig_input(struct net_rig *r, struct program *p, int step);
