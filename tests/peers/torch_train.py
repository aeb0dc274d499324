#!/usr/bin/env python3
"""Trains a network on a folder of images in PyTorch, by the recipe that `ampscale train` has.

usage: torch_train.py DATA SEED RECIPE
RECIPE is that of accuracy.py, as JSON. Trains on one thread. Prints a JSON object with `seed`, `top1`
(validation, percent, after the last epoch) and `loss` (the last epoch's mean training loss).

What the two sides share: torchvision's network with its own initialisation, RandomResizedCrop and a
flip for training, Resize and CenterCrop for validation, ImageNet's mean and deviation, a new order
in each epoch with the last batch kept, cross entropy, SGD with momentum and weight decay on all
parameters, a learning rate that rises linearly and then falls along a cosine, set anew in each step.
"""
import json
import math
import os
import random
import sys
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image
from torchvision import datasets, models, transforms

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def parts(root, size):
    """The two parts of a data set; the files are decoded once, their bits are the same each time."""
    known = {}

    def load(path):
        if path not in known:
            known[path] = Image.open(path).convert("RGB")
        return known[path]

    finish = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    train = transforms.Compose([transforms.RandomResizedCrop(size),
                                transforms.RandomHorizontalFlip(), *finish])
    val = transforms.Compose([transforms.Resize((size * 256 + 112) // 224),
                              transforms.CenterCrop(size), *finish])
    return [datasets.ImageFolder(os.path.join(root, part), transform, loader=load)
            for part, transform in (("train", train), ("val", val))]


def rate(args, step, steps_per_epoch):
    """The learning rate of a step: see train_config_lr in runners/config.h."""
    warm = args.warmup_epochs * steps_per_epoch
    if step + 1 < warm:
        return args.lr * (step + 1) / warm
    done = (step - warm) / (args.epochs * steps_per_epoch - warm)
    return args.lr * (1 + math.cos(math.pi * max(0.0, done))) / 2


def top1(model, val, batch):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in torch.utils.data.DataLoader(val, batch):
            right += int((model(images).argmax(1) == labels).sum())
    return 100 * right / len(val)


def train(args, data, seed):
    train_part, val_part = data
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    model = getattr(models, args.net)(num_classes=len(train_part.classes))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum,
                                weight_decay=args.weight_decay)
    loader = torch.utils.data.DataLoader(train_part, args.batch, shuffle=True)
    step, total = 0, 0.0
    for _ in range(args.epochs):
        model.train()
        total = 0.0
        for images, labels in loader:
            for group in optimizer.param_groups:
                group["lr"] = rate(args, step, len(loader))
            optimizer.zero_grad(set_to_none=True)
            images = images.contiguous(memory_format=torch.channels_last)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            step += 1
    return {"seed": seed, "top1": top1(model, val_part, args.batch),
            "loss": total / len(train_part)}


def main():
    data, seed, recipe = sys.argv[1:]
    args = SimpleNamespace(**json.loads(recipe))
    torch.set_num_threads(1)
    print(json.dumps(train(args, parts(data, args.image_size), int(seed))))


if __name__ == "__main__":
    main()
