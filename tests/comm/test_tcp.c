/* Tests ranks that connect over real TCP sockets. Each rank is a thread. */
#include "comm/rendezvous.h"
#include "comm/socket.h"
#include "exercise.h"
#include "tcp_ranks.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
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

/* --- values --- */

static void exercise(struct tcp_rank *r)
{
    r->failures = exercise_kinds(r->c, 65536) + exercise_same_bits(r->c, 1 << 12) +
                  exercise_under_way(r->c, 1);
}

static void test_values(void **state)
{
    (void)state;
    for (int size = 1; size <= TCP_RANKS; size++) {
        struct tcp_rank rank[TCP_RANKS];
        tcp_ranks_run(rank, size, size, 60, NULL, exercise);
        for (int i = 0; i < size; i++) {
            assert_string_equal(rank[i].message, "");
            assert_int_equal(rank[i].failures, 0);
        }
    }
}

/* --- ends --- */

static void meet(struct tcp_rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    tcp_rank_keep(r, comm_run(r->c, &op));
}

static void test_lost_rank(void **state)
{
    (void)state;
    struct tcp_rank rank[TCP_RANKS];
    tcp_ranks_run(rank, 3, 3, 60, NULL, tcp_rank_leave_1);
    for (int i = 0; i < 3; i += 2) {
        static const char lost[] = "the connection to rank 1 was lost in operation 2 (barrier): ";
        assert_int_equal(rank[i].st, STATUS_LOST_RANK);
        assert_memory_equal(rank[i].message, lost, strlen(lost));
    }
}

static void test_failure_reaches_all(void **state)
{
    (void)state;
    tcp_ranks_check_failure(NULL);
}

static void test_disagreement_is_refused(void **state)
{
    (void)state;
    tcp_ranks_check_disagreement(NULL);
}

static void test_absent_rank(void **state)
{
    (void)state;
    char want[128];
    struct tcp_rank rank[TCP_RANKS];
    tcp_ranks_run(rank, 2, 3, 0.5, NULL, meet);
    assert_int_equal(rank[0].st, STATUS_LIBRARY);
    snprintf(want, sizeof want, "rank 2 of 3 did not reach '127.0.0.1:");
    assert_memory_equal(rank[0].message, want, strlen(want));
    assert_non_null(strstr(rank[0].message, "' within 0.5 s"));
}

/* rendezvous_meet without a secret. */
static enum status meet_at(const char *address, int rank, int size, double timeout_s, int *peer)
{
    const struct secret none = {0};
    const struct rendezvous_config c = {.address = address,
                                        .rank = rank,
                                        .size = size,
                                        .timeout_s = timeout_s,
                                        .job = "",
                                        .secret = &none};
    return rendezvous_meet(&c, peer);
}

static void test_absent_rank_0(void **state)
{
    (void)state;
    char address[64];
    int peer[2];
    tcp_free_address(address, sizeof address);
    assert_int_equal(meet_at(address, 1, 2, 0.3, peer), STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "rank 1 of 2 found no rank 0 of its job at '"));
}

/* --- strangers --- */

/* Connects to rank 0 as soon as it listens, sends an HTTP request, and returns when rank 0 has
 * closed the connection. */
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
        /* rank 0 must close the connection without an answer */
        if (through)
            through = recv(fd, &answer, 1, 0) <= 0;
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
    struct tcp_rank rank[2];
    pthread_t stranger;
    void *failed;
    tcp_free_address(address, sizeof address);
    for (int i = 0; i < 2; i++)
        rank[i] = (struct tcp_rank){
            .config = {.address = address, .rank = i, .size = 2, .timeout_s = 60}, .body = meet};
    assert_int_equal(pthread_create(&rank[0].thread, NULL, tcp_rank_run, &rank[0]), 0);
    assert_int_equal(pthread_create(&stranger, NULL, intrude, address), 0);
    pthread_join(stranger, &failed);
    assert_null(failed);
    int peer[3]; /* a rank of another run */
    assert_int_equal(meet_at(address, 2, 3, 60, peer), STATUS_LIBRARY);
    assert_int_equal(pthread_create(&rank[1].thread, NULL, tcp_rank_run, &rank[1]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(rank[i].thread, NULL);
        assert_int_equal(rank[i].st, STATUS_OK);
    }
}

