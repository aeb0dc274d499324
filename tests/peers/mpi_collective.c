/* Times MPI's own collectives as the OSU micro-benchmarks do, for mpi_collective.sh.
 *
 * usage: mpirun -n RANKS mpi_collective KIND MIN MAX FACTOR ITERS
 *
 * Sizes and counts are those of `ampscale bench collective KIND -b MIN -e MAX -f FACTOR`. Each call
 * follows a barrier. Prints a line for each size: bytes, elements of one part, the median over
 * ITERS calls of the slowest rank's seconds, and the number of wrong elements of all ranks. */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITERS_MAX = 10000, PAGE = 4096 };
enum kind {
    ALLREDUCE,
    BROADCAST,
    REDUCE,
    ALLGATHER,
    REDUCE_SCATTER,
    ALLTOALL,
    GATHER,
    SCATTER,
    SENDRECV,
    KINDS
};
static const char *const names[KINDS] = {"allreduce", "broadcast",      "reduce",
                                         "allgather", "reduce-scatter", "alltoall",
                                         "gather",    "scatter",        "sendrecv"};
static int rank, ranks;

static void call(enum kind kind, float *send, float *recv, int n)
{
    const MPI_Comm c = MPI_COMM_WORLD;
    const MPI_Datatype t = MPI_FLOAT;
    switch (kind) {
    case ALLREDUCE:
        MPI_Allreduce(send, recv, n, t, MPI_SUM, c);
        break;
    case BROADCAST:
        MPI_Bcast(rank == 0 ? send : recv, n, t, 0, c);
        break;
    case REDUCE:
        MPI_Reduce(send, recv, n, t, MPI_SUM, 0, c);
        break;
    case ALLGATHER:
        MPI_Allgather(send, n, t, recv, n, t, c);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(send, recv, n, t, MPI_SUM, c);
        break;
    case ALLTOALL:
        MPI_Alltoall(send, n, t, recv, n, t, c);
        break;
    case GATHER:
        MPI_Gather(send, n, t, recv, n, t, 0, c);
        break;
    case SCATTER:
        MPI_Scatter(send, n, t, recv, n, t, 0, c);
        break;
    default:
        MPI_Sendrecv(send, n, t, (rank + 1) % ranks, 0, recv, n, t, (rank + ranks - 1) % ranks, 0,
                     c, MPI_STATUS_IGNORE);
    }
}

/* The value of every element of part `part` in the input of rank `from`. */
static float value(int from, int part)
{
    return (float)(from * ranks + part + 1);
}

static int64_t wrong(enum kind kind, const float *send, const float *recv, int n)
{
    bool to_root = kind == REDUCE || kind == GATHER;
    int parts = kind == ALLGATHER || kind == ALLTOALL || kind == GATHER ? ranks : 1;
    int own = kind == REDUCE_SCATTER || kind == ALLTOALL || kind == SCATTER ? rank : 0;
    int64_t found = 0;
    for (int p = 0; p < (to_root && rank != 0 ? 0 : parts); p++) {
        float want = value(parts > 1 ? p : kind == SENDRECV ? (rank + ranks - 1) % ranks : 0, own);
        for (int r = 1;
             r < ranks && (kind == ALLREDUCE || kind == REDUCE || kind == REDUCE_SCATTER); r++)
            want += value(r, own);
        for (int i = 0; i < n; i++)
            found +=
                (kind == BROADCAST && rank == 0 ? send : recv)[(size_t)p * (size_t)n + (size_t)i] !=
                want;
    }
    return found;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void measure(enum kind kind, int64_t bytes, int iters, float *send, float *recv)
{
    static double own[ITERS_MAX], slowest[ITERS_MAX];
    bool parts = kind >= ALLGATHER && kind <= SCATTER;
    int n = (int)(parts ? bytes / 4 / ranks / 4 * 4 : bytes / 4), all = parts ? n * ranks : n;
    for (int i = 0; i < all; i++) {
        send[i] = value(rank, n ? i / n : 0);
        recv[i] = -1;
    }
    for (int i = -iters / 4; i < iters; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        call(kind, send, recv, n);
        own[i < 0 ? 0 : i] = MPI_Wtime() - begun;
    }
    int64_t sum = 0, found = wrong(kind, send, recv, n);
    MPI_Reduce(own, slowest, iters, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&found, &sum, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    qsort(slowest, (size_t)iters, sizeof *slowest, ascending);
    if (rank == 0)
        printf("%lld %d %.9f %lld\n", 4LL * all, n,
               (slowest[(iters - 1) / 2] + slowest[iters / 2]) / 2, (long long)sum);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int kind = 0, iters = argc == 6 ? atoi(argv[5]) : 0;
    while (iters > 0 && kind < KINDS && strcmp(argv[1], names[kind]) != 0)
        kind++;
    if (iters < 1 || iters > ITERS_MAX || kind == KINDS || atoi(argv[4]) < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int64_t most = atoll(argv[3]);
    size_t size = ((size_t)most / PAGE + 1) * PAGE;
    float *send = aligned_alloc(PAGE, size), *recv = aligned_alloc(PAGE, size);
    if (!send || !recv)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t bytes = atoll(argv[2]); bytes > 0 && bytes <= most; bytes *= atoi(argv[4]))
        measure((enum kind)kind, bytes, iters, send, recv);
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
