#!/usr/bin/env python3
"""Writes a checkpoint as PyTorch does, durably, or resumes from it and does a step.

usage: torch_checkpoint.py write|resume FILE NET
`write` prints the seconds that the file took, without the step before it, which makes momentum.
"""
import os
import sys
import time

import torch
import torchvision


def step(model, optimizer):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 64, 64)),
                                             torch.tensor([1, 2]))
    loss.backward()
    optimizer.step()


def write(path, model, optimizer):
    step(model, optimizer)
    begun = time.perf_counter()
    with open(path + ".part", "wb") as out:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(path + ".part", path)
    print(time.perf_counter() - begun)


def resume(path, model, optimizer):
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step(model, optimizer)


def main():
    what, path, net = sys.argv[1:]
    model = getattr(torchvision.models, net)()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    (write if what == "write" else resume)(path, model, optimizer)


if __name__ == "__main__":
    main()
