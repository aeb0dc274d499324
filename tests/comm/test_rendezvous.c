/* Tests how processes of a job find and prove themselves to each other at a TCP address, and the
 * secret for their proofs. Each process is a thread. */
#include "base/stop.h"
#include "comm/control.h"
#include "ranks.h"
#include "tests/unit.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct secret none = {0}, own = {16, "0123456789abcdef"},
                           other = {16, "0123456789abcdeF"};

/* A rank, and the result of its call of rendezvous_meet. */
struct visitor {
    struct rendezvous_config config;
    enum status st;
    char message[512];
    pthread_t thread;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;
    int peer[RANKS_MAX];
    v->st = rendezvous_meet(&v->config, peer);
    snprintf(v->message, sizeof v->message, "%s", v->st == STATUS_OK ? "" : status_message());
    if (v->config.kind == RENDEZVOUS_NODES && v->st == STATUS_OK && v->config.rank > 0)
        v->st = socket_put(peer[0], v->message, 16, 1); /* as launchers do */
    for (int r = 0; r < v->config.size; r++)
        if (peer[r] >= 0)
            close(peer[r]);
    return NULL;
}

static void start(struct visitor *v, const char *address, int rank, int size, const char *job,
                  const struct secret *secret, double timeout_s)
{
    *v = (struct visitor){{0, address, rank, size, timeout_s, job, secret}};
    assert_int_equal(pthread_create(&v->thread, NULL, visit, v), 0);
}

static void ends(struct visitor *v, enum status st, const char *message)
{
    pthread_join(v->thread, NULL);
    if (!strstr(v->message, message))
        fail_msg("'%s' does not contain '%s'", v->message, message);
    assert_int_equal(v->st, st);
}

/* Starts a visitor and waits for its end. */
static void meets(const char *address, int rank, int size, const char *job,
                  const struct secret *secret, double timeout_s, enum status st,
                  const char *message)
{
    struct visitor v;
    start(&v, address, rank, size, job, secret, timeout_s);
    ends(&v, st, message);
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

/* A node whose launcher has ended may return while others are missing, whatever it had sent. */
static void test_a_node_returns(void **state)
{
    (void)state;
    struct visitor v[3] = {{{RENDEZVOUS_NODES, "127.0.0.1:29713", 0, 3, 4, "job", &own}},
                           {{RENDEZVOUS_NODES, "127.0.0.1:29713", 1, 3, 4, "job", &own}}};
    v[2] = v[1];
    assert_int_equal(pthread_create(&v[0].thread, NULL, visit, &v[0]), 0);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(pthread_create(&v[i].thread, NULL, visit, &v[i]), 0);
        ends(&v[i], STATUS_OK, "");
    }
    ends(&v[0], STATUS_LIBRARY, "did not reach");
}

static void test_absent_ranks(void **state)
{
    char address[64];
    struct visitor first;
    free_address(address, sizeof address);
    meets(address, 1, 2, "", &none, 0.3, STATUS_LIBRARY, "rank 1 of 2 found no rank 0 of its job");
    start(&first, address, 0, 3, "", &none, 2);
    meets(address, 1, 3, "", &none, 2, STATUS_OK, "");
    ends(&first, STATUS_LIBRARY, "rank 2 of 3 did not reach '127.0.0.1:");
}

/* Rank 0 closes the connection of a process that sends something else. That process receives only a
 * challenge, of 36 bytes. */
static void test_strangers_are_turned_away(void **state)
{
    static const char words[] = "GET / HTTP/1.0\r\n\r\n";
    char address[64], challenge[36], answer;
    struct visitor first;
    free_address(address, sizeof address);
    start(&first, address, 0, 2, "", &none, 60);
    int fd = connect_silently(address);
    assert_int_equal(socket_get_plain(fd, challenge, sizeof challenge, 60), STATUS_OK);
    assert_int_equal(send(fd, words, sizeof words, MSG_NOSIGNAL), sizeof words);
    assert_int_equal(socket_get_plain(fd, &answer, 1, 60), STATUS_IO);
    close(fd);
    meets(address, 1, 2, "", &none, 60, STATUS_OK, "");
    ends(&first, STATUS_OK, "");
}

/* There are more silent connections than seconds in the time limit. Rank 0 must therefore wait for
 * all of them at the same time. */
