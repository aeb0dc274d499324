#include "tcp_ranks.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

void tcp_rank_keep(struct tcp_rank *r, enum status st)
{
    r->st = st;
    if (st != STATUS_OK)
        snprintf(r->message, sizeof r->message, "%s", status_message());
}

void *tcp_rank_run(void *arg)
{
    struct tcp_rank *r = arg;
    struct comm *control;
    const struct timespec late = {.tv_nsec = 200000000};
    if (r->config.rank == 0)
        nanosleep(&late, NULL);
    tcp_rank_keep(r, comm_open_tcp(&r->config, &control));
    r->c = control;
    if (r->st == STATUS_OK && r->gloo) {
        tcp_rank_keep(r, comm_open_gloo(r->gloo, control, &r->config, &r->c));
        if (r->st != STATUS_OK)
            comm_close(control);
    }
    if (r->st == STATUS_OK)
        r->body(r);
    comm_close(r->c);
    return NULL;
}

void tcp_free_address(char *out, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
    snprintf(out, size, "127.0.0.1:%d", ntohs(a.sin_port));
    close(fd);
}

void tcp_ranks_run(struct tcp_rank *rank, int present, int size, double timeout_s,
                   const struct gloo_port *gloo, void (*body)(struct tcp_rank *))
{
    char address[64];
    tcp_free_address(address, sizeof address);
    for (int i = 0; i < present; i++) {
        rank[i] = (struct tcp_rank){
            .config = {.address = address, .rank = i, .size = size, .timeout_s = timeout_s},
            .gloo = gloo,
            .body = body};
        assert_int_equal(pthread_create(&rank[i].thread, NULL, tcp_rank_run, &rank[i]), 0);
    }
    for (int i = 0; i < present; i++)
        pthread_join(rank[i].thread, NULL);
}

void tcp_rank_leave_1(struct tcp_rank *r)
{
    struct comm_op op = {COMM_BARRIER};
    tcp_rank_keep(r, comm_run(r->c, &op));
    if (comm_rank(r->c) != 1)
        tcp_rank_keep(r, comm_run(r->c, &op));
}

static void check_all(const struct gloo_port *gloo, void (*body)(struct tcp_rank *), enum status st,
                      const char *message)
{
    struct tcp_rank rank[TCP_RANKS];
    tcp_ranks_run(rank, TCP_RANKS, TCP_RANKS, 60, gloo, body);
    for (int i = 0; i < TCP_RANKS; i++) {
        assert_string_equal(rank[i].message, message);
        assert_int_equal(rank[i].st, st);
    }
}

static void fail_on(struct tcp_rank *r, int rank)
{
    struct comm_op op = {COMM_BARRIER};
    if (comm_rank(r->c) == rank)
        comm_fail(r->c, STATUS_DATA, "cannot read 'x'");
    tcp_rank_keep(r, comm_run(r->c, &op));
}

static void fail_on_rank_2(struct tcp_rank *r)
{
    fail_on(r, 2);
}

static void fail_on_rank_0(struct tcp_rank *r)
{
    fail_on(r, 0);
}

void tcp_ranks_check_failure(const struct gloo_port *gloo)
{
    check_all(gloo, fail_on_rank_2, STATUS_DATA, "rank 2: cannot read 'x'");
    check_all(gloo, fail_on_rank_0, STATUS_DATA, "rank 0: cannot read 'x'");
}

static void differ_on_rank_1(struct tcp_rank *r)
{
    float x[2] = {0};
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,  DTYPE_F32,
                         .send = x,      .recv = x, .count = comm_rank(r->c) == 1 ? 2 : 1};
    tcp_rank_keep(r, comm_run(r->c, &op));
}

void tcp_ranks_check_disagreement(const struct gloo_port *gloo)
{
    check_all(gloo, differ_on_rank_1, STATUS_INVALID,
              "rank 1 started operation 1 (allreduce) of 2 elements where rank 0 started "
              "operation 1 (allreduce) of 1 elements");
}
