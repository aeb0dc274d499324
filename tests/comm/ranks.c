#include "ranks.h"

#include "tests/kernels/stream_backend.h"
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

/* --- transports --- */

static enum status open_local(struct job *job, int first)
{
    return comm_open_local(job->each, job->timeout_s, &job->c[first]);
}

enum status job_open_devices(struct job *job, int first)
{
    for (int i = first; i < first + job->each; i++)
        TRY(stream_device_open(&job->dev[i]));
    return STATUS_OK;
}

static enum status open_staged(struct job *job, int first)
{
    TRY(comm_open_local(job->each, job->timeout_s, job->below));
    TRY(job_open_devices(job, first));
    return comm_open_staged(job->each, job->below, &job->dev[first], &job->c[first]);
}

static struct comm_tcp_config tcp_config(const struct job *job, int rank)
{
    return (struct comm_tcp_config){
        .address = job->address, .rank = rank, .size = job->size, .timeout_s = job->timeout_s};
}

/* Rank 0 starts last: the first connection attempts of the other ranks are refused. */
static enum status open_tcp(struct job *job, int first)
{
    const struct comm_tcp_config config = tcp_config(job, first);
    if (first == 0)
        usleep(50000);
    return comm_open_tcp(&config, &job->c[first]);
}

static enum status open_gloo(struct job *job, int first)
{
    const struct gloo_port *port;
    const struct comm_tcp_config config = tcp_config(job, first);
    TRY(comm_gloo_find(&port));
    TRY(open_tcp(job, first));
    struct comm *control = job->c[first];
    enum status st = comm_open_gloo(port, control, &config, &job->c[first]);
    if (st != STATUS_OK)
        job->c[first] = control; /* ranks_run closes it */
    return st;
}

const struct transport local_transport = {"local", false, 0, open_local};
const struct transport staged_transport = {"local, staged through host memory", false, 0,
                                           open_staged};
const struct transport tcp_transport = {"tcp", true, 1, open_tcp};
const struct transport gloo_transport = {"gloo", true, 1, open_gloo};

bool transport_is_missing(const struct transport *t)
{
    return t == &gloo_transport && !getenv("AMPSCALE_GLOO_MODULE");
}

void free_address(char *out, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
    snprintf(out, size, "127.0.0.1:%d", ntohs(a.sin_port));
    close(fd);
}

/* --- ranks --- */

void rank_keep(struct rank *r, enum status st)
{
    r->st = st;
    if (st != STATUS_OK)
        snprintf(r->message, sizeof r->message, "%s", status_message());
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    r->body(r);
    return NULL;
}

struct process {
    struct job *job;
    int first;
    pthread_t thread;
    pid_t pid;
};

static void *run_process(void *arg)
{
    const struct process *p = arg;
    struct rank *rank = &p->job->rank[p->first];
    int each = p->job->each;
    enum status st = p->job->transport->open(p->job, p->first);
    for (int i = 0; i < each; i++) {
        rank[i].c = p->job->c[p->first + i];
        rank[i].dev = p->job->dev[p->first + i];
        rank_keep(&rank[i], st);
    }
    for (int i = 0; i < each && st == STATUS_OK; i++)
        assert_int_equal(pthread_create(&rank[i].thread, NULL, run_rank, &rank[i]), 0);
    for (int i = 0; i < each && st == STATUS_OK; i++)
        pthread_join(rank[i].thread, NULL);
    for (int i = 0; i < each; i++)
        comm_close(rank[i].c);
    return NULL;
}

static void start(struct process *p)
{
    if (!p->job->transport->forks) {
        assert_int_equal(pthread_create(&p->thread, NULL, run_process, p), 0);
        return;
    }
    fflush(NULL);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_process(p);
        exit(0);
    }
}

/* Waits for the process, unless its rank is lost. A process that crashes is a failure of its rank.
 */
static void end(struct process *p)
{
    struct rank *rank = &p->job->rank[p->first];
    int status = 0;
    pid_t ended = 0;
    if (!p->job->transport->forks) {
        pthread_join(p->thread, NULL);
        return;
    }
    while (!rank->lost && (ended = waitpid(p->pid, &status, WNOHANG)) == 0)
        usleep(5000);
    p->pid = ended == 0 ? p->pid : 0;
    rank->failures += status != 0;
}

void ranks_run(struct rank *rank, const struct transport *t, int size, double timeout_s,
               void (*body)(struct rank *))
{
    size_t bytes = (size_t)size * sizeof *rank;
    struct job job = {
        .transport = t, .size = size, .each = t->each > 0 ? t->each : size, .timeout_s = timeout_s};
    struct process process[RANKS_MAX];
    int processes = size / job.each;
    job.rank = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(job.rank, MAP_FAILED);
    free_address(job.address, sizeof job.address);
    assert_int_equal(comm_open_local(processes, 60, job.between), STATUS_OK);
    for (int i = 0; i < size; i++)
        job.rank[i].body = body;
    for (int i = 0; i < processes; i++) {
        process[i] = (struct process){.job = &job, .first = i * job.each};
        start(&process[i]);
    }
    for (int i = 0; i < processes; i++)
        end(&process[i]);
    for (int i = 0; i < processes; i++)
        if (process[i].pid > 0) { /* lost */
            kill(process[i].pid, SIGKILL);
            waitpid(process[i].pid, NULL, 0);
        }
    for (int i = 0; i < RANKS_MAX; i++) {
        comm_close(job.between[i]);
        comm_close(job.below[i]);
    }
    memcpy(rank, job.rank, bytes);
    munmap(job.rank, bytes);
    for (int i = 0; i < size; i++)
        device_close(rank[i].dev);
}

void ranks_succeed(const struct transport *t, int size, void (*body)(struct rank *))
{
    struct rank rank[RANKS_MAX];
    if (transport_is_missing(t))
        return;
    ranks_run(rank, t, size, 60, body);
    for (int i = 0; i < size; i++) {
        assert_string_equal(rank[i].message, "");
        assert_int_equal(rank[i].st, STATUS_OK);
        assert_int_equal(rank[i].failures, 0);
    }
}
