/* A rank of an MPI job in the tests of engines. Usage: engine_ranks gradients|damage. */
#include "engine_exercise.h"

#include <stdio.h>
#include <string.h>

static const struct engine_case cases[] = {
    {.devices = "cpu", .rows = 6},
    {.devices = "cpu", .rows = 6, .accumulate = true},
    {.devices = "cpu:2", .rows = 6, .reduce = DP_CENTRAL},
    {.devices = "cpu:2", .rows = 6, .reduce = DP_ALL},
    {.devices = "cpu:2", .rows = 5, .reduce = DP_CENTRAL},
    {.devices = "cpu:2", .rows = 5, .reduce = DP_ALL},
    {.devices = "cpu:2", .rows = 6, .reduce = DP_CENTRAL, .mixes = true},
    {.devices = "cpu", .rows = 5, .accumulate = true, .mixes = true},
};

static enum status gradients(struct comm *c)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        TRY(exercise_gradients(c, &cases[i]));
    return STATUS_OK;
}

static enum status damage(struct comm *c)
{
    int last = comm_size(c) - 1;
    for (int what = 0; what < DAMAGE_COUNT; what++)
        TRY(exercise_damage(c, &cases[0], last, 0, (enum damage)what));
    TRY(exercise_damage(c, &cases[2], last, 0, DAMAGE_WEIGHT));
    return exercise_damage(c, &cases[3], last, 1, DAMAGE_WEIGHT);
}

int main(int argc, char **argv)
{
    struct comm_mpi_config config = {.timeout_s = 60};
    struct comm *c;
    if (argc != 2) {
        fputs("usage: engine_ranks gradients|damage\n", stderr);
        return 2;
    }
    if (comm_open_mpi(&config, &c) != STATUS_OK) {
        fprintf(stderr, "engine_ranks: %s\n", status_message());
        return 1;
    }
    enum status st = strcmp(argv[1], "gradients") == 0 ? gradients(c) : damage(c);
    if (st != STATUS_OK)
        comm_fail(c, st, status_message());
    comm_close(c);
    return 0;
}
