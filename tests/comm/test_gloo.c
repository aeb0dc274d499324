/* Tests communicators whose data Gloo transfers, without MPI. */
#include "comm/rendezvous.h"
#include "exercise.h"
#include "tcp_ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct gloo_port *gloo;

/* --- values --- */

static void exercise(struct tcp_rank *r)
{
    r->failures = strcmp(comm_name(r->c), "gloo") != 0;
    r->failures += exercise_kinds(r->c, INT64_MAX) + exercise_same_bits(r->c, 1 << 18) +
                   exercise_under_way(r->c, 3);
}

static void test_values(void **state)
{
    (void)state;
    for (int size = 1; size <= TCP_RANKS; size++) {
        struct tcp_rank rank[TCP_RANKS];
        tcp_ranks_run(rank, size, size, 60, gloo, exercise);
        for (int i = 0; i < size; i++) {
            assert_string_equal(rank[i].message, "");
            assert_int_equal(rank[i].failures, 0);
        }
    }
}

/* Sums random values over all ranks. Each rank stores a hash of the sums in `failures`. */
static void hash_sums(struct tcp_rank *r)
{
    enum { COUNT = 30001 };
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16};
    unsigned char *data = malloc(COUNT * sizeof(double));
    uint32_t hash = 1, random = 7 + (uint32_t)comm_rank(r->c);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t element = dtype_size(types[t]);
        struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,     types[t],
                             .send = data,   .recv = data, .count = COUNT};
        for (size_t i = 0; i < COUNT * element; i++) {
            random = random * 1664525 + 1013904223;
            /* Sets the last byte of each element to 0x30 to 0x33. This byte contains most of the
             * exponent: no element is infinite or NaN. */
            data[i] =
                (unsigned char)(i % element == element - 1 ? 0x30 + (random >> 30) : random >> 24);
        }
        tcp_rank_keep(r, comm_run(r->c, &op));
        for (size_t i = 0; i < COUNT * element; i++)
            hash = (hash ^ data[i]) * 16777619;
    }
    free(data);
    r->failures = (int)hash;
}

/* A sum of two values has the same bits in either order. With two ranks, sums by Gloo must
 * therefore have the same bits as sums by rank 0. */
static void test_bits_of_two_ranks(void **state)
{
    (void)state;
    struct tcp_rank by_gloo[2], by_rank_0[2];
    tcp_ranks_run(by_gloo, 2, 2, 60, gloo, hash_sums);
    tcp_ranks_run(by_rank_0, 2, 2, 60, NULL, hash_sums);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(by_gloo[i].message, "");
        assert_int_equal(by_gloo[i].failures, by_rank_0[0].failures);
    }
}

/* --- ends --- */

static void test_rank_that_closes_early(void **state)
{
    (void)state;
    struct tcp_rank rank[TCP_RANKS];
    tcp_ranks_run(rank, 3, 3, 60, gloo, tcp_rank_leave_1);
    for (int i = 0; i < 3; i += 2) {
        assert_string_equal(rank[i].message, "rank 1 ended before operation 2 (barrier)");
        assert_int_equal(rank[i].st, STATUS_LOST_RANK);
    }
}

static void test_failure_reaches_all(void **state)
{
    (void)state;
    tcp_ranks_check_failure(gloo);
}

static void test_disagreement_is_refused(void **state)
{
    (void)state;
    tcp_ranks_check_disagreement(gloo);
}

/* --- lost ranks; each rank is a process --- */

enum { PROCESSES = 3 };

/* How a rank is lost: it is killed, is stopped, or no longer communicates. */
enum how { KILLED, STOPPED, BUSY };

struct loss {
    int lost;
    enum how how;
    const char *want; /* text that the messages of the other ranks contain */
    pid_t pid[PROCESSES];
};

static enum status open_gloo(const struct comm_tcp_config *config, struct comm **c)
{
    struct comm *control;
    TRY(comm_open_tcp(config, &control));
    return comm_open_gloo(gloo, control, config, c);
}

/* Runs a rank in the current process. The rank `lost` is lost after its first operation. Every
 * other rank exits with 0 if its last operation fails with the expected message. */
static void live_and_lose(const struct loss *l, const char *address, int rank)
{
    struct comm *c;
    struct comm_op op = {COMM_BARRIER};
    const struct comm_tcp_config config = {.address = address,
                                           .rank = rank,
                                           .size = PROCESSES,
                                           .timeout_s = l->how == KILLED ? 60 : 8};
    if (open_gloo(&config, &c) != STATUS_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, status_message());
        _exit(2);
    }
    enum status st = comm_run(c, &op);
    if (rank == l->lost && l->how != BUSY)
        raise(l->how == KILLED ? SIGKILL : SIGSTOP);
    while (rank == l->lost)
        pause();
    /* If the first barrier failed, the lost rank was killed before this rank knew that all ranks
     * had joined. The failure of that barrier is then checked. */
    if (st == STATUS_OK)
        st = comm_run(c, &op);
    if (st != STATUS_LOST_RANK || !strstr(status_message(), l->want)) {
        fprintf(stderr, "rank %d: %d: '%s' does not contain '%s'\n", rank, (int)st,
                status_message(), l->want);
        _exit(3);
    }
    comm_close(c);
    _exit(0);
}

