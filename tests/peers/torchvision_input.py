#!/usr/bin/env python3
"""Compares input/ with PIL and torchvision on the same files.

usage: torchvision_input.py VIEWS
VIEWS is the helper built from tests/input/views.c. ctest runs it through tests/peers/run.sh.
"""
import io
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from PIL import Image, ImageDraw
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


def write_patterns(root):
    """Patterns as fine as a pixel, at several phases, noise and print, with odd sides."""
    folder = os.path.join(root, "patterns", "val", "a")
    os.makedirs(folder)
    random = np.random.default_rng(7)
    y, x = np.mgrid[0:563, 0:577]
    pictures = [random.integers(0, 256, (563, 577, 3))]
    for width in (1, 2, 3, 5, 8):
        for phase in (0, 1, 3):
            stripes, rows = (x + phase) // width % 2, (y + phase) // width % 2
            pictures += [stripes * 255, (stripes ^ rows) * 255]
    image = Image.new("RGB", (577, 563), "white")
    draw = ImageDraw.Draw(image)
    for line in range(0, 563, 11):
        draw.text((line % 7, line), "the quick brown fox jumps over it " * 4, fill=(line % 256, 0, 90))
    for i, values in enumerate([*pictures, np.asarray(image)]):
        values = values if values.ndim == 3 else values[:, :, None].repeat(3, 2)
        Image.fromarray(values.astype(np.uint8)).save(
            f"{folder}/{i:02}.JPEG", quality=90, subsampling=i % 3, progressive=i % 5 == 4)
    return os.path.join(root, "patterns")


def ends(kind, data):
    """(what was done, bytes) for a file whose end is changed."""
    for n in [*range(1, 13), *range(30, len(data) - 20, 41)]:
        yield f"{n} bytes short", data[:-n]
    if kind == "JPEG":
        for name, end in [("zeros", b"\0" * 8), ("0xff", b"\xff\xff"), ("text", b"end of file")]:
            yield f"{name} for the end marker", data[:-2] + end


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pil_pixels(data):
    try:
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    except (OSError, SyntaxError):
        return None


def compare_ends(root):
    """A file that PIL reads is read to PIL's pixels. Where only ampscale reads a file, nothing but its
    end marker is missing, and the pixels are those of the complete file."""
    image, files = picture(83, 61, 3), {}
    files["JPEG"] = saved(image, "JPEG", quality=95, subsampling=0)
    files["JPEG 4:2:0"] = saved(image, "JPEG", quality=75)
    files["JPEG, grayscale, restart markers"] = saved(image.convert("L"), "JPEG", restart_marker_rows=1)
    files["JPEG, progressive"] = saved(image, "JPEG", progressive=True)
    files["JPEG, four inks"] = saved(image.convert("CMYK"), "JPEG", quality=85)
    noise = Image.fromarray(np.random.default_rng(2).integers(0, 256, (61, 83, 3)).astype(np.uint8))
    files["JPEG, noise"] = saved(noise, "JPEG", quality=95, subsampling=0)
    files["PNG"] = saved(image, "PNG")
    files["PNG, palette"] = saved(image.convert("P"), "PNG")
    for name, data in files.items():
        cases = [("complete", data), *ends(name[:4].strip(","), data)]
        paths = []
        for i, (_, cut) in enumerate(cases):
            paths.append(os.path.join(root, f"end{i}"))
            with open(paths[-1], "wb") as file:
                file.write(cut)
        said, at, wrong, read = call("whole", *paths), 0, [], [0, 0]
        for what, cut in cases:
            n = int.from_bytes(said[at:at + 4], "little")
            ours = np.frombuffer(said[at + 4:at + 4 + 3 * n], np.uint8).astype(int) if n else None
            at += 4 + 3 * n
            theirs, whole = pil_pixels(cut), pil_pixels(data).reshape(-1)
            read[0] += n > 0
            read[1] += theirs is not None
            want = theirs.reshape(-1) if theirs is not None else whole
            short = len(data) - len(cut)
            may = theirs is not None or (what.endswith("end marker") or short <= 2) and "progressive" not in name
            if (n == 0 and theirs is not None) or (n and not may) or (n and np.abs(ours - want).max() > 1):
                wrong.append(what)
        check(f"ends of {name}: {len(cases)} files, {read[0]} read, PIL reads {read[1]}; wrong: {wrong}", len(wrong), 0)


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
        name = f"validation {size} px of {resize}, {kind}, {width}x{height}"
        check(name + ", mean difference", difference.mean(), 0.35)  # rounding
        check(name + ", largest difference", difference.max(), 1)


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
            theirs = pixels.crop((x, y, x + w, y + h))
            # Columns, then rows, as PIL up to 12 does in one call; PIL 13 begins with the rows of tall
            # pictures, and a bicubic sum that is clipped depends on the order.
            for part in ((size, h), (size, size)):
                theirs = theirs.resize(part, Image.Resampling[kind.upper()])
            theirs = np.asarray(F.hflip(theirs) if flip else theirs).astype(int)
            worst = max(worst, np.abs(ours.astype(int) - theirs).max())
            crops += 1
        check(f"{crops} crops to {size} px, {kind}, of {image.width}x{image.height}",
              worst, 1)
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
    patterns = write_patterns(folder)
    for size in (64, 224):
        compare_validation(patterns, size)
        compare_training(patterns, size, "bilinear", 12)
    compare_ends(folder)
compare_crops(500, 375)
compare_crops(400, 120)
sys.exit(1 if failures else 0)