/* Connects to `address` as soon as a process listens there, and sends nothing. */
static int connect_silently(const char *address)
{
    const struct timespec rest = {.tv_nsec = 10000000};
    struct addrinfo *list;
    bool loopback;
    int fd = -1;
    assert_int_equal(socket_resolve(address, &list, &loopback), STATUS_OK);
    for (int i = 0; i < 500 && fd < 0; i++) {
        fd = socket_connect(list, 1);
        if (fd < 0)
            nanosleep(&rest, NULL);
    }
    freeaddrinfo(list);
    assert_true(fd >= 0);
    return fd;
}

static void start_rank(struct tcp_rank *r)
{
    assert_int_equal(pthread_create(&r->thread, NULL, tcp_rank_run, r), 0);
}

/* There are more silent connections than seconds in the time limit. Rank 0 must therefore wait for
 * all of them at the same time. */
static void test_silent_clients_keep_no_rank_out(void **state)
{
    enum { SILENT = 90, SLOW = 10, LIMIT_S = 30 };
    (void)state;
    static const unsigned char magic[] = {0x61, 0x6d, 0x70, 0x73};
    char address[64];
    int fd[SILENT + SLOW];
    struct tcp_rank rank[2];
    tcp_free_address(address, sizeof address);
    for (int i = 0; i < 2; i++)
        rank[i] = (struct tcp_rank){
            .config = {.address = address, .rank = i, .size = 2, .timeout_s = LIMIT_S},
            .body = meet};
    start_rank(&rank[0]);
    for (int i = 0; i < SILENT + SLOW; i++) {
        fd[i] = connect_silently(address);
        if (i >= SILENT) /* sends only the beginning of a hello */
            assert_int_equal(send(fd[i], magic, sizeof magic, MSG_NOSIGNAL), sizeof magic);
    }
    start_rank(&rank[1]);
    for (int i = 0; i < 2; i++) {
        pthread_join(rank[i].thread, NULL);
        assert_string_equal(rank[i].message, "");
        assert_int_equal(rank[i].st, STATUS_OK);
    }
    for (int i = 0; i < SILENT + SLOW; i++)
        close(fd[i]);
}

static const struct secret own_secret = {16, "0123456789abcdef"};
static const struct secret other_secret = {16, "0123456789abcdeF"};

/* One rank, and the result of its call of rendezvous_meet. */
struct visitor {
    struct rendezvous_config config;
    enum status st;
    char message[512];
    pthread_t thread;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;
    int peer[TCP_RANKS];
    v->st = rendezvous_meet(&v->config, peer);
    snprintf(v->message, sizeof v->message, "%s", v->st == STATUS_OK ? "" : status_message());
    for (int r = 0; r < v->config.size; r++)
        if (peer[r] >= 0)
            close(peer[r]);
    return NULL;
}

static void start_visitor(struct visitor *v, const char *address, int rank, const char *job,
                          const struct secret *secret, double timeout_s)
{
    *v = (struct visitor){.config = {.address = address,
                                     .rank = rank,
                                     .size = 2,
                                     .timeout_s = timeout_s,
                                     .job = job,
                                     .secret = secret}};
    assert_int_equal(pthread_create(&v->thread, NULL, visit, v), 0);
}

static void visitor_ends(struct visitor *v, enum status st, const char *message)
{
    pthread_join(v->thread, NULL);
    if (!strstr(v->message, message))
        fail_msg("'%s' does not contain '%s'", v->message, message);
    assert_int_equal(v->st, st);
}

static void test_wrong_secrets_are_refused(void **state)
{
    static const struct secret none = {0};
    const struct secret *const wrong[] = {&other_secret, &none};
    (void)state;
    char address[64];
    struct visitor first, second, stranger[2];
    tcp_free_address(address, sizeof address);
    start_visitor(&first, address, 0, "a", &own_secret, 60);
    for (int i = 0; i < 2; i++) {
        start_visitor(&stranger[i], address, 1, "a", wrong[i], 60);
        visitor_ends(&stranger[i], STATUS_LIBRARY, "rank 0 has another secret");
    }
    start_visitor(&second, address, 1, "a", &own_secret, 60);
    visitor_ends(&second, STATUS_OK, "");
    visitor_ends(&first, STATUS_OK, "");

    tcp_free_address(address, sizeof address);
    start_visitor(&first, address, 0, "a", &own_secret, 1);
    start_visitor(&stranger[0], address, 1, "a", &other_secret, 60);
    visitor_ends(&stranger[0], STATUS_LIBRARY, "rank 0 has another secret");
    visitor_ends(&first, STATUS_LIBRARY, "; refused connections: 1 with a wrong secret");
}

