#!/usr/bin/env python3
"""Golden outputs: what the program prints and writes for fixed inputs, in a form that two builds can
be compared by.

usage: golden.py make PROGRAM SOURCE OUT     write the outputs of PROGRAM into the new folder OUT
       golden.py diff A B                    compare two such folders; exit 1 where they differ
       golden.py diff --common A B           likewise, only the files that both have

Three forms:
  exact    what is a pure function of records or of the command line: every value is kept, sentences
           of Markdown are reduced to their numbers, since words may change and numbers may not
  trained  records of a short training on the CPU: losses, rates and counters are kept, whatever a
           clock measured is replaced by its type
  shape    what is measured: keys, columns and texts' places, no values
Numbers are equal within a relative 1e-9, since two builds may contract multiply-adds differently.
"""
import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Keys whose values depend on the clock, the machine or the build.
VOLATILE = re.compile(
    r"(_s|_us|_ms|_ns|build|seconds|elapsed|started|ended|finished|begun|time|date|version|commit|host\w*|"
    r"load_start|load_end|others|steal|far_steps|"
    r"node|pid|per_s\w*|bandwidth\w*|cpu|cores|threads|memory\w*|environment|command|program|dir|path|"
    r"out|libraries|compiler|kernel|os|median|min|max|mean|_p5|_p95|stddev|spread|bytes_read|files_read|"
    r"percent|ticks|device_bytes|storage_bytes|share|speed\w*|power\w*|energy\w*|clock\w*|temp\w*|samples|uuid|job)$"
)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def numbers_of(text):
    """The numbers of a text, one row a line that has any."""
    return "\n".join(" ".join(NUMBER.findall(line)) for line in text.splitlines() if NUMBER.search(line))


def leaves(value, path=""):
    """(path, value) of each leaf; of lists each element, by its place."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], f"{path}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def exact(value):
    return "\n".join(f"{p} {json.dumps(v)}" for p, v in leaves(value))


def trained(value):
    """Every leaf, those that a clock or the machine decides by type alone."""
    rows = []
    for path, leaf in leaves(value):
        keys = re.findall(r"[^.\[\]]+", path)
        volatile = any(VOLATILE.search(k) for k in keys if not k.isdigit())
        rows.append(f"{path} {type(leaf).__name__ if volatile else json.dumps(leaf)}")
    return "\n".join(rows)


def shape(value):
    """Paths with their types, list elements folded together."""
    rows = set()
    for path, leaf in leaves(value):
        kind = "number" if isinstance(leaf, (int, float)) and not isinstance(leaf, bool) else type(leaf).__name__
        folded = re.sub(r"\[[0-9]+\]", "[]", path)
        rows.add(f"{folded} {kind}")
    return "\n".join(sorted(rows))


def read_json(text):
    """A JSON value, or a list of them where each line is one."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


