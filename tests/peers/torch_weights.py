#!/usr/bin/env python3
"""What a user does with torchvision's weights, beside PyTorch on the same files.

usage: torch_weights.py AMPSCALE [FOLDER]
ctest runs it through tests/peers/run.sh. With FOLDER, keeps the data and the weights there.

Validation: 500 images of 10 classes, with the odd files of ImageNet, in class folders and in tar
archives; weights in F32 and in F16. Top-1 and top-5 must be PyTorch's to the last image. The weights
are random; their running statistics and last layer are fitted to a few images of each class. Some
images are in the folder of another class, so that no result is near 0 or 100 %.

Pixels of a resized image differ by one level from PIL's, which rounds between two passes. Images
with a result that this could change, in any of the networks, are not among the 500.

Training: weights of 1000 classes for 10 classes, files of torch.save, the names that PyTorch's
wrappers make, all floating types, and weights of a deeper network.
"""
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision import datasets, models, transforms

from pictures import picture

AMPSCALE = sys.argv[1]
CLASSES, TRAIN, VAL = 10, 8, 50
SPARE = 15  # images of a class from which the 50 with clear results are taken
CLEAR = 0.03  # least difference between two logits, in standard deviations of all
RIDGE = 0.01
failures = 0


def check(good, text):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)


def textured(texture, i):
    """A picture with waves whose direction, length and colour depend on the texture."""
    random = np.random.default_rng(i)
    short, long = sorted(random.integers([200, 200], [500, 600]))
    width, height = (long, short) if i % 3 else (short, long)
    y, x = np.mgrid[0:height, 0:width]
    angle = texture * np.pi / CLASSES
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / (7 + 2 * (texture % 4)) + i)
    colour = np.array([texture % 3 - 1, texture % 4 - 1.5, texture % 2 - 0.5])
    pixels = np.asarray(picture(width, height, i), np.float32)
    pixels = 0.3 * pixels + 90 + 45 * wave[..., None] + 25 * colour
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def write_image(image, path, i):
    """As ImageNet has them: all are named .JPEG, a few are PNG, CMYK, grey or turned by EXIF."""
    options = {"quality": 75 + i % 23, "subsampling": i % 3, "progressive": i % 7 == 0}
    kind = "JPEG"
    if i % 25 == 3:
        kind, options = "PNG", {}
    elif i % 25 == 8:
        image = image.convert("CMYK")  # PIL writes Adobe's marker and inverse inks
    elif i % 25 == 13:
        image = image.convert("L")
    elif i % 25 == 18:
        exif = Image.Exif()
        exif[0x112] = 3 + i % 6
        options["exif"] = exif
    image.save(path, kind, **options)


def write_data():
    i = 0
    for split, count in (("train", TRAIN), ("val", VAL + SPARE)):
        for label in range(CLASSES):
            folder = f"folders/{split}/n{label:08d}"
            os.makedirs(folder)
            for k in range(count):
                wrong = k // 2 if split == "val" and k % 5 < 2 else 0
                write_image(textured((label + wrong) % CLASSES, i), f"{folder}/{i:05d}.JPEG", i)
                i += 1


def write_archives():
    os.makedirs("archives")
    for split in ("train", "val"):
        with tarfile.open(f"archives/{split}.tar", "w") as tar:
            tar.add(f"folders/{split}", ".")


def tensors(folder):
    """Images, labels and paths, as torchvision's reference for ImageNet makes them."""
    normal = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    found = datasets.ImageFolder(folder, transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), normal]))
    return torch.stack([image for image, _ in found]), torch.tensor(found.targets), [path for path, _ in found.samples]


def forward(net, images):
    with torch.no_grad():
        return torch.cat([net(part) for part in images.split(20)])


