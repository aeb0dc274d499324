"""The pairs: what is measured, and the sides of each. Ours is the first side."""
import json
import os

import machine
import sides
from sides import Side, Talker


class Pair:
    """`make` returns the sides. `modules` are the Python modules that its peers need. `absent`
    returns why this machine has no such pair, or None."""

    def __init__(self, name, work, unit, better, make, modules=(), absent=lambda: None):
        self.name, self.work, self.unit, self.better = name, work, unit, better
        self.timed = unit != "MiB"  # other processes change times, not peak memory
        self.sides, self.modules, self.absent = make, modules, absent


def step_pair(name, work):
    """A training step against PyTorch's, as it comes and with what makes it fast."""
    net, pixels, batch, precision = work

    def make(peers):
        # half of the steps are warm-up, on both sides
        steps = 4 if peers.quick or batch * pixels > 3000 else 8

        def torch(label, mode, env=None):
            command = ["torch_step.py", "--device", "cpu", "--net", net, "--image-size", str(pixels)]
            return Talker(f"PyTorch {label}", peers, command, f"{mode} {precision} {batch} {steps}",
                          env)

        theirs = [torch("eager", "plain"),
                  torch("eager, channels last, memory kept", "eager", sides.KEPT)]
        if not peers.quick:  # compilation takes a minute
            theirs.append(torch("compile, channels last, memory kept", "compile", sides.KEPT))
        return [Side("ampscale", lambda: sides.our_rate(peers, work, steps)), *theirs]

    return Pair(name, f"training step of {net}, {pixels} px, batch {batch}, {precision}", "images/s",
                "higher", make, ("torch", "torchvision"),
                lambda: None if precision != "bf16" or machine.has_bf16()
                else "the processor has no bf16 instructions")


def convolutions_sides(peers):
    """One command gives both values, so that they are of the same minute."""
    last = {}

    def run():
        last.update(json.loads(peers.call(
            [peers.program, "bench", "conv", "--net", "resnet50", "-b", "16", "--rounds",
             "1" if peers.quick else "3", "--threads", str(peers.threads), "-q", "--json"])))
        return last["step_images_per_s"]

    alone = Side("its convolutions alone", lambda: last["bound_images_per_s"])
    alone.warm = lambda: None
    return [Side("ampscale's step", run), alone]


