/* The ranks of an MPI job that retests nodes:
 *     pair_ranks SUSPECT [RANK RANK]
 * The link of the two ranks is slow. The limits are wide and the fault large, because ranks that
 * share cores are slow at times. Rank 0 prints the findings. */
#include "accept/pair.h"
#include "comm/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS_MAX = 16, DELAY_NS = 400000000 };

/* A communicator that uses `inner`, but delays data between two ranks, as a slow link would. */
struct slow {
    struct comm base;
    struct comm *inner;
    int a, b;  /* the link's two ranks in the whole communicator; -1: no link is slow */
    int place; /* the rank of this process in the whole communicator */
    bool now;  /* the current communicator contains only the ranks a and b */
    struct comm_op op[COMM_MAX_STARTED];
};

static struct comm_op *op_of(struct slow *s, const struct comm_slot *slot)
{
    return &s->op[slot->op.handle % COMM_MAX_STARTED];
}

static enum status slow_start(struct comm *c, struct comm_slot *slot)
{
    struct slow *s = (struct slow *)c;
    struct comm_op *op = op_of(s, slot);
    const struct timespec delay = {.tv_nsec = DELAY_NS};
    if (s->now && slot->op.count > 2) /* delays only the long operations */
        nanosleep(&delay, NULL);
    *op = slot->op;
    op->handle = 0;
    return comm_start(s->inner, op);
}

static enum status slow_wait(struct comm *c, struct comm_slot *slot)
{
    struct slow *s = (struct slow *)c;
    struct comm_op *op = op_of(s, slot);
    TRY(comm_wait(s->inner, op));
    slot->op.ended_ns = op->ended_ns;
    return STATUS_OK;
}

static enum status slow_divide(struct comm *c, int group)
{
    struct slow *s = (struct slow *)c;
    int32_t member[RANKS_MAX], own = s->place;
    struct comm_op gather = {
        .kind = COMM_ALLGATHER, .type = DTYPE_I32, .send = &own, .recv = member, .count = 1};
    TRY(comm_divide(s->inner, group));
    c->rank = comm_rank(s->inner);
    c->size = comm_size(s->inner);
    TRY(comm_run(s->inner, &gather));
    s->now = c->size == 2 && member[0] == s->a && member[1] == s->b;
    return STATUS_OK;
}

static const struct comm_calls slow_calls = {
    .name = "slow",
    .start = slow_start,
    .wait = slow_wait,
    .divide = slow_divide,
};

static enum status retest(struct comm *comm, int suspect, int *code)
{
    static const char *const names[RANKS_MAX] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    bool bad[RANKS_MAX] = {false};
    struct pair_result r;
    bad[suspect] = true;
    const struct pair_config c = {.suspect = bad,
                                  .name = names,
                                  .partners = 2,
                                  .seed = 1,
                                  .within = 0.9,
                                  .latency_within = 1000,
                                  .bytes = 4 << 20,
                                  .samples = 5,
                                  .step = {.net = "resnet18",
                                           .batch = 2,
                                           .image_size = 32,
                                           .rounds = 1,
                                           .devices = "cpu",
                                           .threads = 1},
                                  .progress = comm_rank(comm) == 0 ? stdout : NULL};
    TRY(pair_run(&c, comm, &r));
    if (comm_rank(comm) == 0) {
        printf("%d findings\n", r.n);
        pair_print(&c, &r, stdout);
    }
    *code = pair_exit_code(r.finding, r.n);
    pair_result_free(&r);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const struct comm_mpi_config config = {.timeout_s = 60};
    struct slow s = {.base = {.calls = &slow_calls}, .a = -1, .b = -1};
    int code = 1;
    if (argc < 2 || comm_open_mpi(&config, &s.inner) != STATUS_OK)
        return 2;
    s.place = s.base.rank = comm_rank(s.inner);
    s.base.size = comm_size(s.inner);
    if (argc == 4) {
        s.a = atoi(argv[2]);
        s.b = atoi(argv[3]);
    }
    if (retest(&s.base, atoi(argv[1]), &code) != STATUS_OK)
        comm_fail(s.inner, STATUS_LIBRARY, status_message());
    comm_close(s.inner);
    return s.place == 0 ? code : 0;
}