/* Acts as rank 0 but does not have the secret: accepts a connection and answers with an invalid
 * proof. */
static void *pretend_rank_0(void *arg)
{
    struct addrinfo *list;
    bool loopback;
    int fd[SOCKET_ADDRESSES_MAX], n;
    char hello[80], proof[32], challenge[40] = "amps", answer[36] = "";
    assert_int_equal(socket_resolve(arg, &list, &loopback), STATUS_OK);
    assert_int_equal(socket_listen(arg, list, fd, &n), STATUS_OK);
    freeaddrinfo(list);
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    int rank = accept(fd[0], NULL, NULL);
    assert_int_equal(socket_get(rank, hello, sizeof hello, 60), STATUS_OK);
    assert_int_equal(socket_put(rank, challenge, sizeof challenge, 60), STATUS_OK);
    assert_int_equal(socket_get(rank, proof, sizeof proof, 60), STATUS_OK);
    assert_int_equal(socket_put(rank, answer, sizeof answer, 60), STATUS_OK);
    close(rank);
    close(fd[0]);
    return NULL;
}

static void test_an_impostor_of_rank_0_is_refused(void **state)
{
    (void)state;
    char address[64];
    struct visitor rank;
    pthread_t impostor;
    tcp_free_address(address, sizeof address);
    assert_int_equal(pthread_create(&impostor, NULL, pretend_rank_0, address), 0);
    start_visitor(&rank, address, 1, "a", &own_secret, 60);
    visitor_ends(&rank, STATUS_LIBRARY, "does not know the secret of this job");
    pthread_join(impostor, NULL);
}

static void test_jobs_on_one_port_do_not_mix(void **state)
{
    static const struct secret none = {0};
    (void)state;
    char address[64];
    struct visitor a[2], b[2], again;
    tcp_free_address(address, sizeof address);
    start_visitor(&a[0], address, 0, "a", &none, 60);
    close(connect_silently(address));
    start_visitor(&b[0], address, 0, "b", &none, 60);
    start_visitor(&b[1], address, 1, "b", &none, 60);
    visitor_ends(&b[0], STATUS_IO, "rank 0 cannot listen at '127.0.0.1:");
    visitor_ends(&b[1], STATUS_LIBRARY, "rank 0 belongs to another job");
    start_visitor(&a[1], address, 1, "a", &none, 60);
    visitor_ends(&a[1], STATUS_OK, "");
    visitor_ends(&a[0], STATUS_OK, "");
    /* This visitor belongs to a job with another number of ranks. */
    start_visitor(&a[0], address, 0, "a", &none, 60);
    int peer[3];
    const struct rendezvous_config other = {
        .address = address, .rank = 2, .size = 3, .timeout_s = 60, .job = "a", .secret = &none};
    assert_int_equal(rendezvous_meet(&other, peer), STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "rank 0 belongs to a job of another size"));
    start_visitor(&again, address, 1, "a", &none, 60);
    visitor_ends(&again, STATUS_OK, "");
    visitor_ends(&a[0], STATUS_OK, "");
}

/* A second process connects as rank 1, with the right secret. Rank 0 refuses it, and the first
 * process stays connected. */
static void test_a_rank_joins_once(void **state)
{
    enum { VISITORS = 4, AGAIN = 2 };
    static const int rank[VISITORS] = {0, 1, 1, 2};
    (void)state;
    char address[64];
    struct visitor v[VISITORS];
    tcp_free_address(address, sizeof address);
    for (int i = 0; i < VISITORS; i++) {
        v[i] = (struct visitor){.config = {.address = address,
                                           .rank = rank[i],
                                           .size = 3,
                                           .timeout_s = 60,
                                           .job = "a",
                                           .secret = &own_secret}};
        assert_int_equal(pthread_create(&v[i].thread, NULL, visit, &v[i]), 0);
        if (i == AGAIN)
            visitor_ends(&v[i], STATUS_LIBRARY,
                         "rank 0 is already connected to another process with this number");
        else if (i > 0)
            visitor_ends(&v[i], STATUS_OK, "");
    }
    visitor_ends(&v[0], STATUS_OK, "");
}