def input_pair(name, width, height, files, about):
    batch, pixels = 32, 224

    def make(peers):
        n = max(files // 4, batch) if peers.quick else files
        folder = f"{peers.scratch}/photographs-{width}"
        if not os.path.isdir(folder):
            peers.call([peers.python, f"{peers.here}/pictures.py", folder, *map(str, (n, width, height))])

        def ours(label, decode):
            return Side(label, lambda: sides.our_loader_rate(peers, folder, batch, pixels, decode))

        def peer(label, way):
            return Talker(label, peers, ["input_step.py", way, folder, str(batch), str(pixels)], way)

        return [ours("ampscale", "exact"), ours("ampscale, decode fast", "fast"),
                peer("torchvision, PIL", "pil"), peer("torchvision, own decoder, v2", "torchvision"),
                peer("DALI, CPU pipeline", "dali")]

    return Pair(name, f"JPEG files of {width}x{height} px, about {about} each, to batches of {pixels} "
                "px, on one thread", "images/s", "higher", make,
                ("torchvision", "nvidia.dali", "PIL", "numpy"))


def torch_once(peers, work, steps, column, env):
    """The cost of a PyTorch process that does some steps: column 0 seconds, 1 MiB."""
    net, pixels, batch, precision = work
    command = [peers.python, f"{peers.here}/torch_step.py", "--device", "cpu", "--net", net,
               "--image-size", str(pixels)]
    env = dict(env, OMP_NUM_THREADS=str(peers.threads))
    return sides.usage(peers, command, env, f"eager {precision} {batch} {steps}\n")[column]


def our_once(peers, work, steps, column):
    command = sides.train_command(peers, work, steps, sides.fresh(peers))
    return sides.usage(peers, [peers.program, *command])[column]


def once_pair(name, about, unit, work, steps, column):
    def make(peers):
        return [Side("ampscale", lambda: our_once(peers, work, steps, column)),
                Side("PyTorch eager", lambda: torch_once(peers, work, steps, column, {})),
                Side("PyTorch eager, memory kept",
                     lambda: torch_once(peers, work, steps, column, sides.KEPT))]

    return Pair(name, about, unit, "lower", make, ("torch", "torchvision"))


def ddp_sides(peers):
    steps, half = 6 if peers.quick else 10, ("resnet18", 64, 32, "fp32")
    whole = ("resnet18", 64, 64, "fp32")
    command = ["torch_step.py", "--device", "cpu", "--net", "resnet18", "--image-size", "64"]
    return [Side("ampscale, 2 ranks", lambda: sides.our_ddp_rate(peers, half, steps)),
            Side("ampscale, one process", lambda: sides.our_rate(peers, whole, steps)),
            Talker("PyTorch DDP, 2 ranks", peers, command, f"eager fp32 32 {steps}", sides.KEPT, 2)]


CHECKPOINT_NET = "resnet50"


def our_checkpoint(peers, out, steps, *words):
    """A run of one step an epoch that ends with a checkpoint: its command."""
    return [peers.program, "train", "--dummy", "-a", CHECKPOINT_NET, "--image-size", "64", "-b", "2",
            "--dummy-train", "2", "--steps", str(steps), "--epochs", "9", "-q", "--training-only",
            "--telemetry", "0", "--threads", str(peers.threads), "--out", out, *words]


def write_sides(peers):
    def ours():
        out = sides.fresh(peers)
        peers.call(our_checkpoint(peers, out, 1))
        with open(f"{out}/epochs.jsonl") as lines:
            return json.loads(lines.readlines()[-1])["checkpoint_s"]

    def theirs():
        return float(peers.call([peers.python, f"{peers.here}/torch_checkpoint.py", "write",
                                 f"{peers.scratch}/torch.pt", CHECKPOINT_NET]))

    return [Side("ampscale", ours), Side("PyTorch", theirs)]


def resume_sides(peers):
    kept, path = f"{peers.scratch}/kept", f"{peers.scratch}/resumed.pt"
    if not os.path.isdir(kept):
        peers.call(our_checkpoint(peers, kept, 1))
        peers.call([peers.python, f"{peers.here}/torch_checkpoint.py", "write", path, CHECKPOINT_NET])

    def ours():
        command = our_checkpoint(peers, sides.fresh(peers), 2, "--resume",
                                 f"{kept}/checkpoint.safetensors", "--no-checkpoint")
        return sides.usage(peers, command)[0]

    def theirs():
        command = [peers.python, f"{peers.here}/torch_checkpoint.py", "resume", path, CHECKPOINT_NET]
        return sides.usage(peers, command, {"OMP_NUM_THREADS": str(peers.threads)})[0]

    return [Side("ampscale", ours), Side("PyTorch", theirs)]


TORCH = ("torch", "torchvision")
# A pair for tests, which takes a few seconds per command. It is measured only if the user names it.
TRY = step_pair("try", ("resnet18", 32, 2, "fp32"))
PAIRS = [
    step_pair("resnet50-fp32", ("resnet50", 224, 16, "fp32")),
    step_pair("resnet50-bf16", ("resnet50", 224, 16, "bf16")),
    step_pair("resnet18-fp32", ("resnet18", 64, 64, "fp32")),
    step_pair("resnet18-bf16", ("resnet18", 64, 64, "bf16")),
    step_pair("resnet18-224-fp32", ("resnet18", 224, 32, "fp32")),
    step_pair("vgg16-fp32", ("vgg16", 224, 8, "fp32")),
    Pair("convolutions", "training step of resnet50, 224 px, batch 16, fp32, against the sum of its "
         "convolutions one by one", "images/s", "higher", convolutions_sides),
    input_pair("input", 500, 375, 256, "116 kB"),
    input_pair("input-large", 2000, 1504, 64, "1.8 MB"),
    once_pair("start", "start of the program to the end of a first step of resnet18, 64 px, batch 64",
              "s", ("resnet18", 64, 64, "fp32"), 1, 0),
    once_pair("memory", "peak memory of a run of resnet50, 224 px, batch 16, fp32", "MiB",
              ("resnet50", 224, 16, "fp32"), 2, 1),
    Pair("ddp", "training step of resnet18, 64 px, 64 images over 2 ranks by Gloo", "images/s",
         "higher", ddp_sides, TORCH),
    Pair("checkpoint", "resnet50 with momentum written durably to a file", "s", "lower", write_sides,
         TORCH),
    Pair("resume", "start of the program, resuming resnet50 from a file, to the end of a step of 2 "
         "images of 64 px", "s", "lower", resume_sides, TORCH),
]
