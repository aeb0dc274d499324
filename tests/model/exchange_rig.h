/* Small networks for tests of what data parallel training needs of them. Whatever fails here fails
 * the test. */
#pragma once

#include "model/program.h"
#include "net_rig.h"

enum { CLASSES = 10, SIZE = 16, BATCH = 4 };

static const struct step_state plain_state = {.lr = 0.1f, .loss_scale = 1, .grad_scale = 1};

/* A training program at that precision. */
struct program_config training(const char *precision);

/* Without batch norm, whose statistics depend on how a batch is split. */
struct graph *draw_plain_graph(void);

/* One program of the network `arch`; of the plain graph where `arch` is NULL. */
void open_rig(struct net_rig *r, const char *device, const char *arch,
              const struct program_config *config);

/* Runs all phases from the first to that one. */
void run_until(struct program *p, enum phase last);

/* Copies device memory, and waits for it. */
void device_copy(const struct net_rig *from, void *to, const void *at, size_t bytes);

uint64_t layout_hash(const struct net_rig *r);

/* Checks that the Euclidean norm of got - want is at most `tolerance` times that of want. */
void assert_close(const float *got, const float *want, int64_t n, double tolerance);
