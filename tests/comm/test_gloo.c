/* Tests Gloo's connections beside strangers, the operation it lacks, and the missing module.
 * test_transports.c tests the rest. */
#include "ranks.h"
#include "tests/unit.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Connects again and again to every loopback port at which a process listens, and sends data that
 * no rank would send. Counts the connections that took the data. */
_Noreturn static void intrude(atomic_int *intruded)
{
    static const char words[] = "GET / HTTP/1.0\r\n\r\n";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
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
                *intruded += send(fd, words, sizeof words, MSG_NOSIGNAL) > 0;
            close(fd);
        }
        if (f)
            fclose(f);
    }
}

static void sum(struct rank *r)
{
    double x = comm_rank(r->c);
    rank_keep(r, comm_sum(r->c, &x, 1));
    r->failures += x != 3;
}

static void test_strangers_are_turned_away(void **state)
{
    atomic_int *intruded =
        mmap(NULL, sizeof *intruded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(intruded, MAP_FAILED);
    pid_t stranger = fork();
    assert_true(stranger >= 0);
    if (stranger == 0)
        intrude(intruded);
    for (int i = 0; i < 5; i++)
        ranks_succeed(&gloo_transport, 3, sum);
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    assert_true(*intruded > 0);
    munmap(intruded, sizeof *intruded);
}

/* Later operations fail in the same way. */
static void refuse(struct rank *r)
{
    double x[3] = {1, 1, 1}, y = 1;
    struct comm_op op = {COMM_REDUCE_SCATTER, COMM_SUM,   DTYPE_F64,
                         .send = x,           .recv = &y, .count = 1};
    /* All ranks have connected. Another rank's refusal may already end this rank's sum. */
    if (comm_sum(r->c, &y, 1) == STATUS_OK)
        r->failures += y != 3;
    for (int i = 0; i < 2; i++) {
        r->failures += comm_run(r->c, &op) != STATUS_UNSUPPORTED;
        r->failures += !strstr(status_message(), "operation 2 (reduce-scatter): Gloo has no "
                                                 "reduce-scatter; use --comm mpi or nccl");
    }
}

static void test_reduce_scatter_is_refused(void **state)
{
    struct rank rank[RANKS_MAX];
    ranks_run(rank, &gloo_transport, 3, 60, refuse);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rank[i].failures, 0);
}

static void test_missing_module(void **state)
{
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_reduce_scatter_is_refused),
        cmocka_unit_test(test_missing_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
