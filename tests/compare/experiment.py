#!/usr/bin/env python3
"""Measures the error rates of `ampscale compare`: how often it raises a false alarm, finds a
slowdown, or is inconclusive. It takes an hour or more.

    tests/compare/experiment.py --program build/cli/ampscale --out FILE

In each round, runs of the same program train in turns, in a random order: a run of the base, an
unchanged run, and a run for each slowdown, which `--inject` causes. A trial takes the runs of some
rounds. It compares them with the runs of the base by compare's defaults, as a user does after
scripts/interleave. A regression between the base and unchanged runs, in either direction, is a
false alarm. The verdict on the same runs without pairs is recorded too.

"nd" trains new rounds for each trial. All other workloads train a pool of rounds, from which each
trial draws without repetition. FILE is the record that `ampscale report` shows. It is written after
each workload, and a second call adds the workloads that it lacks.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

SEED, STEPS, SLOWDOWNS = 1, 280, "2,3,5"
# The slowdown of each arm, for --inject.
ARMS = {"base": None, "unchanged": None,
        **{f"{percent} % slower": f"throttle={percent}%" for percent in SLOWDOWNS.split(",")}}
# Milliseconds of a turn (0: a run is a turn), rounds of the pool (0: each trial trains its own),
# ranks, precision. Only runs of one process can be stopped for a turn: stopping `launch` would not
# stop the ranks.
WORKLOADS = {
    "nd": ("one device, synthetic tensors, FP32", 50, 0, 1, "fp32"),
    "ddp": ("DDP with 2 ranks, synthetic tensors, FP32", 0, 40, 2, "fp32"),
    "jpeg": ("one device, JPEG files, FP32", 50, 40, 1, "fp32"),
    "amp": ("one device, synthetic tensors, O1", 50, 40, 1, "O1"),
}


def take_turns(commands, seconds):
    """Runs the programs in turn, each for some seconds, while the others are stopped. A disturbance
    that lasts longer than a turn then slows all of them equally."""
    running = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            running[-1].send_signal(signal.SIGSTOP)
        while running:
            for program in list(running):
                program.send_signal(signal.SIGCONT)
                time.sleep(seconds)
                program.send_signal(signal.SIGSTOP)
                if program.poll() is not None:
                    running.remove(program)
                    if program.returncode:
                        raise SystemExit(f"a run failed with exit code {program.returncode}")
    finally:
        for program in running:
            program.kill()
            program.wait()


class Workload:
    def __init__(self, args, scratch, name):
        self.args, self.scratch, self.name = args, scratch, name
        about, self.slice_ms, self.pool, self.ranks, self.precision = WORKLOADS[name]
        self.part = {"workload": name, "about": about, "slice_ms": self.slice_ms, "steps": STEPS,
                     "pool_rounds": self.pool, "trials": []}

    def command(self, arm, out):
        launch = ["launch", "--nproc", str(self.ranks), "--"] if self.ranks > 1 else []
        data = ["--dummy", "--dummy-train", "100000", "--dummy-val", "1", "--classes", "10"]
        if self.name == "jpeg":
            data = [str(self.scratch / "images")]
        inject = ["--inject", ARMS[arm]] if ARMS[arm] else []
        return [self.args.program, *launch, "train", *data, "--training-only", "--no-checkpoint",
                "--arch", "resnet8", "--image-size", "32", "--threads", "1", "--workers", "1",
                "--telemetry", "0", "--print-freq", "1000000", "--epochs", "1000",
                "--batch-size", str(2 * self.ranks), "--precision", self.precision,
                "--steps", str(STEPS), "--out", str(out), *inject]

    def train(self, folder, rounds, rng, record):
        """Trains into folder/<arm>/r<round>. Returns the throughput of each run."""
        for i in range(rounds):
            order = rng.sample(list(ARMS), len(ARMS))
            commands = [self.command(arm, folder / arm / f"r{i:03}") for arm in order]
            if self.slice_ms:
                take_turns(commands, self.slice_ms / 1000)
            else:
                for command in commands:
                    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        info = json.loads((folder / "base" / "r000" / "run.json").read_text())
        record.update({key: info[key] for key in ("device", "libraries", "host", "version",
                                                  "commit") if key in info})
        return {arm: [json.loads((run / "summary.json").read_text())["images_per_s"]["median"]
                      for run in sorted((folder / arm).iterdir())] for arm in ARMS}

    def judge(self, base, new, pair, record):
        """The comparison of two folders of runs by the median step."""
        done = subprocess.run([self.args.program, "compare", "--json", "--pair", pair, "--metric",
                               "images_per_s", "--allow-different", "config.inject", base, new],
                              capture_output=True, text=True)
        report = json.loads(done.stdout or "{}")
        found = [m for cell in report.get("cells", []) for m in cell["metrics"] if m["decides"]]
        if len(found) != 1:
            raise SystemExit(f"the runs could not be judged: {done.stderr}{done.stdout}")
        record.update(metric=found[0]["name"], alpha=report["alpha"],
                      threshold=found[0]["threshold"])
        return found[0]

    def judge_arm(self, folder, arm, record):
        """The verdict on an arm, and the verdict without pairs. A regression of the base relative
        to unchanged runs also counts as a regression."""
        base, new, result = str(folder / "base"), str(folder / arm), {}
        for pair, key in ("never", "sides"), ("auto", "verdict"):
            metric = self.judge(base, new, pair, record)
            reverse = self.judge(new, base, pair, record)["verdict"]
            result[key] = metric["verdict"]
            if arm == "unchanged" and reverse == "REGRESSION":
                result[key] = reverse
        return result | {key: metric[key] for key in ("paired", "ratio", "low", "high", "p")}

    def run_trial(self, number, record):
        begin, folder = time.monotonic(), self.scratch / "trial"
        rng = random.Random(f"{SEED} {self.name} {number}")
        trial = {"workload": self.name, "trial": number}
        if self.pool:
            trial["rounds"] = sorted(rng.sample(range(self.pool), self.args.rounds))
            for arm in ARMS:
                (folder / arm).mkdir(parents=True)
                for run in (f"{arm}/r{i:03}" for i in trial["rounds"]):
                    (folder / run).symlink_to(self.scratch / "pool" / run)
        else:
            trial["images_per_s"] = self.train(folder, self.args.rounds, rng, record)
        for arm in list(ARMS)[1:]:
            trial[arm] = self.judge_arm(folder, arm, record)
        shutil.rmtree(folder)
        self.part["trials"].append(trial | {"seconds": time.monotonic() - begin})

    def count(self, arm, key):
        return collections.Counter(trial[arm][key] for trial in self.part["trials"])

    def run(self, record):
        # On a shared machine, a core may be slow for a while when other cores are not. The first
        # core handles the interrupts of devices.
        cores = os.sched_getaffinity(0)
        if self.slice_ms:
            os.sched_setaffinity(0, {max(cores)})
        if self.pool:
            rng = random.Random(f"{SEED} {self.name} pool")
            self.part["pool"] = self.train(self.scratch / "pool", self.pool, rng, record)
        for number in range(self.args.trials):
            self.run_trial(number, record)
            self.part["arms"] = [{"arm": arm, "pairs": self.count(arm, "verdict"),
                                  "sides": self.count(arm, "sides")} for arm in list(ARMS)[1:]]
            print(self.name, number, json.dumps(self.part["arms"]), flush=True)
        record["workloads"].append(self.part)
        shutil.rmtree(self.scratch / "pool", ignore_errors=True)
        os.sched_setaffinity(0, cores)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True, help="the ampscale program to run")
    parser.add_argument("--out", required=True, help="the record to write")
    parser.add_argument("--workload", choices=WORKLOADS, help="default: all")
    parser.add_argument("--trials", type=int, default=100, help="of each workload (default 100)")
    parser.add_argument("--rounds", type=int, default=10, help="runs a side (default 10)")
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    record = {"kind": "gate-quality", "schema": 2, "rounds": args.rounds, "seed": SEED,
              "slowdowns": SLOWDOWNS, "workloads": []}
    if os.path.exists(args.out):
        record = json.loads(pathlib.Path(args.out).read_text())
        if record["rounds"] != args.rounds:
            parser.error(f"'{args.out}' has trials of {record['rounds']} rounds")
    with tempfile.TemporaryDirectory(prefix="ampscale-gate") as name:
        scratch = pathlib.Path(name)
        subprocess.run([args.program, "data", "synth", "--out", scratch / "images", "--classes",
                        "10", "--train", "20", "--val", "1", "--size", "48"],
                       stdout=subprocess.DEVNULL, check=True)
        for name in [args.workload] if args.workload else WORKLOADS:
            if name not in [part["workload"] for part in record["workloads"]]:
                Workload(args, scratch, name).run(record)
                pathlib.Path(args.out).write_text(json.dumps(record, indent=1))


main()