static void begin_loss(struct loss *l)
{
    char address[64];
    tcp_free_address(address, sizeof address);
    for (int r = 0; r < PROCESSES; r++) {
        l->pid[r] = fork();
        assert_true(l->pid[r] >= 0);
        if (l->pid[r] == 0)
            live_and_lose(l, address, r);
    }
}

static void end_loss(const struct loss *l)
{
    int status, failures = 0;
    for (int r = 0; r < PROCESSES; r++) {
        if (r == l->lost)
            continue;
        assert_int_equal(waitpid(l->pid[r], &status, 0), l->pid[r]);
        failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    kill(l->pid[l->lost], SIGKILL);
    waitpid(l->pid[l->lost], NULL, 0);
    assert_int_equal(failures, 0);
}

static void test_lost_rank(void **state)
{
    (void)state;
    struct loss losses[] = {
        {1, KILLED, "the connection to rank 1 was lost"},
        {0, KILLED, "the connection to rank 0 was lost"},
        {1, STOPPED, "rank 1 did not reach operation 2 (barrier) within 8 s; it may have died"},
        {2, BUSY, "rank 2 did not reach operation 2 (barrier) within 8 s; the process is alive"},
        {0, STOPPED, "rank 0 did not reach operation 2 (barrier) within 8 s"},
    };
    enum { LOSSES = sizeof losses / sizeof *losses };
    for (int i = 0; i < LOSSES; i++)
        begin_loss(&losses[i]);
    for (int i = 0; i < LOSSES; i++)
        end_loss(&losses[i]);
}

/* --- strangers --- */

/* Connects again and again to every loopback port at which this process listens, and sends data
 * that no rank would send. Ends when *arg is set. */
static void *intrude(void *arg)
{
    static const char words[] = "GET / HTTP/1.0\r\n\r\n";
    atomic_bool *over = arg;
    intptr_t intruded = 0;
    while (!atomic_load(over)) {
        char line[512];
        FILE *f = fopen("/proc/net/tcp", "r");
        unsigned address, port, state;
        while (f && fgets(line, sizeof line, f)) {
            if (sscanf(line, " %*d: %x:%x %*x:%*x %x", &address, &port, &state) != 3 ||
                state != 0x0a || address != htonl(INADDR_LOOPBACK))
                continue;
            struct sockaddr_in a = {.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
                intruded += send(fd, words, sizeof words, MSG_NOSIGNAL) > 0;
            close(fd);
        }
        if (f)
            fclose(f);
    }
    return (void *)intruded;
}

static void test_strangers_are_turned_away(void **state)
{
    (void)state;
    enum { ROUNDS = 5 };
    atomic_bool over = false;
    void *intruded;
    pthread_t stranger;
    assert_int_equal(pthread_create(&stranger, NULL, intrude, &over), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct tcp_rank rank[TCP_RANKS];
        tcp_ranks_run(rank, 3, 3, 60, gloo, hash_sums);
        for (int r = 0; r < 3; r++) {
            assert_string_equal(rank[r].message, "");
            assert_int_equal(rank[r].failures, rank[0].failures);
        }
    }
    atomic_store(&over, true);
    pthread_join(stranger, &intruded);
    assert_true((intptr_t)intruded > 0);
}

/* --- the module --- */

static void test_missing_module(void **state)
{
    (void)state;
    const struct gloo_port *port;
    char *before = strdup(getenv("AMPSCALE_GLOO_MODULE"));
    setenv("AMPSCALE_GLOO_MODULE", "/absent.so", 1);
    assert_int_equal(comm_gloo_find(&port), STATUS_UNSUPPORTED);
    assert_string_equal(status_message(),
                        "AMPSCALE_GLOO_MODULE names '/absent.so', which does not exist");
    unsetenv("AMPSCALE_GLOO_MODULE");
    assert_int_equal(comm_gloo_find(&port), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_message(), "apt-get install libgloo-dev"));
    setenv("AMPSCALE_GLOO_MODULE", before, 1);
    free(before);
}

int main(void)
{
    if (comm_gloo_find(&gloo) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_message());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bits_of_two_ranks),
        cmocka_unit_test(test_rank_that_closes_early),
        cmocka_unit_test(test_failure_reaches_all),
        cmocka_unit_test(test_disagreement_is_refused),
        cmocka_unit_test(test_lost_rank),
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_missing_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
