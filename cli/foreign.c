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
    const char *names; /* separated by spaces */
    const char *here;
};

static const struct foreign of_train[] = {
    {"aa auto-augment color-jitter cutmix cutmix-alpha random-erase reprob vflip",
     "training augments by crop, flip and --mixup alone"},
    {"accelerator", LIGHTNING "--devices cuda or cpu"},
    {"accumulate-grad-batches batches-per-allreduce grad-accum-steps", "here --accumulate"},
    {"amp-dtype", TIMM "--precision amp or bf16"},
    {"base-lr", HOROVOD "--lr"},
    {"benchmark", "plans are timed and cached; only --deterministic chooses plans without timing"},
    {"bias-weight-decay", TORCHVISION "--norm-weight-decay, which is for biases too"},
    {"check-val-every-n-epoch val-interval", "here --val-every"},
    {"checkpoint", TIMM "--evaluate with --init FILE"},
    {"checkpoint-format", HOROVOD "--out names the folder of the run"},
    {"checkpoint-hist", TIMM "--keep-checkpoints"},
    {"clip-grad gradient-clip-val", "here --clip-grad-norm"},
    {"crop-pct", TIMM "--val-crop-pct"},
    {"data-path", TORCHVISION "the folder is an argument without a flag"},
    {"decay-epochs lr-step-size", "here --lr-step"},
    {"decay-milestones milestones", "here --lr-milestones"},
    {"decay-rate lr-cycle-decay", TIMM "--lr-gamma"},
    {"default-root-dir experiment output output-dir", "here --out"},
    {"device", PYTORCH "--devices"},
    {"distributed-backend strategy", LIGHTNING "--mode dp, ddp or ddp2"},
    {"dynamic-loss-scale", APEX "--loss-scale dynamic"},
    {"fp16", "half precision is --precision amp"},
    {"fp16-allreduce", HOROVOD "--grad-compress fp16"},
    {"gpus", LIGHTNING "--devices cuda:0,1 in one process, or launch --nproc-per-node 2"},
    {"gradient-predivide-factor", HOROVOD "gradients are always averaged"},
    {"img-size input-size", TIMM "--image-size"},
    {"initial-checkpoint pretrained-path weights", "here --init FILE"},
    {"limit-train-batches max-steps", LIGHTNING "--steps"},
    {"log-dir", "--tensorboard DIR is for TensorBoard's events, launch --log-dir for ranks' logs"},
    {"log-every-n-steps log-freq log-interval print-every", "here --print-freq"},
    {"lr-base", TIMM "--lr with --lr-scale linear"},
    {"lr-base-scale", TIMM "--lr-scale"},
    {"lr-scheduler sched", "here --lr-schedule"},
    {"lr-warmup-decay lr-warmup-method warmup-lr",
     "the warm-up of --warmup-epochs is linear, from 0"},
    {"lr-warmup-epochs", TORCHVISION "--warmup-epochs"},
    {"max-epochs total-epochs", "here --epochs"},
    {"mean std", "images are normalised by ImageNet's mean and standard deviation"},
    {"min-lr", TIMM "--lr-schedule poly with --lr-end"},
    {"mixup-alpha", TORCHVISION "--mixup"},
    {"model", TORCHVISION "--arch"},
    {"model-ema model-ema-decay model-ema-steps", "averaged weights (EMA) are not supported"},
    {"nnodes", LAUNCHES "--nnodes 2 train ...'"},
    {"no-accel", PYTORCH "--devices cpu"},
    {"node-rank", LAUNCHES "--node-rank 0 train ...'"},
    {"np", LAUNCHES "-np 4 train ...'"},
    {"nproc-per-node", LAUNCHES "--nproc-per-node 4 train ...'"},
    {"num-classes", TIMM "--classes, for --dummy; a data set has one class per folder"},
    {"num-gpu num-gpus", "--devices cuda:0,1 in one process, or launch --nproc-per-node 2"},
    {"num-nodes", LIGHTNING "launch --nnodes"},
    {"num-workers", PYTORCH "--workers"},
    {"opt optimizer", "the optimizer is SGD with momentum, or --lars"},
    {"prof", APEX "'ncu --profile-from-start off ampscale bench step --profile-one-step'"},
    {"recovery-interval", TIMM "--checkpoint-steps"},
    {"resume-from-checkpoint", LIGHTNING "--resume"},
    {"smoothing", TIMM "--label-smoothing"},
    {"static-loss-scale", APEX "--loss-scale"},
    {"sync-batchnorm use-syncbn", "here --sync-bn"},
    {"test-batch-size validation-batch-size", "here --val-batch-size"},
    {"test-only", TORCHVISION "--evaluate"},
    {"train-crop-size val-crop-size", TORCHVISION "--image-size, for training and validation"},
    {"train-dir val-dir", HOROVOD "the folder of train/ and val/ is an argument without a flag"},
    {"train-interpolation", TIMM "--interpolation, for training and validation"},
    {"use-adasum", "gradients are averaged; Adasum is not supported"},
    {"use-deterministic-algorithms", TORCHVISION "--deterministic"},
    {"val-check-interval", LIGHTNING "--val-every, in epochs"},
    {"val-resize-size", TORCHVISION "--val-resize"},
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
    size_t n = strlen(name);
    for (; table->names; table++)
        for (const char *at = table->names; n > 0 && (at = strstr(at, name)); at++)
            if ((at == table->names || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
                return table->here;
    return NULL;
}

const char *foreign_flag(const char *command, const char *name)
{
    if (strcmp(command, "ampscale train") == 0)
        return find(of_train, name);
    if (strcmp(command, "ampscale launch") == 0)
        return find(of_launch, name);
    return strcmp(command, "ampscale watch") == 0 ? find(of_watch, name) : NULL;
}