static void test_silent_clients_keep_no_rank_out(void **state)
{
    enum { SILENT = 90, SLOW = 10, LIMIT_S = 30 };
    char address[64];
    int fd[SILENT + SLOW];
    struct visitor first;
    free_address(address, sizeof address);
    start(&first, address, 0, 2, "", &none, LIMIT_S);
    for (int i = 0; i < SILENT + SLOW; i++) {
        fd[i] = connect_silently(address);
        if (i >= SILENT) /* sends only the beginning of a hello */
            assert_int_equal(socket_put(fd[i], "amps", 4, LIMIT_S), STATUS_OK);
    }
    meets(address, 1, 2, "", &none, LIMIT_S, STATUS_OK, "");
    ends(&first, STATUS_OK, "");
    for (int i = 0; i < SILENT + SLOW; i++)
        close(fd[i]);
}

static void test_wrong_secrets_are_refused(void **state)
{
    char address[64];
    struct visitor first;
    free_address(address, sizeof address);
    start(&first, address, 0, 2, "a", &own, 60);
    meets(address, 1, 2, "a", &other, 60, STATUS_LIBRARY, "rank 0 has another secret");
    meets(address, 1, 2, "a", &none, 60, STATUS_LIBRARY, "rank 0 has another secret");
    meets(address, 1, 2, "a", &own, 60, STATUS_OK, "");
    ends(&first, STATUS_OK, "");

    free_address(address, sizeof address);
    start(&first, address, 0, 2, "a", &own, 1);
    meets(address, 1, 2, "a", &other, 60, STATUS_LIBRARY, "rank 0 has another secret");
    ends(&first, STATUS_LIBRARY, "; refused connections: 1 with a wrong secret");
}

/* Acts as rank 0 but does not have the secret: accepts a connection and answers with an invalid
 * proof. */
static void *pretend_rank_0(void *arg)
{
    struct addrinfo *list;
    bool loopback;
    int fd[SOCKET_ADDRESSES_MAX], n;
    char hello[112], challenge[36] = "amps", answer[36] = "";
    assert_int_equal(socket_resolve(arg, &list, &loopback), STATUS_OK);
    assert_int_equal(socket_listen(arg, list, fd, &n), STATUS_OK);
    freeaddrinfo(list);
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    int rank = accept(fd[0], NULL, NULL);
    assert_int_equal(send(rank, challenge, sizeof challenge, 0), sizeof challenge);
    assert_int_equal(socket_get_plain(rank, hello, sizeof hello, 60), STATUS_OK);
    assert_int_equal(send(rank, answer, sizeof answer, 0), sizeof answer);
    close(rank);
    close(fd[0]);
    return NULL;
}

static void test_an_impostor_of_rank_0_is_refused(void **state)
{
    char address[64];
    pthread_t impostor;
    free_address(address, sizeof address);
    assert_int_equal(pthread_create(&impostor, NULL, pretend_rank_0, address), 0);
    meets(address, 1, 2, "a", &own, 60, STATUS_LIBRARY, "does not know the secret of this job");
    pthread_join(impostor, NULL);
}

/* Rank 0 refuses ranks of another job, or of a job of another size, and a second process with the
 * number of a rank that has joined. */
