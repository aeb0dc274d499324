/* Lists the rows and orders the turns of bench throughput. */
#include "bench/throughput_plan.h"

#include "base/array.h"

#include <stdlib.h>

/* Number of slots of a key in addition to its combinations. */
enum { SLOTS_MORE = THROUGHPUT_WHO_COUNT - 1 };

static void add_slot(struct throughput_plan *p, int key, enum throughput_who who, int combination)
{
    p->slot[p->n_slots++] = (struct throughput_slot){key, who, combination};
}

static void add_slots(const struct throughput_shape *s, int key, struct throughput_plan *p)
{
    for (int c = 0; c < s->combinations; c++)
        add_slot(p, key, THROUGHPUT_OURS, c);
    if (s->files && key == 0)
        add_slot(p, key, THROUGHPUT_FILES, 0);
    if (s->peer)
        add_slot(p, key, THROUGHPUT_EAGER, 0);
    if (s->peer && s->compile && key == 0)
        add_slot(p, key, THROUGHPUT_COMPILE, 0);
}

/* Whether the row is a compared row. The order of the compared rows reverses from round to round.
 */
static bool is_compared(enum throughput_who who)
{
    return who == THROUGHPUT_OURS || who == THROUGHPUT_EAGER;
}

static void add_turn(struct throughput_plan *p, int slot, int round)
{
    p->turn[p->n_turns++] = (struct throughput_turn){slot, round};
}

/* Adds the turns of the key's compared rows. */
static void add_round(int key, int round, struct throughput_plan *p)
{
    for (int i = 0; i < p->n_slots; i++) {
        int k = round % 2 == 0 ? i : p->n_slots - 1 - i;
        if (p->slot[k].key == key && is_compared(p->slot[k].who))
            add_turn(p, k, round);
    }
}

/* Adds `rounds` turns of the row that only the first key has. */
static void add_single(enum throughput_who who, int rounds, struct throughput_plan *p)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < p->n_slots; i++)
            if (p->slot[i].who == who)
                add_turn(p, i, round);
}

enum status throughput_plan_make(const struct throughput_shape *s, struct throughput_plan *p)
{
    int64_t slots = (int64_t)s->keys * (s->combinations + SLOTS_MORE);
    *p = (struct throughput_plan){0};
    TRY(array_new(&p->slot, slots));
    TRY(array_new(&p->turn, slots * s->rounds));
    for (int key = 0; key < s->keys; key++)
        add_slots(s, key, p);
    for (int round = 0; round < s->rounds; round++) {
        for (int key = 0; key < s->keys; key++)
            add_round(key, round, p);
        if (round == 0)
            add_single(THROUGHPUT_COMPILE, 1, p);
    }
    add_single(THROUGHPUT_FILES, s->rounds, p);
    return STATUS_OK;
}

void throughput_plan_free(struct throughput_plan *p)
{
    free(p->slot);
    free(p->turn);
    *p = (struct throughput_plan){0};
}
