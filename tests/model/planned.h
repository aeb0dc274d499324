/* Every architecture, planned in every precision on both devices, for tests that check plans
 * without computing. */
#pragma once

#include "model/program.h"
#include "net_rig.h"

/* PLANNED_ALIGN: alignment of tensors in the flat buffer, in bytes. PLANNED_ARENA_ALIGN: alignment
 * of values in the arena, and of the arena's end. */
enum { PLANNED_ALIGN = 64, PLANNED_ARENA_ALIGN = 256 };

/* Indices of a network's programs: training, training on a smaller batch, evaluation. */
enum { TRAIN, TAIL, EVAL, N_PROGRAMS };

void planned_open(struct net_rig *r, const char *device, const char *arch,
                  const struct policy *policy, bool emulate);
void planned_open_fused(struct net_rig *r, const char *arch, const struct policy *policy,
                        enum fuse fuse);

/* Opens a network on the reference with a single program: `program` is TRAIN, TAIL or EVAL. It
 * becomes program 0 of the network. */
void planned_open_one(struct net_rig *r, const char *arch, const struct policy *policy,
                      enum fuse fuse, int program);

/* Calls `check` on every planned network, also on those that the reference plans with full fusion.
 */
void planned_for_all(void (*check)(const struct network *net));

/* The type to which a tensor's values are rounded, whether they are stored in two bytes or as fp32.
 */
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
