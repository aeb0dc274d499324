/* A network among others of its kind: what data parallel training reads and writes of one.
 *
 * Replicas on devices of the same kind, planned with the same programs, keep their parameters at
 * the same places and in the same layouts (network_layout_hash says whether they do). Their flat
 * buffers can therefore be broadcast, summed and compared as they are, without looking at a single
 * parameter. */
#ifndef MODEL_EXCHANGE_H
#define MODEL_EXCHANGE_H

#include "model/network.h"

/* The flat buffer of all trained parameters, in device memory: fp32 elements in the order in which
 * the backward pass completes gradients, zero where parameters are padded. *bytes is its size.
 * NULL, and 0 bytes, for gradients and momentum of a network that does not train. */
void *network_flat(struct network *net, enum param_value v, size_t *bytes);

/* The running statistics, all of them in one buffer of fp32, padded with zeros; in device memory.
 */
void *network_buffers(struct network *net, size_t *bytes);

/* Where the value of parameter i (an index of graph->param) lies within those buffers, as the
 * device keeps it, and its size; NULL and 0 where it has no such value. */
void *network_place(struct network *net, enum param_value v, int i, size_t *bytes);

/* Flips one bit of it, as a fault of memory would: bit % 32 of its element bit / 32 in plain order.
 * Synchronous; for tests of what notices. */
MUST_CHECK enum status network_flip(struct network *net, enum param_value v, int i, int64_t bit);

/* To be called after weights were written through network_flat: what the passes read is made from
 * them again before the next phase that runs. Not between the phases of one step. */
void network_touched(struct network *net);

/* A hash over every parameter's name, place, type and layout. Two networks with the same hash have
 * the same value at each place of their flat buffers and of their statistics. A layout that only
 * the device's library understands counts as where it puts each element. Synchronous; for set-up.
 */
MUST_CHECK enum status network_layout_hash(struct network *net, uint64_t *hash);

/* Where the loss touches a program: the logits that the forward phase leaves (batch, classes), and
 * the gradient with respect to them that the backward phase starts from. Whoever computes the loss
 * elsewhere reads the one and writes the other in place of running PHASE_LOSS. A program that
 * does not train has no gradient: its description has ndim 0, its place is NULL. */
struct program_loss_ends {
    struct tensor_desc logits, grad;
    void *logits_at, *grad_at; /* device memory */
};
struct program_loss_ends program_loss_ends(struct program *p);

/* Rounds the elements [begin, end) of the flat gradient buffer in place to the types that the
 * policy gives the gradients there: what a device of narrow types would have stored and sent.
 * Planned once per range, executed in each step by the thread that runs the programs. */
struct rounding;
MUST_CHECK enum status network_plan_rounding(struct network *net, int64_t begin, int64_t end,
                                             struct rounding **r);
MUST_CHECK enum status rounding_execute(struct rounding *r);
void rounding_free(struct rounding *r); /* NULL is fine; before the network is closed */
#endif
