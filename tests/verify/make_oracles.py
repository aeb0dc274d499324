#!/usr/bin/env python3
"""Known values for `ampscale selftest`, computed with PyTorch and torchvision on the CPU.

Every weight, image and label is a pure function of its name and index (see `fill`), so the
values can be rebuilt in any language without shipping weights. Run:

    make_oracles.py CASES.json OUT.json

CASES.json is a list of {"arch", "classes", "size", "batch", "steps", "lr", "momentum",
"weight_decay", "precision": "fp32"|"fp64", "mode": "train"|"eval"}, and optionally
"label_smoothing", "norm_weight_decay" (of parameters of one dimension: batch norm's and biases),
"clip_grad_norm" (torch.nn.utils.clip_grad_norm_) and "mix" (torchvision's MixUp: the weight of each
step; the images are then pixels). verify/data/oracles.json is its output, cases added later at its
end; the fp32 run of the case with "mix" is from a processor with AVX2, where PyTorch's rounding errors are
larger than with AVX-512. Needs torch and torchvision (any version: the networks have not changed
since torchvision 0.3).
"""
import json
import math
import sys

import numpy as np
import torch
import torchvision

U64 = np.uint64

def fnv1a64(s):
    h = 0xcbf29ce484222325
    for b in s.encode():
        h = ((h ^ b) * 0x100000001b3) & 0xffffffffffffffff
    return h

def splitmix64(x):
    """x: uint64 array -> uint64 array (Steele, Lea & Flood 2014 finaliser, golden-ratio increment)."""
    with np.errstate(over="ignore"):
        z = x + U64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> U64(30))) * U64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> U64(27))) * U64(0x94d049bb133111eb)
        return z ^ (z >> U64(31))

def uniform(name, n):
    """n values in [-1, 1): element i is splitmix64(fnv1a64(name) + i), its top 24 bits scaled, in float32."""
    with np.errstate(over="ignore"):
        z = splitmix64(U64(fnv1a64(name)) + np.arange(n, dtype=np.uint64))
    return ((z >> U64(40)).astype(np.float64) * (2.0 / (1 << 24)) - 1.0).astype(np.float32)

def fill(name, shape):
    """Deterministic parameter values, in float32, by torchvision state_dict name and shape.

    4-d (conv) and 2-d (linear) weights: uniform(name) * sqrt(6 / fan_in), fan_in = prod(shape[1:]).
    1-d "*.weight" (batch-norm gamma): 1 + 0.1 * uniform(name). Any bias: 0.1 * uniform(name).
    """
    n = int(np.prod(shape))
    u = uniform(name, n)
    if len(shape) >= 2:
        u = u * np.float32(math.sqrt(6.0 / np.prod(shape[1:])))
    elif name.endswith(".weight"):
        u = np.float32(1.0) + np.float32(0.1) * u
    else:
        u = np.float32(0.1) * u
    return u.reshape(shape).astype(np.float32)

def batch_of(step, n, size, classes):
    """Step `step`'s images (n,3,size,size) NCHW = uniform("image.<step>"); label i = splitmix64(fnv1a64("label.<step>")+i) mod classes."""
    x = uniform(f"image.{step}", n * 3 * size * size).reshape(n, 3, size, size)
    with np.errstate(over="ignore"):
        y = splitmix64(U64(fnv1a64(f"label.{step}")) + np.arange(n, dtype=np.uint64)) % U64(classes)
    return x, y.astype(np.int64)

def pixels_of(step, n, size):
    """Step `step`'s pixels (n,size,size,3): element i is the top 8 bits of splitmix64(fnv1a64("pixel.<step>")+i)."""
    with np.errstate(over="ignore"):
        z = splitmix64(U64(fnv1a64(f"pixel.{step}")) + np.arange(n * 3 * size * size, dtype=np.uint64))
    return torch.from_numpy((z >> U64(56)).astype(np.uint8).reshape(n, size, size, 3))

def mixed(step, c, y, dt):
    """The normalised images and soft targets of torchvision.transforms.v2.MixUp, for the weight c["mix"][step]."""
    from torchvision.transforms import v2
    mean = torch.tensor(np.float32([0.485, 0.456, 0.406])).to(dt)
    std = torch.tensor(np.float32([0.229, 0.224, 0.225])).to(dt)
    x = ((pixels_of(step, c["batch"], c["size"]).to(dt) / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
    mix = v2.MixUp(alpha=1.0, num_classes=c["classes"])
    mix.make_params = lambda _: {"lam": c["mix"][step]}
    x, target = mix(x, y)
    return x, target.to(dt)

def topk(logits, y, k):
    return int((logits.topk(k, 1)[1] == y[:, None]).any(1).sum())

def run(c):
    dt = {"fp32": torch.float32, "fp64": torch.float64}[c["precision"]]
    net = getattr(torchvision.models, c["arch"])(num_classes=c["classes"])
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(fill(name, tuple(p.shape))))
    net = net.to(dt)
    net.train(c["mode"] == "train")
    decay = c["weight_decay"]
    groups = [
        {"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in net.parameters() if p.ndim == 1],
         "weight_decay": c.get("norm_weight_decay", decay)},
    ]
    opt = torch.optim.SGD(groups, lr=c["lr"], momentum=c["momentum"])
    ce = torch.nn.CrossEntropyLoss(label_smoothing=c.get("label_smoothing", 0.0))
    out = dict(c, torch=torch.__version__, params=sum(p.numel() for p in net.parameters()), step=[])
    k5 = min(5, c["classes"])
    for s in range(c["steps"]):
        x, y = batch_of(s, c["batch"], c["size"], c["classes"])
        x, target = torch.from_numpy(x).to(dt), torch.from_numpy(y)
        if c.get("mix"):
            x, target = mixed(s, c, target, dt)
        logits = net(x)
        loss = ce(logits, target)
        y = target.argmax(1) if target.ndim > 1 else target  # as torchvision's references count top-k
        rec = {"loss": loss.item(), "top1": topk(logits, y, 1), "top5": topk(logits, y, k5)}
        if s == 0:
            rec["logits_row0"] = logits[0].tolist()
        if c["mode"] == "train":
            opt.zero_grad()
            loss.backward()
            rec["grad_norm"] = math.sqrt(sum(p.grad.double().pow(2).sum().item() for p in net.parameters()))
            if s == 0:
                rec["grad_norms"] = {n: p.grad.double().norm().item() for n, p in net.named_parameters()}
            if c.get("clip_grad_norm"):
                torch.nn.utils.clip_grad_norm_(net.parameters(), c["clip_grad_norm"])
            opt.step()
            rec["weight_norm"] = math.sqrt(sum(p.double().pow(2).sum().item() for p in net.parameters()))
        out["step"].append(rec)
    if c["mode"] == "train":
        out["buffer_norms"] = {n: b.double().norm().item() for n, b in net.named_buffers() if b.dtype.is_floating_point}
    return out

if __name__ == "__main__":
    cases = json.load(open(sys.argv[1]))
    torch.manual_seed(0)
    torch.set_num_threads(2)
    json.dump([run(c) for c in cases], open(sys.argv[2], "w"), indent=1)
