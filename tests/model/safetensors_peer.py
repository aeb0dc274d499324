"""Python's safetensors against ours. usage: safetensors_peer.py TEST_MODEL

`TEST_MODEL safetensors FOLDER` writes FOLDER/ours, and checks FOLDER/theirs, which is made here. Both
hold what tensors() gives, and the metadata {"epoch": "7", "note": "grüße"}.
"""
import os
import subprocess
import sys
import tempfile
import zlib

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

METADATA = {"epoch": "7", "note": "grüße"}


def tensors():
    return {
        "fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "half": np.array([0.5, -2.0, 65504.0], dtype=np.float16),
        "count": np.array(-9, dtype=np.int64),
        "bytes": np.array([1, 2, 250], dtype=np.uint8),
        "none": np.zeros((0, 4), dtype=np.float64),
    }


def check(path):
    have, want = load_file(path), tensors()
    assert set(have) == set(want), have.keys()
    for name, value in want.items():
        assert have[name].dtype == value.dtype and have[name].shape == value.shape, name
        assert (have[name] == value).all(), name
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    crc = metadata.pop("file_crc32")
    assert metadata == METADATA, metadata
    content = open(path, "rb").read()
    mark = b'"file_crc32":"'
    at = content.index(mark) + len(mark)
    assert int(crc, 16) == zlib.crc32(content[:at] + b"00000000" + content[at + 8 :])


with tempfile.TemporaryDirectory() as folder:
    save_file(tensors(), os.path.join(folder, "theirs"), metadata=METADATA)
    subprocess.run([sys.argv[1], "safetensors", folder], check=True)
    check(os.path.join(folder, "ours"))
