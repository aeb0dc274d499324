"""Prints torchvision_graphs.inc: what torchvision's networks look like, one C initializer a line.
With the name of that file: checks that it still says so.

    name, image size, entries of the state_dict, trained parameters, hash of the state_dict's names
    and shapes, hash of the modules' output shapes

The hash is FNV-1a (64 bits). The state_dict is taken in its order, but for the modules of a
block's shortcut, which come first in their block, and without batch norm's counters of batches;
a line is "name:64x3x7x7\\n". Modules are sorted by name; a line is "name:64x112x112\\n", with 1 for
height and width after flattening.
"""
import sys

import torch
import torchvision

NAMES = """alexnet resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d wide_resnet50_2
vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn""".split()
ODD = ("alexnet", "resnet50", "vgg16_bn")  # also with images of an odd size


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def line(name, shape):
    return f"{name}:{'x'.join(map(str, shape))}\n"


def state_lines(net):
    """The state_dict's lines, shortcuts first in their block."""
    tensors = {k: v for k, v in net.state_dict().items() if "num_batches_tracked" not in k}
    block_start = {}
    keys = []
    for place, name in enumerate(tensors):
        parts = name.split(".")
        block = ".".join(parts[:2]) if parts[0].startswith("layer") else name
        start = block_start.setdefault(block, place)
        keys.append((start, "downsample" not in parts, place, name))
    return [line(name, tensors[name].shape) for *_, name in sorted(keys)]


def module_lines(net, size):
    """The output shapes of the modules that compute; one used n times gives n lines."""
    lines = []

    def note(name):
        def hook(module, inputs, output):
            shape = list(output.shape[1:])
            lines.append(line(name, shape + [1] * (3 - len(shape))))

        return hook

    for name, module in net.named_modules():
        if not list(module.children()):
            module.register_forward_hook(note(name))
    net(torch.empty(1, 3, size, size, device="meta"))
    return sorted(lines)


def main():
    # Initial values are skipped: only shapes matter here, and drawing values takes long.
    for name in ("kaiming_normal_", "kaiming_uniform_", "normal_", "trunc_normal_", "uniform_"):
        setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)
    lines = []
    for name in NAMES:
        for size in [224, 97] if name in ODD else [224]:
            net = getattr(torchvision.models, name)().to("meta").eval()
            states, modules = state_lines(net), module_lines(net, size)
            trained = sum(p.numel() for p in net.parameters())
            hashes = ", ".join(f'0x{fnv1a64("".join(text)):016x}' for text in (states, modules))
            lines.append(f'{{"{name}", {size}, {len(states)}, {trained}, {hashes}}},\n')
    if len(sys.argv) > 1:
        sys.exit(open(sys.argv[1]).readlines() != lines)
    print(*lines, sep="", end="")


main()
