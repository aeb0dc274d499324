#!/usr/bin/env python3
"""Made-up pictures that cost a decoder what photographs cost.

usage: pictures.py DIR N WIDTH HEIGHT
Writes N JPEG files of that size, as DIR/train/a/*.JPEG. Of 500x375 pixels they have about 116 kB.
"""
import math
import os
import sys

import numpy as np
from PIL import Image


def picture(width, height, seed, noise=4):
    """Waves of several lengths, an edge and some noise: what photographs consist of."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = []
    for _ in range(3):
        plane = np.full((height, width), 128.0)
        for length in (97, 41, 17, 9):
            angle = random.uniform(0, 2 * math.pi)
            wave = (x * math.cos(angle) + y * math.sin(angle)) * 2 * math.pi / length
            plane += random.uniform(5, 30) * np.sin(wave + random.uniform(0, 6))
        plane += 40 * (x > width * random.uniform(0.2, 0.8))
        plane += random.normal(0, noise, plane.shape)
        planes.append(plane)
    return Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))


def main():
    folder = os.path.join(sys.argv[1], "train", "a")
    os.makedirs(folder, exist_ok=True)
    width, height = int(sys.argv[3]), int(sys.argv[4])
    for i in range(int(sys.argv[2])):
        picture(width, height, i, noise=8).save(f"{folder}/{i:05d}.JPEG", quality=95)


if __name__ == "__main__":
    main()
