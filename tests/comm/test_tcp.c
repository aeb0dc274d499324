/* Ranks that meet at a TCP address: over real sockets, each a thread here. */
#include "comm/rendezvous.h"
#include "exercise.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 3 };

struct rank {
    struct comm_tcp_config config;
    void (*body)(struct rank *r);
    struct comm *c;
    int failures;
    enum status st;
    char message[512];
    pthread_t thread;
};

static void keep(struct rank *r, enum status st)
{
    r->st = st;
    if (st != STATUS_OK)
        snprintf(r->message, sizeof r->message, "%s", status_message());
}

/* Rank 0 comes last, so that the others are refused at first. */
static void *run_rank(void *arg)
{
    struct rank *r = arg;
    const struct timespec late = {.tv_nsec = 200000000};
    if (r->config.place.rank == 0)
        nanosleep(&late, NULL);
    keep(r, comm_open_tcp(&r->config, &r->c));
    if (r->st == STATUS_OK)
        r->body(r);
    comm_close(r->c);
    return NULL;
}

/* A port of this machine that nobody listens at. */
static void free_address(char *out, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
    snprintf(out, size, "127.0.0.1:%d", ntohs(a.sin_port));
    close(fd);
}

/* Runs ranks [0, present) of `size`. */
static void run_ranks(struct rank *rank, int present, int size, double timeout_s,
                      void (*body)(struct rank *))
{
    char address[64];
    free_address(address, sizeof address);
    for (int i = 0; i < present; i++) {
        rank[i] = (struct rank){.config = {address, {i, size}, timeout_s}, .body = body};
        assert_int_equal(pthread_create(&rank[i].thread, NULL, run_rank, &rank[i]), 0);
    }
    for (int i = 0; i < present; i++)
        pthread_join(rank[i].thread, NULL);
}

/* --- values --- */

static void exercise(struct rank *r)
{
    r->failures = exercise_kinds(r->c, 65536) + exercise_same_bits(r->c, 1 << 12) +
                  exercise_under_way(r->c, 1);
}

static void test_values(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        struct rank rank[RANKS];
        run_ranks(rank, size, size, 60, exercise);
        for (int i = 0; i < size; i++) {
            assert_string_equal(rank[i].message, "");
            assert_int_equal(rank[i].failures, 0);
        }
    }
}

/* --- ends --- */

static void meet(struct rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    keep(r, comm_run(r->c, &op));
}

static void leave_as_rank_1(struct rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    keep(r, comm_run(r->c, &op));
    if (comm_rank(r->c) != 1)
        keep(r, comm_run(r->c, &op));
}

static void test_lost_rank(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 3, 60, leave_as_rank_1);
    for (int i = 0; i < 3; i += 2) {
        static const char lost[] = "rank 1 was lost in operation 2 (barrier): ";
        assert_int_equal(rank[i].st, STATUS_LIBRARY);
        assert_memory_equal(rank[i].message, lost, strlen(lost));
    }
}

static void fail_on(struct rank *r, int rank)
{
    struct comm_op op = {COMM_BARRIER};
    if (comm_rank(r->c) == rank)
        comm_fail(r->c, STATUS_DATA, "cannot read 'x'");
    keep(r, comm_run(r->c, &op));
}

static void fail_on_rank_2(struct rank *r)
{
    fail_on(r, 2);
}

static void fail_on_rank_0(struct rank *r)
{
    fail_on(r, 0);
}

static void test_failure_reaches_all(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 3, 60, fail_on_rank_2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rank[i].st, STATUS_DATA);
        assert_string_equal(rank[i].message, "rank 2: cannot read 'x'");
    }
    run_ranks(rank, 3, 3, 60, fail_on_rank_0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rank[i].st, STATUS_DATA);
        assert_string_equal(rank[i].message, "rank 0: cannot read 'x'");
    }
}

static void differ_on_rank_1(struct rank *r)
{
    float x[2] = {0};
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,  DTYPE_F32,
                         .send = x,      .recv = x, .count = comm_rank(r->c) == 1 ? 2 : 1};
    keep(r, comm_run(r->c, &op));
}

static void test_disagreement_is_refused(void **state)
{
    (void)state;
    struct rank rank[RANKS];
    run_ranks(rank, 3, 3, 60, differ_on_rank_1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rank[i].st, STATUS_INVALID);
        assert_string_equal(rank[i].message,
                            "rank 1's operation 1 (allreduce) of 2 elements is not rank 0's "
                            "operation 1 (allreduce) of 1 elements");
    }
}

static void test_absent_rank(void **state)
{
    (void)state;
    char want[128];
    struct rank rank[RANKS];
    run_ranks(rank, 2, 3, 0.5, meet);
    assert_int_equal(rank[0].st, STATUS_LIBRARY);
    snprintf(want, sizeof want, "rank 2 of 3 did not reach '127.0.0.1:");
    assert_memory_equal(rank[0].message, want, strlen(want));
    assert_non_null(strstr(rank[0].message, "' within 0.5 s"));
}

static void test_absent_rank_0(void **state)
{
    (void)state;
    char address[64];
    int peer[2];
    free_address(address, sizeof address);
    assert_int_equal(rendezvous_meet(address, 1, 2, 0.3, peer), STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "rank 1 of 2 found no rank 0 of such a run at '"));
}

/* --- strangers --- */

