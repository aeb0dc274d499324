#!/usr/bin/env python3
"""Training steps of PyTorch, to be timed beside ampscale's on the same device.

usage: torch_step.py [--device cuda:0] [--net resnet50] [--image-size 224]
Says "ready <versions>", then answers each line "MODE PRECISION BATCH STEPS" on its standard input,
MODE eager, compile or plain, PRECISION fp32, tf32, amp or bf16, with "images_per_s <median over the
steps after warm-up> <5th percentile> <95th>", or "error <why>". A process that stays pays for its
start once, and lets runs of both sides alternate; what it compiled last it keeps, so that a second
request of the same kind does not compile again. It compiles in a process of its own: whatever
happens to that, later requests are answered.

The step is what ampscale's is: torchvision's network (ResNet-50 v1.5), cross entropy, SGD with
momentum and weight decay, automatic mixed precision with dynamic loss scaling for amp. PyTorch is
given what makes it fast: channels last, except in mode plain, which is eager in PyTorch's default
layout, and except where a few steps of an eager fp32 or tf32 are faster in that layout (standard
error says so); cuDNN's timed choice of algorithms; the fused optimizer, which spares the scaler its
look at the gradients from the host; and images that lie on the device already. With RANK in the
environment the process is a rank of DistributedDataParallel by Gloo, and BATCH is that of each rank.
"""
import argparse
import gc
import os
import statistics
import subprocess
import sys
import time

import torch
import torchvision

WARMUP = 10
PROBE = 5  # steps of a layout, of which the first may choose algorithms

compiled = {}  # the last compiled step, by the request's settings
faster = {}  # the faster layout of an eager step, by precision and batch


class Step:
    def __init__(self, args, mode, precision, batch):
        torch.manual_seed(0)
        if mode == "compile":
            torch.compiler.reset()  # what earlier requests compiled counts against a limit
        self.set_tf32(precision)
        self.device = torch.device(args.device)
        self.narrow = {"amp": torch.float16, "bf16": torch.bfloat16}.get(precision)
        if not hasattr(torchvision.models, args.net):
            raise ValueError(f"torchvision has no '{args.net}'")
        model = getattr(torchvision.models, args.net)(num_classes=1000)
        plain = mode == "plain" or (mode == "eager" and faster.get((precision, batch)) == "plain")
        layout = torch.contiguous_format if plain else torch.channels_last
        model = model.to(self.device, memory_format=layout)
        self.parameters = list(model.parameters())
        if "RANK" in os.environ:
            model = torch.nn.parallel.DistributedDataParallel(model)
        self.model = torch.compile(model) if mode == "compile" else model
        fused = {"fused": True} if self.device.type == "cuda" else {}
        self.optimizer = torch.optim.SGD(
            self.parameters, 0.1, momentum=0.9, weight_decay=1e-4, **fused
        )
        moved = hasattr(torch.amp, "GradScaler")
        scaler = torch.amp.GradScaler if moved else torch.cuda.amp.GradScaler
        self.scaler = scaler(enabled=precision == "amp")
        size = args.image_size
        self.images = torch.randn(batch, 3, size, size, device=self.device)
        self.images = self.images.contiguous(memory_format=layout)
        self.labels = torch.randint(1000, (batch,), device=self.device)

    @staticmethod
    def set_tf32(precision):
        # Sets only the old flags. If a program also sets the new flags that replace them,
        # torch.compile rejects it.
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = True

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, self.narrow, enabled=self.narrow is not None):
            loss = torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def seconds_on_gpu(step, n):
    """Of n steps, by the device's clock: the host prepares the next while it computes."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
    with torch.cuda.device(step.device):
        marks[0].record()
        for mark in marks[1:]:
            step.run()
            mark.record()
    step.wait()
    return [a.elapsed_time(b) * 1e-3 for a, b in zip(marks, marks[1:])]


def seconds_on_cpu(step, n):
    out = []
    for _ in range(n):
        begun = time.perf_counter()
        step.run()
        out.append(time.perf_counter() - begun)
    return out


def step_for(args, mode, precision, batch):
    """A new step, or the compiled one that was asked for before."""
    if mode != "compile":
        return Step(args, mode, precision, batch)
    if (precision, batch) not in compiled:
        compiled.clear()
        step = Step(args, mode, precision, batch)
        compiled[precision, batch] = step
    compiled[precision, batch].set_tf32(precision)
    return compiled[precision, batch]


def seconds_of(step, warmup, n):
    for _ in range(warmup):
        step.run()
    step.wait()
    return (seconds_on_gpu if step.device.type == "cuda" else seconds_on_cpu)(step, n)


def find_faster(args, precision, batch):
    """Tries both layouts where either may be faster: half precision needs channels last."""
    if precision not in ("fp32", "tf32") or (precision, batch) in faster:
        return
    rate = {}
    for layout in ("plain", "channels_last"):
        faster[precision, batch] = layout
        probed = seconds_of(Step(args, "eager", precision, batch), 1, PROBE - 1)
        rate[layout] = batch / statistics.median(probed)
    faster[precision, batch] = max(rate, key=rate.get)
    shown = ", ".join(f"{layout} {found:.2f}" for layout, found in rate.items())
    print(f"eager {precision} {batch}: images/s {shown}", file=sys.stderr, flush=True)


def rates(args, mode, precision, batch, steps):
    if mode == "eager":
        find_faster(args, precision, batch)
    warmup = min(WARMUP, steps // 2)
    step = step_for(args, mode, precision, batch)
    return [batch / seconds for seconds in seconds_of(step, warmup, max(1, steps - warmup))]


class Compiler:
    """Another process of this script, which answers the requests to compile."""

    process = None

    def answer(self, line):
        if not self.process:
            self.process = subprocess.Popen([sys.executable, *sys.argv, "--compiler"], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.process.stdout.readline()
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
            said = self.process.stdout.readline().strip() or "error the process that compiles ended"
        except OSError as problem:
            said = f"error the process that compiles ended: {problem}"
        if said.startswith("error"):
            self.process.kill()
            self.process = None
        return said


compiler = Compiler()


def answer(args, line):
    mode, precision, batch, steps = line.split()
    if mode == "compile" and not args.compiler and "RANK" not in os.environ:
        return compiler.answer(line)
    if mode not in ("eager", "compile", "plain") or precision not in ("fp32", "tf32", "amp", "bf16"):
        raise ValueError(f"there is no '{mode} {precision}'")
    found = sorted(rates(args, mode, precision, int(batch), int(steps)))
    low, high = found[int(0.05 * (len(found) - 1))], found[int(0.95 * (len(found) - 1))]
    return f"images_per_s {statistics.median(found):.2f} {low:.2f} {high:.2f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--net", default="resnet50")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--compiler", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    about = f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}"
    if args.device.startswith("cuda") and torch.backends.cudnn.is_available():
        about += f", cuDNN {torch.backends.cudnn.version()}"
    print(f"ready {about}", flush=True)
    for line in sys.stdin:
        try:
            said = answer(args, line)
        except Exception as problem:  # after any failure, the next request may still succeed
            said = "error " + " ".join(str(problem).split())[:200]
        print(said, flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


main()
