/* Flags of PyTorch's training scripts: the imagenet script of pytorch/examples, Apex's script, and
 * scripts that torch.distributed.launch starts.
 *
 * As in these scripts, --world-size and --rank count processes. With --multiprocessing-distributed
 * they count nodes, and each node starts a process for each of its devices. */
#include "cli/train.h"

#include "base/launcher.h"
#include "base/process.h"
#include "base/text.h"
#include "base/words.h"
#include "kernels/device_list.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRAIN_GROUP_TORCH = TRAIN_GROUP_RUN + 1 };
#define SETTINGS_OF struct train_command
#define TORCH       .group = TRAIN_GROUP_TORCH

/* Takes one or more GPUs: "0" or "0,1". The flag can be given several times. */
static enum status take_gpus(const struct setting *s, const char *text, void *command)
{
    struct torch_flags *f = &((struct train_command *)command)->torch;
    const char *at = text;
    do {
        char *end;
        long n = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (n < 0 || n > 1023 || (*end && *end != ','))
            return status_fail(STATUS_USAGE, "--%s '%s': give numbers of GPUs, as in 0,1", s->flag,
                               text);
        if (f->gpus == TORCH_GPUS_MAX)
            return status_fail(STATUS_USAGE, "--%s: more than %d GPUs", s->flag, TORCH_GPUS_MAX);
        f->gpu[f->gpus++] = (int)n;
        at = *end ? end + 1 : NULL;
    } while (at);
    return STATUS_OK;
}

static enum status take_amp(const struct setting *s, const char *text, void *command)
{
    (void)s, (void)text;
    ((struct train_command *)command)->config.precision = "amp";
    return STATUS_OK;
}

/* Takes a command, or the name of a Python function, such as "mysave.save_to_s3". */
static enum status take_transfer(const struct setting *s, const char *text, void *command)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    struct train_command *t = command;
    const char *dot = strrchr(text, '.');
    t->config.on_save = text;
    if (!dot || dot == text || !dot[1] || text[strspn(text, letters)] != '\0')
        return STATUS_OK;
    bool whole = text_append(
        t->torch.transfer, sizeof t->torch.transfer,
        "python3 -c 'import glob, os, sys; sys.path.insert(0, \"\"); from %.*s import %s as save\n"
        "for path in sorted(glob.glob(os.environ[\"AMPSCALE_RUN\"] + \"/*\")):\n"
        "    if os.path.isfile(path): save(path)'",
        (int)(dot - text), text, dot + 1);
    t->config.on_save = t->torch.transfer;
    return whole ? STATUS_OK : status_fail(STATUS_USAGE, "--%s '%s' is too long", s->flag, text);
}

static enum status refuse_pretrained(const struct setting *s, const char *text, void *command)
{
    (void)s, (void)text, (void)command;
    return status_fail(STATUS_USAGE,
                       "--pretrained: no weights are downloaded; give --init FILE, a safetensors "
                       "file of torchvision's weights");
}

const struct setting torch_settings[] = {
    {TORCH, .help = "As in PyTorch's scripts"},
    {"dataroot", 0, "DIR", NULL, "DATA", AS_TEXT(config.data), TORCH, .aliases = {"data-dir"}},
    {"gpu", 0, "N", NULL, "GPU to use, as with --devices cuda:N; --devices overrides it",
     TAKEN_BY(take_gpus), TORCH},
    {"gpu-ids", 0, "N", NULL,
     "GPU of this process; may be given several times; if LOCAL_RANK is set, the process takes the "
     "GPU with that index",
     TAKEN_BY(take_gpus), TORCH},
    {"local-rank", 0, "N", NULL, "LOCAL_RANK, as torch.distributed.launch gives it",
     AS_INTEGER(torch.local_rank, -1, LAUNCHER_RANKS_MAX), TORCH},
    {"dist-url", 0, "env://|tcp://HOST:PORT", NULL,
     "Address at which the processes connect (default: MASTER_ADDR and MASTER_PORT)",
     AS_TEXT(torch.url), TORCH},
    {"dist-backend", 0, "nccl|gloo|mpi", "nccl",
     "nccl: --comm auto; gloo: --comm gloo, or host without Gloo; mpi: --comm mpi",
     AS_CHOICE(torch.backend), GIVEN(torch.backend_named), TORCH},
    {"world-size", 0, "N", NULL,
     "Number of processes of the job; with --multiprocessing-distributed, number of nodes",
     AS_INTEGER(torch.world_size, -1, LAUNCHER_RANKS_MAX), TORCH},
    {"rank", 0, "N", NULL, "Rank of this process, or of this node",
     AS_INTEGER(torch.rank, -1, LAUNCHER_RANKS_MAX), TORCH},
    {"multiprocessing-distributed", 0, NULL, NULL,
     "Start a process for each of --devices, or for each GPU with --devices cuda",
     AS_SWITCH(torch.multiprocessing), TORCH},
    {"amp", 0, NULL, NULL, "--precision amp", TAKEN_BY(take_amp), TORCH},
    {"channels-last", 0, NULL, NULL, "No effect: each device has the layout that is fastest on it",
     AS_SWITCH(torch.channels_last), TORCH},
    {"remote", 0, "True|False", NULL,
     "No effect: the record is always written, and 'ampscale watch' can read it on any machine",
     AS_CHOICE(torch.remote), TORCH},
    {"remote-transfer-cmd", 0, "CMD", NULL,
     "--on-save; MODULE.FUNCTION of Python is called with the path of each saved file",
     TAKEN_BY(take_transfer), TORCH},
    {"pretrained", 0, NULL, NULL, "Refused: give weights by --init", TAKEN_BY(refuse_pretrained),
     TORCH, .traits = SETTING_HIDDEN},
    {0},
};

