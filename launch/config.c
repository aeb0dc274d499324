/* Checking what a launch was told. */
#include "launch/launch.h"

#include "launch/command.h"

enum status launch_config_check(struct launch_config *c)
{
    int slots = launch_hosts_slots(&c->hosts);
    if (c->nproc == 0)
        c->nproc = slots;
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
