/* Chooses the training mode, and checks what it requires. */
#include "engine/mode.h"

const char *train_mode_str(enum train_mode m)
{
    static const char *const name[MODE_COUNT] = {"auto", "nd", "dp", "ddp", "ddp2"};
    return name[m];
}

bool train_mode_is_alone(enum train_mode m)
{
    return m == MODE_ND || m == MODE_DP;
}

enum status train_mode_settle(enum train_mode *mode, const struct device_list *devices,
                              const char *named, bool launched)
{
    bool many = devices->n > 1;
    if (*mode == MODE_AUTO)
        *mode = launched ? (many ? MODE_DDP2 : MODE_DDP) : (many ? MODE_DP : MODE_ND);
    bool processes = !train_mode_is_alone(*mode), shared = *mode == MODE_DP || *mode == MODE_DDP2;
    const char *name = train_mode_str(*mode);
    if (processes && !launched)
        return status_fail(STATUS_USAGE,
                           "--mode %s needs several processes: start them with 'ampscale launch "
                           "--nproc N -- train ...', mpirun or srun",
                           name);
    if (!processes && launched)
        return status_fail(STATUS_USAGE,
                           "--mode %s is for one process, but a launcher started several; use "
                           "--mode ddp, or start one process without the launcher",
                           name);
    if (many && !shared)
        return status_fail(
            STATUS_USAGE, "--mode %s needs one device per process, not --devices %s; use --mode %s",
            name, named, processes ? "ddp2" : "dp");
    if (!many && shared)
        return status_fail(
            STATUS_USAGE,
            "--mode %s needs several devices per process; name them, as in --devices cpu:2", name);
    return STATUS_OK;
}