/* Returns the index of this process among the processes of its node, or -1 if it is not known. */
static int local_rank(const struct torch_flags *f)
{
    struct launcher_place place;
    if (launcher_is_local_rank() && launcher_place_find(&place) == STATUS_OK)
        return place.local_rank;
    return f->local_rank;
}

/* Sets the devices from --gpu and --gpu-ids. */
static enum status settle_gpus(struct torch_flags *f, struct train_config *c)
{
    int own = local_rank(f);
    bool shared = c->mode == MODE_DP || c->mode == MODE_DDP2 || f->multiprocessing;
    if (f->gpus == 0 || c->devices_named)
        return STATUS_OK;
    if (own >= f->gpus && f->gpus > 1)
        return status_fail(STATUS_USAGE,
                           "--gpu-ids: %d GPUs were given, but this process has local rank %d",
                           f->gpus, own);
    bool single = own >= 0 && f->gpus > 1 && !shared;
    text_append(f->devices, sizeof f->devices, "cuda:%d", f->gpu[single ? own : 0]);
    for (int i = 1; i < f->gpus && !single; i++)
        text_append(f->devices, sizeof f->devices, ",%d", f->gpu[i]);
    c->devices = f->devices;
    return STATUS_OK;
}

/* Sets --comm to the value that --dist-backend requires. */
static enum status settle_backend(const struct torch_flags *f, struct train_config *c)
{
    bool gpu = strncmp(c->devices, "cuda", 4) == 0;
    const struct gloo_port *port;
    if (!f->backend_named)
        return STATUS_OK;
    if (f->backend == TORCH_MPI && !launcher_is_mpi())
        return status_fail(STATUS_USAGE,
                           "--dist-backend mpi: start the processes by mpirun, as in 'mpirun -n 4 "
                           "ampscale train ...'; without mpirun give gloo or nccl");
    if (f->backend == TORCH_GLOO && c->comm == VIA_AUTO)
        c->comm = launcher_is_mpi() || comm_gloo_find(&port) != STATUS_OK ? VIA_HOST : VIA_GLOO;
    if (f->backend == TORCH_MPI && c->comm == VIA_AUTO)
        c->comm = VIA_MPI;
    if (f->backend == TORCH_NCCL && !gpu && (f->world_size > 1 || launcher_is_local_rank()))
        fprintf(stderr,
                "ampscale: warning: --dist-backend nccl is for GPUs: gradients of "
                "--devices %s go through the memory of the host\n",
                c->devices);
    return STATUS_OK;
}

/* Finds the address at which the ranks connect: "" if there is no URL and no variable names one. */
static enum status find_address(struct torch_flags *f)
{
    static const char tcp[] = "tcp://", env[] = "env://";
    if (!f->url || strcmp(f->url, env) == 0) {
        launcher_address(f->address); /* "" if the variables are not set */
        return STATUS_OK;
    }
    if (strncmp(f->url, tcp, sizeof tcp - 1) != 0)
        return status_fail(STATUS_USAGE, "--dist-url '%s': give env:// or tcp://HOST:PORT", f->url);
    if (!text_append(f->address, sizeof f->address, "%s", f->url + sizeof tcp - 1))
        return status_fail(STATUS_USAGE, "--dist-url '%.40s...': too long", f->url);
    return STATUS_OK;
}

static enum status check_rank(const struct torch_flags *f, const char *of)
{
    if (f->rank >= f->world_size)
        return status_fail(STATUS_USAGE, "--rank %d is too high: --world-size %d has %s 0 to %d",
                           f->rank, f->world_size, of, f->world_size - 1);
    if (f->world_size > 1 && !*f->address)
        return status_fail(
            STATUS_USAGE,
            "--world-size %d: no address to connect at; give --dist-url tcp://HOST:PORT, "
            "or set MASTER_ADDR and MASTER_PORT",
            f->world_size);
    return STATUS_OK;
}

/* Sets the local rank of `place` to --local-rank, unless `place` already has a local rank. */
static void add_local_rank(const struct torch_flags *f, struct launcher_place *place)
{
    if (place->local_size > 0 || f->local_rank < 0)
        return;
    place->local_rank = f->local_rank;
    place->local_size = f->local_rank + 1;
}

/* Sets, from the flags, the place of this process in its job. Values that the flags do not set come
 * from the launcher. */
