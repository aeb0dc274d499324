/* Flags of other programs, and the flags of ampscale that replace them. */
#include "cli/cli.h"

#include <string.h>

/* Beginnings of explanations. The first six name the program from which the flag is known. */
#define PYTORCH     "of PyTorch's programs; here "
#define HOROVOD     "Horovod's; here "
#define LIGHTNING   "Lightning's; here "
#define TIMM        "timm's; here "
#define TORCHVISION "torchvision's; here "
#define APEX        "of Apex's example; here "
#define LAUNCHES    "it belongs to the launcher: put it before the command, as in 'ampscale launch "
#define TRAINS      "it belongs to the command: put it after 'train'"

struct foreign {
    const char *name, *here;
};

static const struct foreign of_train[] = {
    {"accelerator", LIGHTNING "--devices cuda or cpu"},
    {"accumulate-grad-batches", LIGHTNING "--accumulate"},
    {"base-lr", HOROVOD "--lr"},
    {"batches-per-allreduce", HOROVOD "--accumulate"},
    {"benchmark", "plans are timed and cached; only --deterministic chooses plans without timing"},
    {"check-val-every-n-epoch", LIGHTNING "--val-every"},
    {"checkpoint-format", HOROVOD "--out names the folder of the run"},
    {"clip-grad", TIMM "--clip-grad-norm"},
    {"data-path", TORCHVISION "the folder is an argument without a flag"},
    {"decay-rate", TIMM "--lr-gamma"},
    {"default-root-dir", LIGHTNING "--out"},
    {"device", PYTORCH "--devices"},
    {"distributed-backend", LIGHTNING "--mode dp, ddp or ddp2"},
    {"fp16", "half precision is --precision amp"},
    {"fp16-allreduce", HOROVOD "--grad-compress fp16"},
    {"gpus", LIGHTNING "--devices cuda:0,1 in one process, or launch --nproc-per-node 2"},
    {"gradient-clip-val", LIGHTNING "--clip-grad-norm"},
    {"gradient-predivide-factor", HOROVOD "gradients are always averaged"},
    {"initial-checkpoint", TIMM "--init"},
    {"limit-train-batches", LIGHTNING "--steps"},
    {"log-dir", "--tensorboard DIR is for TensorBoard's events, launch --log-dir for ranks' logs"},
    {"log-every-n-steps", LIGHTNING "--print-freq"},
    {"log-interval", HOROVOD "--print-freq"},
    {"lr-base", TIMM "--lr with --lr-scale linear"},
    {"lr-cycle-decay", TIMM "--lr-gamma"},
    {"lr-scheduler", TORCHVISION "--lr-schedule"},
    {"lr-step-size", TORCHVISION "--lr-step"},
    {"lr-warmup-epochs", TORCHVISION "--warmup-epochs"},
    {"max-epochs", LIGHTNING "--epochs"},
    {"max-steps", LIGHTNING "--steps"},
    {"milestones", PYTORCH "--lr-milestones"},
    {"mixup-alpha", TORCHVISION "--mixup"},
    {"model", TORCHVISION "--arch"},
    {"model-ema", "averaged weights (EMA) are not supported"},
    {"nproc-per-node", LAUNCHES "--nproc-per-node 4 train ...'"},
    {"nnodes", LAUNCHES "--nnodes 2 train ...'"},
    {"node-rank", LAUNCHES "--node-rank 0 train ...'"},
    {"np", LAUNCHES "-np 4 train ...'"},
    {"num-classes", TIMM "--classes, for --dummy; a data set has one class per folder"},
    {"num-gpus", "--devices cuda:0,1 in one process, or launch --nproc-per-node 2"},
    {"num-nodes", LIGHTNING "launch --nnodes"},
    {"num-workers", PYTORCH "--workers"},
    {"optimizer", "the optimizer is SGD with momentum, or --lars"},
    {"opt", "the optimizer is SGD with momentum, or --lars"},
    {"output", TIMM "--out"},
    {"output-dir", TORCHVISION "--out"},
    {"print-every", PYTORCH "--print-freq"},
    {"prof", APEX "'ampscale bench profile'"},
    {"resume-from-checkpoint", LIGHTNING "--resume"},
    {"static-loss-scale", APEX "--loss-scale"},
    {"dynamic-loss-scale", APEX "--loss-scale dynamic"},
    {"strategy", LIGHTNING "--mode dp, ddp or ddp2"},
    {"sync-batchnorm", LIGHTNING "--sync-bn"},
    {"test-batch-size", PYTORCH "--val-batch-size"},
    {"test-only", TORCHVISION "--evaluate"},
    {"total-epochs", PYTORCH "--epochs"},
    {"train-dir", HOROVOD "the folder of train/ and val/ is an argument without a flag"},
    {"use-adasum", "gradients are averaged; Adasum is not supported"},
    {"use-syncbn", PYTORCH "--sync-bn"},
    {"val-check-interval", LIGHTNING "--val-every, in epochs"},
    {"val-dir", HOROVOD "the folder of train/ and val/ is an argument without a flag"},
    {0},
};

static const struct foreign of_launch[] = {
    {"arch", TRAINS},
    {"batch-size", TRAINS},
    {"epochs", TRAINS},
    {"gpus-per-node", "for one rank per GPU give --nproc-per-node"},
    {"host", "of mpirun; here --hosts"},
    {"min-np", HOROVOD "--min-nodes, in nodes"},
    {"max-np", HOROVOD "--nnodes MIN:MAX, in nodes"},
    {"module", "only commands of ampscale are launched, as in 'ampscale launch -np 4 train ...'"},
    {"network-interface", HOROVOD "NCCL_SOCKET_IFNAME for NCCL, --mpi-arg for MPI"},
    {"no-python", "only commands of ampscale are launched, never Python"},
    {"nprocs", PYTORCH "--nproc"},
    {"num-nodes", LIGHTNING "--nnodes"},
    {"output-filename", HOROVOD "--log-dir"},
    {"rank", "give the rank of a node by --node-rank"},
    {"rdzv-backend", "of torchrun; nodes connect at --rendezvous"},
    {"rdzv-endpoint", "of torchrun; here --rendezvous"},
    {"rdzv-id", "of torchrun; the id of a job is AMPSCALE_JOB"},
    {"standalone", "of torchrun; a single node is the default"},
    {"use-env", "ranks always get their rank from the environment"},
    {"world-size", "give the number of nodes by --nnodes, the number of ranks by --nproc"},
    {0},
};

static const struct foreign of_watch[] = {
    {"pickle-dir", "the folder of a run is an argument without a flag: 'ampscale watch RUN'"},
    {0},
};

static const char *find(const struct foreign *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table->here;
    return NULL;
}

const char *foreign_flag(const char *command, const char *name)
{
    if (strcmp(command, "ampscale train") == 0)
        return find(of_train, name);
    if (strcmp(command, "ampscale launch") == 0)
        return find(of_launch, name);
    if (strcmp(command, "ampscale watch") == 0)
        return find(of_watch, name);
    return NULL;
}