/* Finds the local addresses on which this machine listens at `port`, in /proc/net/tcp or tcp6. */
static void find_listeners(const char *file, int port, char *out, size_t size)
{
    char line[512], address[64];
    unsigned at, state;
    FILE *f = fopen(file, "r");
    out[0] = '\0';
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, " %*d: %63[0-9A-F]:%x %*[0-9A-F]:%*x %x", address, &at, &state) == 3 &&
            (int)at == port && state == 0x0a)
            snprintf(out + strlen(out), size - strlen(out), "%s ", address);
    if (f)
        fclose(f);
}

static void test_only_the_named_address_listens(void **state)
{
    static const struct secret none = {0};
    static const struct {
        const char *host, *tcp, *tcp6;
    } cases[] = {
        {"127.0.0.1", "0100007F ", ""},
        {"[::1]", "", "00000000000000000000000001000000 "},
        {"localhost", "0100007F ", NULL},
    };
    (void)state;
    char addresses[4096] = "";
    FILE *f = fopen("/proc/net/if_inet6", "r");
    if (f) {
        addresses[fread(addresses, 1, sizeof addresses - 1, f)] = '\0';
        fclose(f);
    }
    bool ipv6 = strstr(addresses, "00000000000000000000000000000001 ") != NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char free4[64], address[64], found[256];
        struct visitor first, second;
        if (cases[i].host[0] == '[' && !ipv6)
            continue;
        tcp_free_address(free4, sizeof free4);
        const char *port = strchr(free4, ':') + 1;
        snprintf(address, sizeof address, "%s:%s", cases[i].host, port);
        start_visitor(&first, address, 0, "", &none, 60);
        close(connect_silently(address));
        find_listeners("/proc/net/tcp", atoi(port), found, sizeof found);
        assert_string_equal(found, cases[i].tcp);
        find_listeners("/proc/net/tcp6", atoi(port), found, sizeof found);
        if (cases[i].tcp6)
            assert_string_equal(found, cases[i].tcp6);
        start_visitor(&second, address, 1, "", &none, 60);
        visitor_ends(&second, STATUS_OK, "");
        visitor_ends(&first, STATUS_OK, "");
    }
}

static void test_a_secret_is_needed_beyond_loopback(void **state)
{
    static const struct secret none = {0};
    static const char *const beyond[] = {"0.0.0.0:1", "[::]:1", "192.0.2.77:1"};
    (void)state;
    int peer[2];
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        struct rendezvous_config c = {.address = beyond[i],
                                      .rank = 1,
                                      .size = 2,
                                      .timeout_s = 0.2,
                                      .job = "",
                                      .secret = &none};
        assert_int_equal(rendezvous_meet(&c, peer), STATUS_USAGE);
        assert_non_null(strstr(status_message(), "no secret is set"));
        if (i == 2) /* connecting to this address may take long to fail */
            continue;
        c.secret = &own_secret;
        assert_int_equal(rendezvous_meet(&c, peer), STATUS_LIBRARY);
        c.secret = &none;
        c.insecure = true;
        assert_int_equal(rendezvous_meet(&c, peer), STATUS_LIBRARY);
    }
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "host",       "host:",   ":1",
                                      "host:0", "host:65536", "host:1x", "::1:1"};
    int peer[2];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(meet_at(bad[i], 1, 2, 0.1, peer), STATUS_USAGE);
        assert_non_null(strstr(status_message(), "give HOST:PORT"));
    }
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
        cmocka_unit_test(test_silent_clients_keep_no_rank_out),
        cmocka_unit_test(test_wrong_secrets_are_refused),
        cmocka_unit_test(test_an_impostor_of_rank_0_is_refused),
        cmocka_unit_test(test_jobs_on_one_port_do_not_mix),
        cmocka_unit_test(test_only_the_named_address_listens),
        cmocka_unit_test(test_a_rank_joins_once),
        cmocka_unit_test(test_a_secret_is_needed_beyond_loopback),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