static void test_only_the_ranks_of_a_job_join(void **state)
{
    char address[64];
    struct visitor first, second;
    free_address(address, sizeof address);
    start(&first, address, 0, 3, "a", &own, 60);
    close(connect_silently(address));
    meets(address, 0, 2, "b", &own, 60, STATUS_IO, "in use; give another port by --");
    meets(address, 1, 3, "b", &own, 60, STATUS_LIBRARY, "rank 0 belongs to another job");
    meets(address, 1, 2, "a", &own, 60, STATUS_LIBRARY, "rank 0 belongs to a job of another size");
    start(&second, address, 1, 3, "a", &own, 60);
    ends(&second, STATUS_OK, "");
    meets(address, 1, 3, "a", &own, 60, STATUS_LIBRARY,
          "rank 0 is already connected to another process with this number");
    meets(address, 2, 3, "a", &own, 60, STATUS_OK, "");
    ends(&first, STATUS_OK, "");
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
    static const struct {
        const char *host, *tcp, *tcp6;
    } cases[] = {
        {"127.0.0.1", "0100007F ", ""},
        {"[::1]", "", "00000000000000000000000001000000 "},
        {"localhost", "0100007F ", NULL},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char free4[64], address[64], found[256];
        struct visitor first;
        if (cases[i].host[0] == '[' && system("grep -qs '^0\\{31\\}1 ' /proc/net/if_inet6") != 0)
            continue; /* the machine has no IPv6 */
        free_address(free4, sizeof free4);
        const char *port = strchr(free4, ':') + 1;
        snprintf(address, sizeof address, "%s:%s", cases[i].host, port);
        start(&first, address, 0, 2, "", &none, 60);
        close(connect_silently(address));
        find_listeners("/proc/net/tcp", atoi(port), found, sizeof found);
        assert_string_equal(found, cases[i].tcp);
        find_listeners("/proc/net/tcp6", atoi(port), found, sizeof found);
        if (cases[i].tcp6)
            assert_string_equal(found, cases[i].tcp6);
        meets(address, 1, 2, "", &none, 60, STATUS_OK, "");
        ends(&first, STATUS_OK, "");
    }
}

static void test_a_secret_is_needed_beyond_loopback(void **state)
{
    static const char *const beyond[] = {"0.0.0.0:1", "[::]:1", "192.0.2.77:1"};
    int peer[2];
    for (int i = 0; i < COUNT(beyond); i++) {
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
        c.secret = &own;
        assert_int_equal(rendezvous_meet(&c, peer), STATUS_LIBRARY);
        c.secret = &none;
        c.insecure = true;
        assert_int_equal(rendezvous_meet(&c, peer), STATUS_LIBRARY);
    }
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",       "host",       "host:",   ":1",
                                      "host:0", "host:65536", "host:1x", "::1:1"};
    for (int i = 0; i < COUNT(bad); i++)
        meets(bad[i], 1, 2, "", &none, 0.1, STATUS_USAGE, "give HOST:PORT");
}

/* --- jobs that another library has connected --- */

static enum { HERE, ANYWHERE, MISLED } how;

/* The library is the communicator of the rank. In MISLED rank 2 receives other bytes than rank 0
 * has sent. */
static enum status share(void *context, void *data, size_t bytes)
{
    struct rank *r = context;
    struct comm_op op = {COMM_BROADCAST, .type = DTYPE_U8, .recv = data, .count = (int64_t)bytes};
    TRY(comm_run(r->c, &op));
    if (how == MISLED && comm_rank(r->c) == 2)
        memset((char *)data + bytes / 8, 0, bytes - bytes / 8);
    return STATUS_OK;
}

static void meet_again(struct rank *r)
{
    int peer[3], me = comm_rank(r->c), from;
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    rank_keep(r, control_meet(me, 3, how != ANYWHERE, 1, share, r, peer));
    for (int p = 0; p < 3; p++) {
        r->failures += (peer[p] >= 0) != (r->st == STATUS_OK && p != me && (p == 0 || me == 0));
        if (peer[p] < 0)
            continue;
        r->failures += socket_put(peer[p], &me, sizeof me, 60) != STATUS_OK ||
                       socket_get(peer[p], &from, sizeof from, 60) != STATUS_OK || from != p ||
                       getpeername(peer[p], (struct sockaddr *)&a, &size) != 0 ||
                       (how == HERE && a.sin_addr.s_addr != htonl(INADDR_LOOPBACK));
        close(peer[p]);
    }
}

static void test_ranks_that_are_connected_already(void **state)
{
    struct rank rank[3];
    for (how = HERE; how < MISLED; how++) {
        ranks_succeed(&local_transport, 3, meet_again);
    }
    /* A stop waits: a rank that ended here would leave the others waiting for it. */
    how = HERE;
    assert_int_equal(stop_take(SIGTERM), STOP_ORDERLY);
    ranks_succeed(&local_transport, 3, meet_again);
    stop_install();
    how = MISLED;
    ranks_run(rank, &local_transport, 3, 60, meet_again);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(rank[r].failures, 0);
        assert_int_equal(rank[r].st, STATUS_LIBRARY);
    }
    assert_non_null(strstr(rank[1].message, "rank 2 of 3 did not reach '127.0.0.1:"));
}

/* --- the secret --- */

