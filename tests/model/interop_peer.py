#!/usr/bin/env python3
"""Opens our checkpoints in torchvision, and torchvision's weights in ours.

usage: interop_peer.py INTEROP_LOGITS AMPSCALE NETWORK...
INTEROP_LOGITS is the helper built from interop_logits.c. ctest runs it through tests/peers/run.sh.

The files are parsed and written here by hand, from the format's description: neither side's library
can cover for the other. A key that both lack or both have too much fails load_state_dict.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision

PROGRAM, AMPSCALE, *NETWORKS = sys.argv[1:]
CLASSES, BATCH, STEPS = 10, 2, 2
DTYPES = {"F32": np.float32, "I64": np.int64}
failures = 0


def check(name, error, limit):
    global failures
    good = bool(error <= limit)  # false for NaN
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {name}: {error:.2e} (at most {limit})")


def read(path):
    """The tensors of a file, mapped, and its metadata."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    data = np.memmap(path, np.uint8, "c", offset=8 + length)
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = data[begin:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(np.asarray(array))
    return tensors, metadata


def write(path, tensors):
    """As torch's users save a state_dict: in its order, without a checksum."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        kind = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().tobytes())


def program(mode, arch, size, path):
    """The program's logits, and the images that it evaluated."""
    images_path = path + ".images"
    out = subprocess.run(
        [PROGRAM, mode, arch, str(size), path, images_path], check=True, stdout=subprocess.PIPE
    ).stdout
    images = torch.from_numpy(np.fromfile(images_path, np.float32).reshape(BATCH, 3, size, size))
    return torch.tensor(json.loads(out)), images


def compare(name, net, logits, images):
    with torch.no_grad():
        want = net.eval()(images)
    check(f"{name}: rows that are alike", float((want[0] - want[1]).abs().max() < 1e-3), 0)
    check(name, ((logits - want).abs() / want.abs().clamp(min=1)).max().item(), 1e-4)


def ours_to_torchvision(arch, size, mode, folder):
    path = os.path.join(folder, "ours.safetensors")
    logits, images = program(mode, arch, size, path)
    tensors, metadata = read(path)
    momentum = [name for name in tensors if name.startswith("momentum/")]
    state = {name: tensor for name, tensor in tensors.items() if name not in momentum}
    net = getattr(torchvision.models, arch)(num_classes=CLASSES)
    net.load_state_dict(state, strict=True)
    compare(f"our {arch} {mode} in torchvision", net, logits, images)
    parameters = {"momentum/" + name for name, _ in net.named_parameters()}
    check(f"momenta of {arch} without a parameter", len(set(momentum) - parameters), 0)
    check(f"momenta of {arch} missing", len(parameters - set(momentum)), 0 if mode == "checkpoint" else len(parameters))
    counters = [t.item() for name, t in state.items() if name.endswith("num_batches_tracked")]
    check(f"batch counters of {arch} that are not {STEPS}", sum(c != STEPS for c in counters), 0)
    check(f"{arch} is called {metadata['arch']}", float(metadata["arch"] != arch), 0)


def torchvision_to_ours(arch, size, folder):
    path = os.path.join(folder, "theirs.safetensors")
    torch.manual_seed(1)
    net = getattr(torchvision.models, arch)(num_classes=CLASSES)
    for parameter in net.parameters():  # AlexNet's own initial weights make all images alike
        parameter.data.mul_(2 if arch == "alexnet" and parameter.dim() > 1 else 1)
    for name, buffer in net.named_buffers():  # fresh statistics would hide a mix-up
        if "running" in name:
            spread = 0.2 * (torch.rand_like(buffer) - 0.5)
            buffer.copy_(spread if "mean" in name else 1 + spread)
    write(path, net.state_dict())
    logits, images = program("load", arch, size, path)
    compare(f"torchvision's {arch} in ours", net, logits, images)
    if arch == "resnet18":
        flags = ["--dummy", "--dummy-val", "4", "--classes", str(CLASSES), "-b", "2", "--image-size", str(size)]
        done = subprocess.run([AMPSCALE, "train", "-a", arch, *flags, "--evaluate", "--init", path], stdout=subprocess.PIPE)
        check("ampscale train --evaluate --init", float(done.returncode != 0 or b"Acc@1" not in done.stdout), 0)


torch.set_num_threads(2)
# Checkpoints of the largest networks have nearly a gigabyte. For these, only the weights are
# exchanged.
FORMS = {
    "resnet18": (64, "checkpoint"),
    "resnet50": (64, "checkpoint"),
    "alexnet": (64, "weights"),
    "vgg11_bn": (32, "weights"),
}
for arch in NETWORKS:
    size, mode = FORMS[arch]
    with tempfile.TemporaryDirectory() as folder:
        ours_to_torchvision(arch, size, mode, folder)
        torchvision_to_ours(arch, size, folder)
sys.exit(failures != 0)
