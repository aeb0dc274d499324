/* The data of one network that data parallel training reads and writes.
 *
 * Replicas on devices of the same kind, planned with the same programs, keep their parameters at
 * the same offsets and in the same layouts (network_layout_hash checks that). Their flat buffers
 * can therefore be broadcast, summed and compared as a whole, without handling single
 * parameters. */
#pragma once

#include "model/network.h"

/* The buffer of all running statistics: fp32 in device memory, padded with zeros, owned by
 * `net`. */
void *network_buffers(struct network *net, size_t *bytes);

/* Flips one bit of value `v` of parameter i, as a memory fault would: bit (bit % 32) of element
 * (bit / 32) in the order of the shape. If elements have 16 bits, flips bit (bit % 16) of the same
 * element. Synchronous. For tests of the checks that detect such faults. */
MUST_CHECK enum status network_flip(struct network *net, enum param_value v, int i, int64_t bit);

/* Call this after writing weights through network_flat. Before the next phase the network then
 * refreshes the copies of the weights that the passes read. Do not call it between the phases of
 * one step. */
void network_touched(struct network *net);

/* A hash over every parameter's name, offset, type and layout. Two networks with the same hash keep
 * the same parameter at each offset of their flat buffers and statistics. For an opaque layout,
 * which only the device's library knows, the hash covers the position of each element. Synchronous;
 * for set-up. */
MUST_CHECK enum status network_layout_hash(struct network *net, uint64_t *hash);

/* The tensors between a program and its loss: the logits that the forward phase writes (batch,
 * classes), and their gradient, from which the backward phase starts. A caller that computes the
 * loss elsewhere reads the logits and writes the gradient instead of running PHASE_LOSS. A program
 * that does not train has no gradient: grad.ndim is 0 and grad_at is NULL. */
struct program_loss_ends {
    struct tensor_desc logits, grad;
    void *logits_at, *grad_at; /* device memory */
};
struct program_loss_ends program_loss_ends(struct program *p);

/* Rounds elements [begin, end) of the flat gradient buffer, in place, to the types that the policy
 * gives the gradients. A device with native support of these types would store the same values.
 * Plan once per range. The thread that runs the programs executes the rounding in each step. */
struct rounding;
MUST_CHECK enum status network_plan_rounding(struct network *net, int64_t begin, int64_t end,
                                             struct rounding **r);
MUST_CHECK enum status rounding_execute(struct rounding *r);
void rounding_free(struct rounding *r); /* does nothing for NULL; call it before the network is
                                         * closed */