static enum status settle_place(const struct torch_flags *f, struct train_config *c)
{
    struct launcher_place given;
    bool launched = launcher_place_find(&given) == STATUS_OK && given.size > 0;
    bool url = f->url && *f->address && strcmp(f->url, "env://") != 0;
    if (f->backend == TORCH_MPI || (launcher_is_mpi() && !url))
        return STATUS_OK;
    TRY(f->world_size > 0 ? check_rank(f, "ranks") : STATUS_OK);
    if (f->world_size == 1 && !launched)
        return STATUS_OK; /* as in PyTorch's scripts, a job of one process is not distributed */
    bool placed = f->world_size > 0 && f->rank >= 0;
    if (!placed && !launched && (f->world_size > 0 || f->rank >= 0))
        return status_fail(STATUS_USAGE, "--world-size and --rank: give both, or RANK and "
                                         "WORLD_SIZE in the environment");
    if (placed)
        c->place = (struct launcher_place){.rank = f->rank, .size = f->world_size};
    else if (f->local_rank >= 0 && launched)
        c->place = given;
    add_local_rank(f, &c->place);
    if ((url || placed) && *f->address && !c->rendezvous)
        c->rendezvous = f->address;
    return STATUS_OK;
}

/* Reduces --devices to the device of this rank: the device with index `own` in the list. */
static enum status take_own_device(struct torch_flags *f, struct train_config *c, int own)
{
    struct device_list list;
    TRY(device_list_parse(c->devices, &list));
    bool all = strcmp(list.backend->name, "cuda") == 0 && !list.numbered;
    if (own >= list.n && !all)
        return status_fail(
            STATUS_USAGE,
            "--devices %s: the number of devices is %d, but this process has local rank %d",
            c->devices, list.n, own);
    int n = snprintf(f->devices, sizeof f->devices, "%s", list.backend->name);
    if (list.numbered)
        snprintf(f->devices + n, sizeof f->devices - (size_t)n, ":%d", list.index[own]);
    c->devices = f->devices;
    return STATUS_OK;
}

/* Adds the flags of `ampscale launch` for this node. */
static enum status add_launch(const struct torch_flags *f, int ranks, struct words *w)
{
    TRY(words_add_all(w, "ampscale", "launch", NULL));
    TRY(words_add_flag(w, "--nproc-per-node", "%d", ranks));
    TRY(words_add_flag(w, "--nnodes", "%d", f->world_size));
    TRY(words_add_flag(w, "--node-rank", "%d", f->rank));
    if (*f->address)
        TRY(words_add_flag(w, "--rendezvous", "%s", f->address));
    return words_add_all(w, "--", "train", NULL);
}

/* Counts the GPUs of this machine up to the last usable GPU. Tries the highest index first:
 * opening a GPU that does not exist fails at once, and loads nothing onto the other GPUs. */
static enum status count_gpus(int *n)
{
    char spec[24];
    struct device *dev;
    for (*n = DEVICES_MAX;; --*n) {
        snprintf(spec, sizeof spec, "cuda:%d", *n - 1);
        enum status st = device_open(spec, 1, &dev);
        if (st == STATUS_OK)
            device_close(dev);
        if (st == STATUS_OK || *n == 1)
            return st;
    }
}

/* Replaces this process by `ampscale launch`, which starts the ranks of this node. Returns only on
 * failure. */
static enum status start_ranks(struct torch_flags *f, const struct train_config *c, int argc,
                               char **argv)
{
    char program[PATH_MAX];
    struct device_list list;
    struct words w = {0};
    enum status st;
    f->world_size = f->world_size > 0 ? f->world_size : 1;
    f->rank = f->rank < 0 && f->world_size == 1 ? 0 : f->rank;
    TRY(check_rank(f, "nodes"));
    if (f->rank < 0)
        return status_fail(STATUS_USAGE,
                           "--world-size %d nodes: give the rank of this node by --rank",
                           f->world_size);
    TRY(device_list_parse(c->devices, &list));
    if (strcmp(list.backend->name, "cuda") == 0 && !list.numbered)
        TRY(count_gpus(&list.n));
    CHECK(process_own_file(program, sizeof program));
    CHECK(add_launch(f, list.n, &w));
    CHECK(words_add_list(&w, argc - 1, argv + 1));
    execv(program, w.v);
    st = status_fail(STATUS_IO, "cannot start '%s': %s", program, strerror(errno));
done:
    words_free(&w);
    return st;
}

enum status torch_settle(struct train_command *t, int argc, char **argv)
{
    struct torch_flags *f = &t->torch;
    struct train_config *c = &t->config;
    TRY(settle_gpus(f, c));
    TRY(find_address(f));
    TRY(settle_backend(f, c));
    if (!f->multiprocessing)
        return settle_place(f, c);
    if (strncmp(f->address, "file:", 5) == 0)
        return status_fail(STATUS_USAGE,
                           "--dist-url '%s': with --multiprocessing-distributed give "
                           "tcp://HOST:PORT",
                           f->url);
    if (!launcher_is_local_rank())
        return start_ranks(f, c, argc, argv);
    return take_own_device(f, c, local_rank(f));
}
