/* Every architecture, planned at every precision on both devices, for tests that look at plans and
 * compute nothing. */
#pragma once

#include "model/program.h"
#include "net_rig.h"

/* Alignment in bytes: of the tensors of the flat buffer; of the arena's values and of its end. */
enum { PLANNED_ALIGN = 64, PLANNED_ARENA_ALIGN = 256 };

/* The order of programs in each network: training a batch, training a smaller one, evaluation. */
enum { TRAIN, TAIL, EVAL, N_PROGRAMS };

void planned_open(struct net_rig *r, const char *device, const char *arch,
                  const struct policy *policy, bool emulate);
void planned_open_fused(struct net_rig *r, const char *arch, const struct policy *policy,
                        enum fuse fuse);

/* Opens a network of the reference with one of the programs only, as programs[0]. */
void planned_open_one(struct net_rig *r, const char *arch, const struct policy *policy,
                      enum fuse fuse, int program);

/* Runs `check` on every planned network, and on those that the reference plans with everything
 * fused. */
void planned_for_all(void (*check)(const struct network *net));

/* The type whose values a tensor holds, in two bytes or as fp32 that rounds. */
static inline enum dtype held_precision(const struct tensor_desc *t)
{
    return t->type == DTYPE_F16 || t->type == DTYPE_BF16 ? t->type : t->rounds;
}

static inline bool is_value(const struct step *s, int role)
{
    return s->ref[role].space == SPACE_VALUE;
}

static inline bool in_set(uint64_t set, int role)
{
    return set >> role & 1;
}
