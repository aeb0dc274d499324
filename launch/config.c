/* Checking what a launch was told. */
#include "launch/launch.h"

#include "launch/command.h"

#include <stdlib.h>

/* The tasks that a Slurm allocation was asked for; 0 where there is none, or no number was named.
 */
static int allocated_tasks(void)
{
    const char *text = getenv("SLURM_NTASKS");
    int n = text ? atoi(text) : 0;
    return n > 0 && n <= HOST_SLOTS_MAX ? n : 0;
}

enum status launch_config_check(struct launch_config *c)
{
    int slots = launch_hosts_slots(&c->hosts);
    if (c->nproc == 0)
        c->nproc = c->hosts.n > 0 ? slots : allocated_tasks();
    if (c->nproc == 0)
        return status_fail(STATUS_USAGE, "how many ranks? give --nproc, --hosts or --hostfile");
    if (slots > 0 && c->nproc > slots)
        return status_fail(STATUS_USAGE, "--nproc %d: the hosts have %d slot%s", c->nproc, slots,
                           slots > 1 ? "s" : "");
    if (c->restarts > 0 && !launch_command_value(c->argc, c->argv, "--out"))
        return status_fail(STATUS_USAGE,
                           "--restarts goes on from the run's checkpoint; name its folder by "
                           "'train --out DIR'");
    return STATUS_OK;
}