class Maker:
    def __init__(self, program, source, out):
        self.program = os.path.abspath(program)
        source = pathlib.Path(source).resolve()
        self.recorded = source / "results/recorded/cpu-avx512-2-threads"
        self.published = source / "results/published"
        self.out = pathlib.Path(out)
        self.out.mkdir(parents=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="golden"))

    def put(self, name, text):
        (self.out / name).write_text(text.rstrip("\n") + "\n")

    def run(self, *args, want=(0,)):
        env = dict(os.environ, OMP_WAIT_POLICY="passive", LC_ALL="C.UTF-8")
        done = subprocess.run([self.program, *map(str, args)], cwd=self.work, env=env, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
        if done.returncode not in want:
            sys.exit(f"golden: {' '.join(map(str, args))}: exit code {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def json(self, name, form, *args, **kw):
        self.put(name, form(read_json(self.run(*args, **kw))))

    def text(self, name, *args, **kw):
        self.put(name, numbers_of(self.run(*args, **kw)))

    def folder(self, name, top, form=None, only=None):
        """Every text file of a folder: JSON by `form`, the rest by its numbers."""
        rows = []
        for file in sorted(pathlib.Path(top).rglob("*")):
            at = str(file.relative_to(top))
            if not file.is_file() or (only and not re.search(only, at)):
                continue
            if file.suffix in (".png", ".svg", ".safetensors", ".gz") or ".tfevents." in at:
                rows.append(f"== {at if '.tfevents.' not in at else 'tfevents'}")
                continue
            body = file.read_text(errors="replace")
            is_json = file.suffix in (".json", ".jsonl")
            rows += [f"== {at}", (form or exact)(read_json(body)) if is_json else numbers_of(body)]
        self.put(name, "\n".join(rows))

    # ---- pure functions of records and of the command line ----

    def programs_facts(self):
        for arch in ("resnet18", "resnet50", "vgg16", "alexnet"):
            self.json(f"info-{arch}.json", exact, "info", "-a", arch, "--json")
        for policy in ("fp32", "tf32", "amp", "bf16", "O1", "O2", "O3"):
            self.put(f"info-policy-{policy}", self.run("info", "--policy", policy))
        self.put("info-list", self.run("info", "--list"))
        self.put("accept-list", numbers_of(self.run("accept", "--list")))
        for spec in ("cpu", "h200", "h100", "a100", "v100"):
            self.json(f"accept-spec-{spec}.json", exact, "accept", "--spec", spec, "--print")
            self.text(f"accept-plan-{spec}", "accept", "--spec", spec, "--dry-run", "--out", "plan", "--level", "4")
        for preset in ("quick", "hal"):
            self.json(f"study-{preset}.json", exact, "study", preset, "--print")
            self.text(f"study-plan-{preset}", "study", preset, "--dry-run", "--out", "plan")
        self.json("selftest-shape.json", shape, "selftest", "--quick", "--json")

    def figures(self):
        runs = sorted((self.recorded / "precision").glob("*-seed0"))
        self.run("plot", "--out", "figures-runs", "--format", "svg", *runs)
        self.folder("plot-runs", self.work / "figures-runs/data", only=r"\.(tsv|dat|csv|txt)$")
        self.run("plot", "--out", "figures-study", "--format", "svg",
                 "--published", f"{self.published}/hal_v100.csv:feb", f"{self.recorded}/study-quick/analysis.json")
        self.folder("plot-study", self.work / "figures-study/data", only=r"\.(tsv|dat|csv|txt)$")
        self.run("plot", "--out", "figures-overlap", "--format", "svg", self.recorded / "overlap-resnet18.json")
        self.folder("plot-overlap", self.work / "figures-overlap/data", only=r"\.(tsv|dat|csv|txt)$")

    def judged(self):
        precision = self.recorded / "precision"
        base, new = sorted(precision.glob("fp32-*")), sorted(precision.glob("O1-*"))
        self.run("compare", "--json", "-o", "compare.json", "--markdown", "compare.md", "--junit", "compare.xml",
                 "--allow-different", "config", "--metric", "all", *base, "--", *new, want=(0, 3, 5))
        self.put("compare.json", exact(read_json((self.work / "compare.json").read_text())))
        self.put("compare.md", numbers_of((self.work / "compare.md").read_text()))
        self.json("predict-study.json", exact, "predict", "--json", "--network", "2,10", "--ranks", "2..64",
                  f"{self.recorded}/study-quick/analysis.json:1")
        self.json("predict-run.json", exact, "predict", "--json", "--network", "2,10", "--ranks", "2..64", base[0])
        self.json("predict-published.json", exact, "predict", "--json", "--fit", f"{self.published}/hal_v100.csv:feb")

    def reported(self):
        self.run("report", "--no-figures", "-o", "REPORT.md", self.recorded)
        self.put("report", numbers_of((self.work / "REPORT.md").read_text()))
        run = self.recorded / "precision/O1-seed0"
        for form in ("mlperf", "prometheus"):
            self.run("export", "--format", form, "-o", f"export-{form}", run)
            self.put(f"export-{form}", numbers_of((self.work / f"export-{form}").read_text()))
        for form in ("csv", "tensorboard"):
            self.run("export", "--format", form, "-o", f"export-{form}", run)
            self.folder(f"export-{form}", self.work / f"export-{form}")
        shutil.copytree(self.recorded / "study-quick", self.work / "study")
        self.text("watch-once", "watch", "--once", run)

    # ---- short trainings ----

    def trainings(self):
        common = ["-a", "resnet8", "--image-size", "32", "-b", "8", "--seed", "3", "--threads", "1", "-p", "1", "--telemetry", "0"]
        dummy = ["--dummy", "--dummy-train", "64", "--dummy-val", "16", "--classes", "10", "--epochs", "2"]
        for name, flags in {"fp32": [], "amp": ["--precision", "amp"], "O2": ["--opt-level", "O2"],
                            "bf16": ["--precision", "bf16", "--emulate"],
                            "dp": ["--devices", "cpu:2"], "accumulate": ["--accumulate", "2", "--lars", "0.001"]}.items():
            self.run("train", *common, *dummy, *flags, "--out", f"train-{name}")
            self.folder(f"train-{name}", self.work / f"train-{name}", trained, only=r"\.jsonl?$")
        self.run("data", "synth", "--out", "jpegs", "--classes", "3", "--train", "8", "--val", "4", "--size", "48", "-j", "1")
        self.run("train", "jpegs", *common, "--epochs", "2", "-j", "1", "--out", "train-jpeg")
        self.folder("train-jpeg", self.work / "train-jpeg", trained, only=r"\.jsonl?$")
        self.json("scan.json", trained, "data", "scan", "--json", "jpegs")
        self.json("amp-report.json", trained, "amp-report", "-a", "resnet8", "--image-size", "32", "--batches", "1",
                  "-b", "8", "--classes", "10", "--json", "--threads", "1", "--out", "amp")

    # ---- measured values ----

    def measured(self):
        small = ["--net", "resnet8", "--image-size", "32", "-b", "2", "--threads", "1"]
        for name, args in {"gemm": ["-m", "16", "-n", "16", "-k", "16", "--iters", "1"],
                           "conv": [*small, "--rounds", "1"], "step": [*small, "--rounds", "1"],
                           "memory": ["--max-mib", "4", "--iters", "1"], "peak": ["--max-mib", "4", "--rounds", "1"],
                           "optimizer": ["--net", "resnet8", "--iters", "1"],
                           "input": ["--images", "4", "--size", "48", "--image-size", "32", "-b", "2", "--iters", "1", "--threads", "1"],
                           "collective": ["allreduce", "--ranks", "2", "-e", "1K", "--iters", "1"]}.items():
            self.json(f"bench-{name}.json", shape, "bench", name, *args, "--json")
            if name in ("gemm", "memory", "optimizer", "input", "collective"):
                rows = list(csv.reader(io.StringIO(self.run("bench", name, *args, "--csv"))))
                self.put(f"bench-{name}.csv", "\n".join(rows[0]) + f"\n{len(rows)} rows")

    def make(self):
        try:
            for part in (self.programs_facts, self.figures, self.judged, self.reported, self.trainings, self.measured):
                part()
        finally:
            shutil.rmtree(self.work)


# ---- comparing ----

def same_word(a, b):
    if a == b:
        return True
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    return abs(x - y) <= 1e-9 * max(abs(x), abs(y))


def same_line(a, b):
    u, v = a.split(), b.split()
    return len(u) == len(v) and all(map(same_word, u, v))


def differences(a, b):
    u, v = a.read_text().splitlines(), b.read_text().splitlines()
    found = [f"  line {i + 1}: {x[:150]!r} and {y[:150]!r}" for i, (x, y) in enumerate(zip(u, v)) if not same_line(x, y)]
    return found + ([f"  {len(u)} and {len(v)} lines"] if len(u) != len(v) else [])


def diff(a, b, common):
    a, b = pathlib.Path(a), pathlib.Path(b)
    names = [{p.name for p in top.iterdir()} for top in (a, b)]
    if not names[0] & names[1]:
        sys.exit("golden: the folders have no file in common")
    worse = 0
    for name in sorted(names[0] & names[1] if common else names[0] | names[1]):
        found = differences(a / name, b / name) if name in names[0] & names[1] else ["  in one folder alone"]
        if found:
            worse += 1
            print(f"{name}: {len(found)} differences", *found[:8], sep="\n")
    print(f"{len(names[0] & names[1])} outputs compared, {worse} differ")
    return 1 if worse else 0


def main():
    args = sys.argv[1:]
    if len(args) == 4 and args[0] == "make":
        Maker(*args[1:]).make()
        return 0
    if args[:1] == ["diff"] and len(args) in (3, 4):
        return diff(args[-2], args[-1], "--common" in args)
    sys.exit(__doc__)


sys.exit(main())
