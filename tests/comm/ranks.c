/* Runs the ranks of a communicator as threads of one test process. */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void *run_body(void *arg)
{
    struct rank *r = arg;
    r->body(r);
    return NULL;
}

void ranks_run(struct rank *rank, int size)
{
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_create(&rank[r].thread, NULL, run_body, &rank[r]), 0);
    for (int r = 0; r < size; r++)
        pthread_join(rank[r].thread, NULL);
}

void rank_keep(struct rank *r, enum status st)
{
    r->st = st;
    if (st != STATUS_OK)
        snprintf(r->message, sizeof r->message, "%s", status_message());
}
