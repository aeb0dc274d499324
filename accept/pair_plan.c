/* Plans which ranks are paired in which round. */
#include "accept/pair.h"
#include "base/array.h"
#include "base/rng.h"

#include <stdlib.h>

/* The good ranks, shuffled, and the suspect ranks, ascending. */
struct deal {
    int n_good, n_bad;
    int *good, *bad;
};

static void shuffle(int *v, int n, struct rng *rng)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)rng_below(rng, (uint32_t)i + 1), held = v[i];
        v[i] = v[k];
        v[k] = held;
    }
}

static enum status deal_out(const bool *suspect, int ranks, uint64_t seed, struct deal *d)
{
    struct rng rng = rng_at(seed, RNG_SHUFFLE, 0, 0);
    TRY(array_new(&d->good, ranks));
    TRY(array_new(&d->bad, ranks));
    for (int r = 0; r < ranks; r++) {
        if (suspect[r])
            d->bad[d->n_bad++] = r;
        else
            d->good[d->n_good++] = r;
    }
    shuffle(d->good, d->n_good, &rng);
    if (d->n_bad == 0)
        return status_fail(STATUS_DATA, "no rank has failed: there is nothing to retest");
    if (d->n_good == 0)
        return status_fail(
            STATUS_DATA, "all %d ranks have failed: no good rank is left to pair them with", ranks);
    return STATUS_OK;
}

static void meet(struct pair_plan *p, bool reference, int a, int b)
{
    p->meeting[p->n++] =
        (struct pair_meeting){.round = p->rounds, .reference = reference, .a = a, .b = b};
}

static void meet_references(struct pair_plan *p, const struct deal *d)
{
    int pairs = d->n_good / 2 < PAIR_REFERENCES_MAX ? d->n_good / 2 : PAIR_REFERENCES_MAX;
    for (int i = 0; i < pairs; i++)
        meet(p, true, d->good[2 * i], d->good[2 * i + 1]);
    p->rounds += pairs > 0;
}

/* Handles the suspects in groups of up to n_good. In each round, every suspect of a group is paired
 * with a different good rank. Each suspect has `partners` rounds. */
static void meet_suspects(struct pair_plan *p, const struct deal *d, int partners)
{
    for (int first = 0; first < d->n_bad; first += d->n_good) {
        int many = d->n_bad - first < d->n_good ? d->n_bad - first : d->n_good;
        for (int turn = 0; turn < partners; turn++, p->rounds++)
            for (int i = 0; i < many; i++)
                meet(p, false, d->bad[first + i], d->good[(i + turn) % d->n_good]);
    }
}

enum status pair_plan_make(const bool *suspect, int ranks, int partners, uint64_t seed,
                           struct pair_plan *plan)
{
    struct deal d = {0};
    enum status st;
    *plan = (struct pair_plan){.ranks = ranks};
    if (ranks < 1 || partners < 1)
        return status_fail(STATUS_INVALID,
                           "cannot pair each suspect with %d partners among %d ranks", partners,
                           ranks);
    CHECK(deal_out(suspect, ranks, seed, &d));
    if (partners > d.n_good)
        partners = d.n_good;
    size_t most = (size_t)d.n_bad * (size_t)partners + PAIR_REFERENCES_MAX;
    CHECK(array_new(&plan->meeting, most));
    meet_references(plan, &d);
    meet_suspects(plan, &d, partners);
done:
    free(d.good);
    free(d.bad);
    return st;
}

void pair_plan_free(struct pair_plan *plan)
{
    free(plan->meeting);
    *plan = (struct pair_plan){0};
}

int pair_plan_meeting(const struct pair_plan *plan, int round, int rank)
{
    for (int i = 0; i < plan->n; i++) {
        const struct pair_meeting *m = &plan->meeting[i];
        if (m->round == round && (m->a == rank || m->b == rank))
            return i;
    }
    return -1;
}