def fitted(name, images, labels):
    """A network with random weights, the running statistics of the images, and a last layer that
    ridge regression fits to them."""
    torch.manual_seed(len(name) + int(name[6:]))
    net = getattr(models, name)(num_classes=CLASSES)
    ends = ".bn3" if name == "resnet50" else ".bn2"
    for path, module in net.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)
            module.weight.data *= 0.2 if path.endswith(ends) else 1
            module.momentum = None  # the mean over the batches
    fc, net.fc = net.fc, torch.nn.Identity()
    forward(net.train(), images[torch.randperm(len(images))])
    x = forward(net.eval(), images).double()
    mean = x.mean(0)
    x = x - mean
    y = (CLASSES - 1) / 2 - ((torch.arange(CLASSES) - labels[:, None]) % CLASSES).double()
    kernel = x @ x.T
    weight = torch.linalg.solve(kernel + RIDGE * kernel.trace() / len(x) * torch.eye(len(x)), y).T @ x
    fc.weight.data, fc.bias.data = weight.float().contiguous(), (-weight @ mean).float()
    net.fc = fc
    return net


def hits(logits, labels):
    """Top-1 and top-5 in percent, and for each image how near its results are to others."""
    order = logits.sort(1, descending=True)
    right = order.indices == labels[:, None]
    gaps = order.values[:, [0, 4]] - order.values[:, [1, 5]]
    share = [100 * right[:, :k].any(1).sum().item() / len(labels) for k in (1, 5)]
    return share, gaps.min(1).values / logits.std()


def drop_unclear(logits, labels, paths):
    """Removes all but the first 50 images of each class with clear results; those that stay."""
    clear = torch.stack([hits(given, labels)[1] for given in logits]).min(0).values > CLEAR
    stay = torch.cat([((labels == c) & clear).nonzero()[:VAL, 0] for c in range(CLASSES)])
    for i in set(range(len(paths))) - set(stay.tolist()):
        os.remove(paths[i])
    check(len(stay) == VAL * CLASSES, f"{len(stay)} images have clear results, of {len(paths)}")
    return stay


