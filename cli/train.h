/* Inside cli/: the values of `ampscale train`'s command line. */
#pragma once

#include "cli/cli.h"
#include "export/live.h"
#include "runners/settings.h"

enum torch_backend { TORCH_NCCL, TORCH_GLOO, TORCH_MPI };
enum { TORCH_GPUS_MAX = 64 };

/* Flags of PyTorch's scripts that determine other settings. */
struct torch_flags {
    int gpu[TORCH_GPUS_MAX], gpus; /* --gpu, --gpu-ids */
    int local_rank;                /* -1: not given */
    const char *url;
    enum torch_backend backend;
    bool backend_named, multiprocessing;
    int world_size, rank;                             /* -1: not given */
    int remote;                                       /* has no effect */
    bool channels_last;                               /* has no effect */
    char transfer[512];                               /* --remote-transfer-cmd as a command */
    char devices[512], address[LAUNCHER_ADDRESS_MAX]; /* set by torch_settle */
};

struct train_command {
    struct train_config config;
    struct live_config live;
    struct torch_flags torch;
};

extern const struct setting torch_settings[];

/* Checks a command line of `ampscale train` without training; argv[0] is "ampscale train".
 * STATUS_USAGE: train refuses it. Data, files and devices are not looked for. */
MUST_CHECK enum status train_check_line(int argc, char **argv);

/* Sets, from the flags of PyTorch's scripts, the devices and the place of this process in its job.
 * With --multiprocessing-distributed the function replaces the process by `ampscale launch`, which
 * starts the ranks of this node with the same command line. */
MUST_CHECK enum status torch_settle(struct train_command *t, int argc, char **argv);
