/* Opens networks on a device for tests, and runs them. A failure fails the test. */
#pragma once

#include "model/network.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* Fails the test with the message of the failed call. */
#define assert_ok(call) assert_ok_at((call), __FILE__, __LINE__)
void assert_ok_at(enum status st, const char *file, int line);

struct net_rig {
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct backend lazy; /* backend of the device after net_rig_open_lazy */
};

/* Opens `arch` on "cpu", "ref" or "cuda:0" with `n` programs and two threads. Parameters are zero.
 */
void net_rig_open(struct net_rig *r, const char *device, const char *arch, int classes,
                  int image_size, const struct program_config *config, int n);
void net_rig_close(struct net_rig *r);

/* Like net_rig_open, for a device that is open already, and any graph. net_rig_close closes and
 * frees them. */
void net_rig_open_on(struct net_rig *r, struct device *dev, struct graph *g,
                     const struct program_config *config, int n);
struct device *net_rig_device(const char *name);
struct graph *net_rig_graph(const char *arch, int classes, int image_size);

/* A small network with structures that no architecture has: a value with three users, an add that
 * no batch norm absorbs, a ReLU alone, a shortcut in another layout than the main path, dropout
 * before a linear layer, pooling with padding, a convolution with bias and ReLU, and grouped
 * convolutions with bias before batch norm, ReLU and pooling. */
struct graph *crossroads_graph(void);

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

/* Runs the phases up to `last` with the given state, and waits for them. */
void net_rig_run(struct program *p, const struct step_state *state, enum phase last);

/* Fails if a value of a parameter has different bits in two networks with the same graph. */
void net_rig_assert_same(const struct net_rig *a, const struct net_rig *b, enum param_value v);

/* Fails unless the norm of the difference of a parameter's values in two networks is at most
 * `tolerance` times the sum of the norm of `want` and `size`. */
void net_rig_assert_close(const struct net_rig *got, const struct net_rig *want, int i,
                          enum param_value v, double tolerance, double size);

/* The Euclidean norm of a - b, or of `a` if `b` is NULL. */
double net_rig_norm(const float *a, const float *b, int64_t n);
