"""Accuracy beside PyTorch's: the same recipe on the same real images, many seeds a side.

Every side trains ResNet-18 on scikit-learn's digits (digits_tree.py). Sides take turns by seed, so
that a study that is stopped has equally many of each; a record that is there is continued. What is
compared is validation top-1 after the last epoch. It is no timing: anything may run beside it.
"""
import concurrent.futures
import json
import os
import shutil
import time

from common import write_record
from peer_stats import difference, mean_interval

RECIPE = {"net": "resnet18", "image_size": 32, "batch": 32, "epochs": 6, "lr": 0.01,
          "lr_schedule": "cosine", "warmup_epochs": 1, "momentum": 0.9, "weight_decay": 1e-4}
DATA = {"name": "scikit-learn's digits", "train": 1198, "val": 599,
        "about": "8x8 pixels enlarged to 32x32 and saved as JPEG files; every third is for validation"}
MARGIN, LEVEL = 2.0, 0.95
REFERENCE = "PyTorch fp32"
ABOUT = "validation top-1 of resnet18 on scikit-learn's digits, in each precision and with 2 ranks"

# Flags of ampscale for each row of the comparison. With two ranks, each rank has half of the batch.
# --sync-bn then computes the statistics of batch norms over the whole batch, as a single process
# does.
SIDES = {
    "fp32": [],
    "O1": ["--opt-level", "O1"],
    "O2": ["--opt-level", "O2"],
    "bf16": ["--precision", "bf16"],
    "DDP, 2 ranks": ["--mode", "ddp", "--sync-bn"],
}


def our_command(program, data, side, seed, out):
    r, two = RECIPE, side.startswith("DDP")
    launch = ["launch", "--nproc", "2", "--comm", "gloo", "--"] if two else []
    return [program, *launch, "train", data, "-a", r["net"], "--image-size", str(r["image_size"]),
            "-b", str(r["batch"] // (2 if two else 1)), "--epochs", str(r["epochs"]), "--lr",
            str(r["lr"]), "--lr-schedule", r["lr_schedule"], "--warmup-epochs",
            str(r["warmup_epochs"]), "--momentum", str(r["momentum"]), "--wd",
            str(r["weight_decay"]), "--threads", "1", "-j", "1", "--no-checkpoint", "--telemetry",
            "0", "--val-every", str(r["epochs"]), "--seed", str(seed), "-q", "--out", out,
            *SIDES[side]]


def our_run(peers, data, side, seed):
    """A run of ours: its validation top-1 and training loss, in the last epoch."""
    out = f"{peers.scratch}/{side.split(',')[0]}-{seed}"
    peers.call(our_command(peers.program, data, side, seed, out))
    with open(f"{out}/epochs.jsonl") as lines:
        last = json.loads(lines.readlines()[-1])
    shutil.rmtree(out)
    return {"seed": seed, "top1": last["val_top1"], "loss": last["train_loss"]}


def their_run(peers, data, seed):
    text = peers.call([peers.python, f"{peers.here}/torch_train.py", data, str(seed),
                       json.dumps(RECIPE)])
    return json.loads(text.splitlines()[-1])


def blank(peers):
    return {"kind": "peer-accuracy", "schema": 1, "measured": "", **peers.about(),
            "data": DATA, "recipe": RECIPE, "reference": REFERENCE, "margin": MARGIN,
            "level": LEVEL,
            "sides": [{"side": name, "runs": []} for name in [REFERENCE, *SIDES]]}


def begin(peers, path):
    """The record at `path`, which must be of the same recipe and programs, or a new one."""
    new = blank(peers)
    if not path or not os.path.exists(path):
        return new
    with open(path) as file:
        record = json.load(file)
    for key in ("kind", "recipe", "data", "peers", "commit"):
        if record.get(key) != new[key]:
            peers.die(1, f"'{path}' has another '{key}'; name another file")
    return record


def summarize(record):
    """Fills in each side's mean and interval, and its difference from the reference."""
    tops = {s["side"]: [run["top1"] for run in s["runs"]] for s in record["sides"]}
    reference = tops[REFERENCE]
    for side in record["sides"]:
        values = tops[side["side"]]
        if values:
            side.update(mean_interval(values, LEVEL))
        if side["side"] != REFERENCE and min(len(values), len(reference)) > 1:
            side["apart"] = difference(values, reference, LEVEL, MARGIN)


def run_side(peers, data, name, seed):
    theirs = name == REFERENCE
    return their_run(peers, data, seed) if theirs else our_run(peers, data, name, seed)


def missing(record, seeds):
    """(side, seed) of each run that the record lacks, in the order of seeds."""
    return [(side, seed) for seed in range(1, seeds + 1) for side in record["sides"]
            if all(run["seed"] != seed for run in side["runs"])]


def measure(peers, path, seeds, jobs):
    """Trains what the record at `path` lacks of seeds 1 to `seeds`, `jobs` runs at a time, and
    returns the record. Each run that ends is written."""
    record = begin(peers, path)
    data = f"{peers.scratch}/digits"
    peers.call([peers.python, f"{peers.here}/digits_tree.py", data])
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = {pool.submit(run_side, peers, data, side["side"], seed): side
                 for side, seed in missing(record, seeds)}
        for ended in concurrent.futures.as_completed(found):
            side, run = found[ended], ended.result()
            side["runs"].append(run)
            side["runs"].sort(key=lambda r: r["seed"])
            peers.say(f"accuracy: seed {run['seed']}, {side['side']}: {run['top1']:.2f} %")
            summarize(record)
            record["measured"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            if path:
                write_record(record, path)
    return record