#define SECRET "a secret of this test only"

/* Fails unless secret_read(file) gives SECRET or, if `wrong` is set, an error that contains it, but
 * not the secret. */
static void reads(const char *file, const char *wrong)
{
    struct secret s;
    assert_int_equal(secret_read(file, &s), wrong ? STATUS_USAGE : STATUS_OK);
    assert_int_equal(s.size, wrong ? 0 : strlen(SECRET));
    if (!wrong)
        assert_memory_equal(s.bytes, SECRET, strlen(SECRET));
    else if (!strstr(status_message(), wrong) || strstr(status_message(), SECRET))
        fail_msg("'%s' does not contain '%s', or contains the secret", status_message(), wrong);
}

static void test_files(void **state)
{
    char large[SECRET_MAX + 3] = "";
    memset(large, 'x', sizeof large - 1);
    const struct {
        const char *bytes;
        mode_t mode;
        const char *wrong;
    } cases[] = {
        {SECRET, 0400, NULL},
        {SECRET "\n", 0600, NULL},
        {SECRET, 0640, "other users have access"},
        {SECRET, 0604, "other users have access"},
        {SECRET, 0644, "other users have access"},
        {SECRET, 0660, "other users have access"},
        {SECRET, 0610, "other users have access"},
        {SECRET, 0666, "other users have access"},
        {"short", 0600, "has 5 bytes"},
        {"", 0600, "has 0 bytes"},
        {large, 0600, "bytes; give 16 to 1024"},
        {large + 1, 0600, "bytes; give 16 to 1024"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char path[] = "/tmp/ampscale-secret-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, cases[i].bytes, strlen(cases[i].bytes)), strlen(cases[i].bytes));
        assert_int_equal(fchmod(fd, cases[i].mode), 0);
        close(fd);
        reads(path, cases[i].wrong);
        unlink(path);
    }
    reads("/nonexistent", "No such file");
    reads("/dev/null", "not a regular file");
}

static void test_variable(void **state)
{
    struct secret s;
    unsetenv(SECRET_VARIABLE);
    assert_int_equal(secret_read(NULL, &s), STATUS_OK);
    assert_int_equal(s.size, 0);
    setenv(SECRET_VARIABLE, SECRET, 1);
    reads(NULL, NULL);
    setenv(SECRET_VARIABLE, "too short", 1);
    reads(NULL, "the secret in AMPSCALE_SECRET has 9 bytes");
}

static void is_hex(const unsigned char digest[DIGEST_BYTES], const char *expected)
{
    char hex[2 * DIGEST_BYTES + 1];
    for (int i = 0; i < DIGEST_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, expected);
}

/* Compares proofs with values that Python's hmac and hashlib computed. */
static void test_proofs(void **state)
{
    unsigned char proof[DIGEST_BYTES], second[DIGEST_BYTES];
    secret_proof(&own, "ampscale rank", "data", 4, proof);
    is_hex(proof, "3344917f00f14c99e8c275656f6e5a648350d27e9db5f023e09c11f585dfd523");
    secret_proof(&own, "ampscale rank 0", "data", 4, second);
    assert_false(digest_equal(proof, second));
    memcpy(second, proof, sizeof second);
    assert_true(digest_equal(proof, second));
    second[DIGEST_BYTES - 1] ^= 1;
    assert_false(digest_equal(proof, second));
    digest_text("runs/a", proof);
    is_hex(proof, "7c3ea94701224bf102dccf8a52263e70caa85d685236b2d2d645a93652792270");
    assert_int_equal(nonce_make(proof), STATUS_OK);
    assert_int_equal(nonce_make(second), STATUS_OK);
    assert_false(digest_equal(proof, second));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_ranks),
        cmocka_unit_test(test_a_node_returns),
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_silent_clients_keep_no_rank_out),
        cmocka_unit_test(test_wrong_secrets_are_refused),
        cmocka_unit_test(test_an_impostor_of_rank_0_is_refused),
        cmocka_unit_test(test_only_the_ranks_of_a_job_join),
        cmocka_unit_test(test_only_the_named_address_listens),
        cmocka_unit_test(test_a_secret_is_needed_beyond_loopback),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_ranks_that_are_connected_already),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_variable),
        cmocka_unit_test(test_proofs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
