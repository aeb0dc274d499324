#!/usr/bin/env python3
"""Makes the PNG files of this folder, and for each the pixels that PIL decodes.

usage: make.py [FOLDER]

NAME.png is a file, NAME.png.ppm its pixels by Image.open(...).convert("RGB"). Needs
Pillow and NumPy; the committed files were made with Pillow 13.0.
"""
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image

W, H = 29, 21
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def values(channels, top, seed):
    """Waves and noise from 0 to top, (H, W, channels)."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:H, 0:W].astype(float)
    planes = [0.5 + 0.4 * np.sin(x * random.uniform(0.1, 0.9) + y * random.uniform(0.1, 0.9))
              + random.normal(0, 0.1, (H, W)) for _ in range(channels)]
    return (np.clip(np.stack(planes, -1), 0, 1) * top).round().astype(int)


def pack(rows, depth):
    """Rows of samples as PNG packs them, each after its filter: none, Sub or Up in turns."""
    out, before = b"", None
    for y, row in enumerate(rows):
        flat = row.reshape(-1)
        if depth == 16:
            line = flat.astype(">u2").tobytes()
        elif depth == 8:
            line = flat.astype(np.uint8).tobytes()
        else:
            bits = "".join(format(v, f"0{depth}b") for v in flat)
            bits += "0" * (-len(bits) % 8)
            line = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
        step = max(1, row.shape[-1] * depth // 8)
        plain = np.frombuffer(line, np.uint8).astype(int)
        left = np.concatenate([np.zeros(step, int), plain[:-step]])[:len(plain)]
        up = before if before is not None else np.zeros(len(plain), int)
        kind = y % 3
        out += bytes([kind]) + ((plain - [0, left, up][kind]) % 256).astype(np.uint8).tobytes()
        before = plain
    return out


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(samples, depth, color, before=b"", interlaced=False):
    if interlaced:
        passes = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7]
        data = b"".join(pack(p, depth) for p in passes if p.size)
    else:
        data = pack(samples, depth)
    packed = zlib.compress(data, 9)
    half = len(packed) // 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, depth, color, 0, 0, interlaced))
            + before + chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:]) + chunk(b"IEND", b""))


def palette(n):
    return chunk(b"PLTE", bytes(np.random.default_rng(n).integers(0, 256, 3 * n).tolist()))


def png_files():
    for depth in (1, 2, 4, 8, 16):
        yield f"gray-{depth}", png(values(1, 2**depth - 1, depth), depth, 0)
    deep = values(1, 700, 3)  # above and below the value at which PIL clips
    yield "gray-16-interlaced", png(deep, 16, 0, interlaced=True)
    yield "gray-transparent", png(values(1, 255, 4), 8, 0, chunk(b"tRNS", b"\0\x50"))
    yield "rgb-8", png(values(3, 255, 5), 8, 2)
    yield "rgb-8-interlaced", png(values(3, 255, 6), 8, 2, interlaced=True)
    yield "rgb-16", png(values(3, 65535, 7), 16, 2)
    gamma = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"tRNS", b"\0\1\0\2\0\3")
    yield "rgb-gamma", png(values(3, 255, 8), 8, 2, gamma)
    for depth in (1, 2, 4, 8):
        n = 2**depth if depth < 8 else 200
        yield f"palette-{depth}", png(values(1, n - 1, 20 + depth), depth, 3, palette(n))
    yield "palette-transparent", png(values(1, 15, 9), 4, 3, palette(16) + chunk(b"tRNS", bytes(range(0, 160, 10))))
    yield "palette-short", png(values(1, 15, 10), 4, 3, palette(9))  # some indices lie beyond it
    yield "gray-alpha-8", png(values(2, 255, 11), 8, 4)
    yield "gray-alpha-16", png(values(2, 65535, 12), 16, 4)
    yield "rgb-alpha-8", png(values(4, 255, 13), 8, 6)
    yield "rgb-alpha-16-interlaced", png(values(4, 65535, 14), 16, 6, interlaced=True)


folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
for name, data in png_files():
    path = os.path.join(folder, name + ".png")
    with open(path, "wb") as f:
        f.write(data)
    Image.open(path).convert("RGB").save(path + ".ppm")
