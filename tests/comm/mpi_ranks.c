/* A rank of an MPI job, for the tests of communicators: mpi_ranks SCENARIO SECONDS. */
#include "exercise.h"
#include "tests/kernels/stream_backend.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TURNS = 5 }; /* number of operations before a rank is lost */

/* Rank 1 is killed, stops, fails or no longer communicates. The other ranks wait for it. */
static int lose_rank_1(struct comm *c, const char *how)
{
    struct comm_op barrier = {COMM_BARRIER};
    for (int i = 0; i < TURNS; i++)
        if (comm_run(c, &barrier) != STATUS_OK)
            return 1;
    if (comm_rank(c) == 1) {
        if (strcmp(how, "kill") == 0)
            raise(SIGKILL);
        else if (strcmp(how, "stop") == 0)
            raise(SIGSTOP);
        else if (strcmp(how, "fail") == 0)
            comm_fail(c, STATUS_DATA, "cannot read 'x'");
        while (strcmp(how, "absent") == 0)
            pause();
    }
    /* Some launchers let a stopped rank continue when they end a job. */
    if (comm_run(c, &barrier) == STATUS_OK && comm_rank(c) != 1)
        printf("FAILED: rank %d continued without rank 1\n", comm_rank(c));
    return 1;
}

/* Tests results. With `large`, counts and bytes are so many that every algorithm divides the data
 * into several pieces. */
static int exercise_values(struct comm *c, bool large)
{
    return exercise_kinds(c, large ? INT64_MAX : 262147) +
           exercise_same_bits(c, large ? 1 << 24 : 1 << 18) + exercise_under_way(c, large ? 5 : 1);
}

/* Tests operations on device memory. These ranks transfer the data through host memory. */
static int exercise_staged(struct comm *c)
{
    struct device *dev;
    struct comm *staged;
    if (stream_device_open(&dev) != STATUS_OK ||
        comm_open_staged(1, &c, &dev, &staged) != STATUS_OK)
        return 1;
    int failures = exercise_values(staged, false);
    comm_close(staged);
    device_close(dev);
    return failures > 0;
}

/* Divides the ranks into `groups` groups. Each group computes its own sum. */
static int exercise_group(struct comm *c, int groups)
{
    int rank = comm_rank(c), ranks = comm_size(c), group = rank % groups;
    int failures = comm_divide(c, group) != STATUS_OK;
    double sum = rank, want = 0;
    for (int r = group; r < ranks; r += groups)
        want += r;
    failures += comm_rank(c) != rank / groups;
    failures += comm_size(c) != (ranks - group + groups - 1) / groups;
    failures += comm_sum(c, &sum, 1) != STATUS_OK || sum != want;
    failures += exercise_kinds(c, 65536) + exercise_under_way(c, 1);
    failures += comm_divide(c, -1) != STATUS_OK;
    return failures + (comm_rank(c) != rank || comm_size(c) != ranks);
}

/* Rank 1 is alone in its group, and computes after its operations; rank 2 no longer communicates,
 * and rank 0 waits for it. */
static int lose_in_group(struct comm *c)
{
    int rank = comm_rank(c);
    double x = 1;
    enum status st = comm_divide(c, rank == 1);
    for (int i = 0; i < 2 && st == STATUS_OK && !(rank == 2 && i > 0); i++)
        st = comm_sum(c, &x, 1);
    while (st == STATUS_OK && rank > 0)
        pause();
    return 1;
}

static int exercise(struct comm *c, const char *scenario)
{
    int failures = 0;
    if (strcmp(scenario, "staged") == 0)
        return exercise_staged(c);
    if (strcmp(scenario, "values") == 0 || strcmp(scenario, "large") == 0)
        return exercise_values(c, *scenario == 'l') > 0;
    if (strcmp(scenario, "groups") != 0)
        return strcmp(scenario, "grouped") == 0 ? lose_in_group(c) : lose_rank_1(c, scenario);
    for (int groups = comm_size(c); groups > 0; groups--)
        failures += exercise_group(c, groups);
    return failures > 0;
}

/* Returns true on rank 1, after a delay. Rank 1 then exits without joining the MPI job. */
static bool stays_away(void)
{
    enum { LATE_SECONDS = 4 }; /* by then the other ranks have ended */
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank)
        rank = getenv("PMI_RANK");
    if (!rank || strcmp(rank, "1") != 0)
        return false;
    sleep(LATE_SECONDS);
    return true;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "version") == 0)
        return puts(comm_mpi_version()) == EOF;
    if (argc != 3) {
        fprintf(stderr, "usage: mpi_ranks version | SCENARIO SECONDS\n");
        return 2;
    }
    struct comm_mpi_config config = {.timeout_s = atof(argv[2])};
    struct comm *c;
    if (strcmp(argv[1], "late") == 0) {
        config.join_s = config.timeout_s;
        if (stays_away())
            return 0;
    }
    if (comm_open_mpi(&config, &c) != STATUS_OK) {
        fprintf(stderr, "mpi_ranks: %s\n", status_message());
        return 1;
    }
    int code = exercise(c, argv[1]);
    if (code == 0 && comm_rank(c) == 0)
        printf("%d ranks of %s\n", comm_size(c), comm_mpi_version());
    comm_close(c);
    return code;
}
