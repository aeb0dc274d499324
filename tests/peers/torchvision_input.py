#!/usr/bin/env python3
"""Compares input/ with PIL and torchvision on the same files.

usage: torchvision_input.py VIEWS
VIEWS is the helper built from tests/input/views.c. ctest runs it through tests/peers/run.sh.
"""
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from PIL import Image
from torchvision import datasets, transforms
from torchvision.transforms import functional as F

from pictures import picture

failures = 0


def check(name, value, limit):
    global failures
    good = value <= limit
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {name}: {value:.4f} (at most {limit})")


def call(*args):
    return subprocess.run([VIEWS, *map(str, args)], check=True, stdout=subprocess.PIPE).stdout


def write_images(root):
    """Two classes of files of many kinds and sizes, in the order in which both sides list them."""
    sizes = [(300, 257), (257, 300), (80, 90), (256, 256), (333, 281), (260, 511), (73, 74), (500, 260)]
    for i, (width, height) in enumerate(sizes):
        folder = os.path.join(root, "val", "ab"[i % 2])
        os.makedirs(folder, exist_ok=True)
        image = picture(width, height, i)
        options = {"quality": 92, "subsampling": i % 3, "progressive": i == 4}
        if i == 2:
            image = image.convert("L")
        if i == 5:
            image = image.convert("CMYK")
        kind = "PNG" if i == 6 else "JPEG"  # whatever the name says
        image.save(os.path.join(folder, f"{i}.JPEG"), kind, **(options if kind == "JPEG" else {}))


# Levels by which a pixel may differ if the picture is decoded at full size.
LARGEST = {"bilinear": 2, "bicubic": 1}


def compare_validation(root, size, resize=None, kind="bilinear"):
    """`resize` None is the default of torchvision's references, in proportion."""
    ours = np.frombuffer(call("pixels", root, size, resize or 0, kind), np.uint8)
    ours = ours.reshape(-1, size, size, 3)
    resize = resize or (size * 256 + 112) // 224
    peer = datasets.ImageFolder(
        os.path.join(root, "val"),
        transforms.Compose([transforms.Resize(resize, transforms.InterpolationMode(kind)),
                            transforms.CenterCrop(size)]))
    assert len(ours) == len(peer)
    for i, (path, _) in enumerate(peer.samples):
        theirs = np.asarray(peer[i][0].convert("RGB")).astype(int)
        difference = np.abs(ours[i].astype(int) - theirs)
        image = Image.open(path)
        width, height = image.size
        # If a JPEG is decoded at a reduced size, pixels differ because the filters of PIL and
        # ampscale differ. At full size, pixels differ only by rounding.
        reduced = image.format == "JPEG" and min(width, height) >= 2 * resize
        name = f"validation {size} px of {resize}, {kind}, {width}x{height}{' reduced' if reduced else ''}"
        check(name + ", mean difference", difference.mean(), 4.0 if reduced else 0.25)
        if not reduced:
            check(name + ", largest difference", difference.max(), LARGEST[kind])


def compare_training(root, size, kind, n=6):
    """The pixels of training views, from which RandomResizedCrop's functions make the same view."""
    data = call("trained", root, size, kind, n)
    at = 0
    for path, _ in datasets.ImageFolder(os.path.join(root, "val")).samples:
        image = Image.open(path)
        pixels, worst, crops = image.convert("RGB"), 0, 0
        for _ in range(n):
            end = data.index(b"\n", at)
            x, y, w, h, flip = map(int, data[at:end].split())
            ours = np.frombuffer(data, np.uint8, size * size * 3, end + 1).reshape(size, size, 3)
            at = end + 1 + size * size * 3
            if image.format == "JPEG" and min(w, h) >= 2 * size:
                continue  # decoded at a reduced size
            theirs = pixels.crop((x, y, x + w, y + h))
            # Columns, then rows, as PIL up to 12 does in one call; PIL 13 begins with the rows of tall
            # pictures, and a bicubic sum that is clipped depends on the order.
            for part in ((size, h), (size, size)):
                theirs = theirs.resize(part, Image.Resampling[kind.upper()])
            theirs = np.asarray(F.hflip(theirs) if flip else theirs).astype(int)
            worst = max(worst, np.abs(ours.astype(int) - theirs).max())
            crops += 1
        check(f"{crops} crops to {size} px, {kind}, of {image.width}x{image.height}",
              worst, LARGEST[kind])
    assert at == len(data)


def compare_crops(width, height, n=4000):
    """Means and spreads of RandomResizedCrop's parameters."""
    ours = np.array([list(map(int, line.split()))
                     for line in call("crops", width, height, n).splitlines()], float)
    torch.manual_seed(5)
    image = Image.new("RGB", (width, height))
    params = [transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
              for _ in range(n)]
    theirs = np.array([(j, i, w, h) for i, j, h, w in params], float)
    scale = [width, height, width, height]
    for k, name in enumerate(["left", "top", "width", "height"]):
        a, b = ours[:, k] / scale[k], theirs[:, k] / scale[k]
        deviation = math.sqrt((a.var() + b.var()) / n) + 1e-9
        check(f"crops of {width}x{height}, {name}: means apart, in standard errors",
              abs(a.mean() - b.mean()) / deviation, 4.5)
        largest = max(abs(np.quantile(a, q) - np.quantile(b, q)) for q in (0.1, 0.25, 0.5, 0.75, 0.9))
        check(f"crops of {width}x{height}, {name}: quantiles apart", largest, 0.05)
    check("flips", abs(ours[:, 4].mean() - 0.5), 0.04)


VIEWS = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    write_images(folder)
    compare_validation(folder, 64)
    compare_validation(folder, 224)
    compare_validation(folder, 224, 232)  # torchvision's second weights of ResNet-50
    compare_validation(folder, 224, 235, "bicubic")  # timm's --crop-pct 0.95
    compare_validation(folder, 160, 182, "bicubic")  # timm's --crop-pct 0.875
    for size in (32, 224):
        for kind in ("bilinear", "bicubic"):
            compare_training(folder, size, kind)
compare_crops(500, 375)
compare_crops(400, 120)
sys.exit(1 if failures else 0)