/* Says something else than a rank would, until it gets through to rank 0. */
static void *intrude(void *arg)
{
    const char *address = arg;
    static const char words[] = "GET / HTTP/1.0\r\n\r\n";
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timespec rest = {.tv_nsec = 10000000};
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        bool through = connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
                       send(fd, words, sizeof words, MSG_NOSIGNAL) > 0;
        char answer;
        if (through)
            through = recv(fd, &answer, 1, 0) <= 0; /* turned away without a word */
        close(fd);
        if (through)
            return NULL;
        nanosleep(&rest, NULL);
    }
    return arg;
}

static void test_strangers_are_turned_away(void **state)
{
    (void)state;
    char address[64];
    struct rank rank[2];
    pthread_t stranger;
    void *failed;
    free_address(address, sizeof address);
    for (int i = 0; i < 2; i++)
        rank[i] = (struct rank){.config = {address, {i, 2}, 60}, .body = meet};
    assert_int_equal(pthread_create(&rank[0].thread, NULL, run_rank, &rank[0]), 0);
    assert_int_equal(pthread_create(&stranger, NULL, intrude, address), 0);
    pthread_join(stranger, &failed);
    assert_null(failed);
    int peer[3]; /* a rank of another run */
    assert_int_equal(rendezvous_meet(address, 2, 3, 0.2, peer), STATUS_LIBRARY);
    assert_int_equal(pthread_create(&rank[1].thread, NULL, run_rank, &rank[1]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(rank[i].thread, NULL);
        assert_int_equal(rank[i].st, STATUS_OK);
    }
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "host", "host:", ":1", "host:0", "host:65536", "host:1x"};
    int peer[2];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(rendezvous_meet(bad[i], 1, 2, 0.1, peer), STATUS_USAGE);
        assert_non_null(strstr(status_message(), "give HOST:PORT"));
    }
}

/* --- the environment --- */

static const char *const *variables; /* pairs of name and value, for `look_up` */

static const char *look_up(const char *name)
{
    for (const char *const *v = variables; *v; v += 2)
        if (strcmp(*v, name) == 0)
            return v[1];
    return NULL;
}

static void place_is(const char *const *environment, int rank, int size)
{
    struct comm_place p = {-1, -1};
    variables = environment;
    assert_int_equal(comm_place_find(look_up, &p), STATUS_OK);
    assert_int_equal(p.rank, rank);
    assert_int_equal(p.size, size);
}

static void local_rank_is(const char *const *environment, enum status st, int want)
{
    int local;
    variables = environment;
    assert_int_equal(comm_local_rank_find(look_up, &local), st);
    if (st == STATUS_OK)
        assert_int_equal(local, want);
}

static void test_local_ranks(void **state)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "MV2_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK", "SLURM_LOCALID"};
    (void)state;
    local_rank_is((const char *const[]){"RANK", "3", NULL}, STATUS_OK, -1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        local_rank_is((const char *const[]){names[i], "5", NULL}, STATUS_OK, 5);
    /* mpirun within a job of Slurm, whose own number is each process's. */
    local_rank_is(
        (const char *const[]){"SLURM_LOCALID", "0", "OMPI_COMM_WORLD_LOCAL_RANK", "3", NULL},
        STATUS_OK, 3);
    local_rank_is((const char *const[]){"LOCAL_RANK", "", NULL}, STATUS_USAGE, 0);
    local_rank_is((const char *const[]){"LOCAL_RANK", "-1", NULL}, STATUS_USAGE, 0);
    local_rank_is((const char *const[]){"LOCAL_RANK", "1x", NULL}, STATUS_USAGE, 0);
}

static void no_place(const char *const *environment, const char *message)
{
    struct comm_place p;
    variables = environment;
    assert_int_equal(comm_place_find(look_up, &p), STATUS_USAGE);
    assert_non_null(strstr(status_message(), message));
}

static void test_places(void **state)
{
    (void)state;
    place_is((const char *const[]){"RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "1", NULL}, 3, 8);
    place_is((const char *const[]){"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", NULL},
             1, 2);
    place_is((const char *const[]){"PMI_RANK", "0", "PMI_SIZE", "4", NULL}, 0, 4);
    place_is((const char *const[]){"SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "6", NULL}, 5, 6);
    /* A launcher within a pod that counts nodes. */
    place_is((const char *const[]){"RANK", "0", "WORLD_SIZE", "2", "OMPI_COMM_WORLD_RANK", "3",
                                   "OMPI_COMM_WORLD_SIZE", "16", NULL},
             3, 16);
    /* srun within such a pod, and the pod alone. */
    place_is((const char *const[]){"RANK", "0", "WORLD_SIZE", "2", "SLURM_PROCID", "3",
                                   "SLURM_STEP_NUM_TASKS", "4", NULL},
             3, 4);
    place_is((const char *const[]){"RANK", "1", "WORLD_SIZE", "2", NULL}, 1, 2);
    /* A batch script has one process, whatever it asked for. */
    no_place((const char *const[]){"SLURM_PROCID", "0", "SLURM_NTASKS", "8", NULL},
             "no launcher says which rank this process is");
    no_place((const char *const[]){NULL}, "no launcher says which rank this process is");
    no_place((const char *const[]){"PMI_RANK", "4", "PMI_SIZE", "4", NULL},
             "PMI_RANK='4' and PMI_SIZE='4', which is no rank among that many");
    no_place((const char *const[]){"RANK", "x", "WORLD_SIZE", "4", NULL}, "RANK='x'");
    no_place((const char *const[]){"RANK", "0", "WORLD_SIZE", "99999999999", NULL},
             "WORLD_SIZE='99999999999'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lost_rank),
        cmocka_unit_test(test_failure_reaches_all),
        cmocka_unit_test(test_disagreement_is_refused),
        cmocka_unit_test(test_absent_rank),
        cmocka_unit_test(test_absent_rank_0),
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_local_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
