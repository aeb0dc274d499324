/* Small networks for tests of the functions that data parallel training uses. A failure fails the
 * test. */
#pragma once

#include "model/program.h"
#include "net_rig.h"

enum { CLASSES = 10, SIZE = 16, BATCH = 4 };

static const struct step_state plain_state = {.lr = 0.1f, .loss_scale = 1, .grad_scale = 1};

/* A training program in the given precision. */
struct program_config training(const char *precision);

/* A network without batch norm: batch statistics would depend on how a batch is split. */
struct graph *draw_plain_graph(void);

/* Opens a network with one program. The network has the architecture `arch`, or the plain graph if
 * `arch` is NULL. */
void open_rig(struct net_rig *r, const char *device, const char *arch,
              const struct program_config *config);

/* Runs all phases up to the given one. */
void run_until(struct program *p, enum phase last);

/* Copies device memory, and waits until the copy is complete. */
void device_copy(const struct net_rig *from, void *to, const void *at, size_t bytes);

uint64_t layout_hash(const struct net_rig *r);

/* Checks that the Euclidean norm of got - want is at most `tolerance` times the norm of want. */
void assert_close(const float *got, const float *want, int64_t n, double tolerance);