def call(*args):
    return subprocess.run([AMPSCALE, "train", *args, "--telemetry", "0", "-j", "2"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def last(out):
    with open(f"{out}/epochs.jsonl") as lines:
        return json.loads(lines.readlines()[-1])


def evaluate(data, name, weights, out):
    done = call(data, "-e", "-a", name, "--init", weights, "-b", "50", "--out", out)
    if done.returncode != 0:
        check(False, done.stderr.strip())
        return [-1, -1], 0
    record = last(out)
    return [record["val_top1"], record["val_top5"]], record["val_loss"]


def compare_weights(name, kind, path, logits, labels):
    (top1, top5), gaps = hits(logits, labels)
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    check(20 < top1 < 98 and top1 < top5 < 98 and gaps.min() > CLEAR / 2,
          f"{name} {kind}: PyTorch has {top1} {top5} %, loss {loss:.6f}, no gap below {gaps.min():.3f}")
    for data in ("folders", "archives"):
        if name == "resnet18" or (kind == "F16") == (data == "archives"):
            have, have_loss = evaluate(data, name, path, f"{name}-{kind}-{data}")
            check(np.allclose(have, [top1, top5], 0, 1e-6) and abs(have_loss - loss) < 0.01 * loss,
                  f"{name} {kind} {data}: {have} %, loss {have_loss}")


def compare_validation():
    images, labels, _ = tensors("folders/train")
    nets = {name: fitted(name, images, labels) for name in ("resnet18", "resnet34", "resnet50")}
    images, labels, paths = tensors("folders/val")
    logits = {name: forward(net, images) for name, net in nets.items()}
    stay = drop_unclear(logits.values(), labels, paths)
    images, labels = images[stay], labels[stay]
    write_archives()
    for name, net in nets.items():
        state = net.state_dict()
        half = {key: v.half() if v.is_floating_point() else v for key, v in state.items()}
        save_file(state, f"{name}-F32.safetensors")
        save_file(half, f"{name}-F16.safetensors")
        compare_weights(name, "F32", f"{name}-F32.safetensors", logits[name][stay], labels)
        net.load_state_dict(load_file(f"{name}-F16.safetensors"), strict=True)
        compare_weights(name, "F16", f"{name}-F16.safetensors", forward(net, images), labels)


def train(weights, out, *more):
    return call("folders", "-a", "resnet18", "--init", weights, "--image-size", "64", "-b", "16",
                "--out", out, *more)


def same_weights(name, weights, want, heads=True):
    """Trains at a learning rate of 0: the weights in the checkpoint must have the bits of `want`."""
    done = train(weights, name, "--lr", "0", "--epochs", "1")
    have = load_file(f"{name}/checkpoint.safetensors") if done.returncode == 0 else {}
    keys = [k for k in want if ".running_" not in k and ".num_batches" not in k and (heads or k[:3] != "fc.")]
    check(have and all(torch.equal(have[k], want[k]) for k in keys),
          f"{name}: {len(keys)} weights with the bits of PyTorch {done.stderr.strip()[-300:] if not have else ''}")
    return have, done


def compare_fine_tuning():
    torch.manual_seed(1)
    save_file(models.resnet18().state_dict(), "full.safetensors")
    have, done = same_weights("transferred", "full.safetensors", load_file("full.safetensors"), False)
    check(have and have["fc.weight"].shape == (CLASSES, 512) and have["fc.weight"].std() > 0 and
          "has 1000 classes, but the data have 10" in done.stderr, "transferred: a new last layer")
    train("full.safetensors", "tuned", "--lr", "0.01", "--epochs", "4")
    with open("tuned/epochs.jsonl") as lines:
        losses = [json.loads(line)["train_loss"] for line in lines]
    check(losses[-1] < 0.8 * losses[0], f"tuned: losses {losses}")
    done = call("folders", "-e", "-a", "resnet18", "--init", "full.safetensors", "--out", "refused")
    check(done.returncode == 5 and "has 1000 classes, not 10" in done.stderr, done.stderr.strip())


class Lightning(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.model = net


def compare_kinds_of_files():
    net = models.resnet18(num_classes=CLASSES)
    state = load_file("resnet18-F32.safetensors")
    wide = {k: v.double() * (1 + 1e-9) if v.is_floating_point() else v for k, v in state.items()}
    for name, given in {"F16": {k: v.half() for k, v in state.items()},
                        "BF16": {k: v.bfloat16() for k, v in state.items()}, "F64": wide}.items():
        save_file(given, f"{name}.safetensors")
        net.load_state_dict(given)
        same_weights(name, f"{name}.safetensors", net.state_dict())
    net.load_state_dict(state)
    wrapped = {"parallel": torch.nn.DataParallel(net), "lightning": Lightning(net)}
    if hasattr(torch, "compile"):  # from PyTorch 2
        compiled = torch.compile(net)
        wrapped.update({"compiled": compiled, "both": torch.nn.DataParallel(compiled),
                        "lightning-compiled": Lightning(compiled)})
    for name, module in wrapped.items():
        save_file(module.state_dict(), f"{name}.safetensors")
        same_weights(name, f"{name}.safetensors", state)
    for name, given, old in (("zip", state, False), ("pickle", state, True),
                             ("nested", {"state_dict": state, "epoch": 1}, False),
                             ("reference", {"model": state, "epoch": 1}, True)):
        torch.save(given, f"{name}.pth", _use_new_zipfile_serialization=not old)
        done = train(f"{name}.pth", f"{name}-refused", "--epochs", "1")
        says, _, command = done.stderr.strip().partition("; convert it: ")
        check(done.returncode == 5 and says.endswith("is a PyTorch file, not safetensors"), says)
        subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
        same_weights(name, f"{name}.pth.safetensors", state)


def compare_other_networks():
    for deeper, name in (("resnet34", "resnet18"), ("resnet101", "resnet50"),
                         ("resnet152", "resnet50"), ("resnet152", "resnet101")):
        if not os.path.exists(f"{deeper}.safetensors"):
            save_file(getattr(models, deeper)(num_classes=CLASSES).half().state_dict(), f"{deeper}.safetensors")
        for flags in (["-e"], []):
            done = call("folders", *flags, "-a", name, "--init", f"{deeper}.safetensors",
                        "--image-size", "32", "-b", "2", "--out", "refused")
            check(done.returncode == 2 and done.stderr.strip().endswith(f"; give -a {deeper}"),
                  f"{deeper} in {name} {flags}: {done.stderr.strip()}")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(sys.argv[2] if len(sys.argv) > 2 else scratch)
        write_data()
        compare_validation()
        compare_fine_tuning()
        compare_kinds_of_files()
        compare_other_networks()
        os.chdir("/")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
