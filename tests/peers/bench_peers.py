#!/usr/bin/env python3
"""What ampscale measures, compared with the same work without it, on this machine.

usage: bench_peers.py gemm|conv|memory BUILD [--threads N] [--rounds N] [--json FILE]

gemm    matrix products: against dnnl_sgemm on matrices as they lie and oneDNN's inner product,
        which chooses how weights lie, whichever is faster
conv    each convolution of ResNet-18, forward and backward: against oneDNN's primitives
memory  copy, scale, add and triad: against STREAM's loops

BUILD is the build folder with the program and the tests. Both sides run in turn, ROUNDS times, the
one that goes first changing each time. A row's ratio is the median over the rounds of ours over
theirs, in time; above 1 is slower. (best is the ratio of each side's best round; ran is what the
library chose to run, of both where they differ.) A row is slower than its limit (2 %, of memory
5 %) when every round says so, which takes 6 rounds to mean anything. Prints a table, and exits with
1 when a row is slower, or the sum over all rows is. For a machine that does nothing else.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from common import ENVIRONMENT

LIMIT = {"gemm": 1.02, "conv": 1.02, "memory": 1.05}

# Matrix products as (m, n, k, a_t, b_t): first products of square matrices, then the products of
# linear layers in image networks and of recurrent layers.
PRODUCTS = [
    (1024, 1024, 1024, 1, 0),
    (1024, 1024, 1024, 0, 0),
    (1024, 1024, 1024, 0, 1),
    (1000, 64, 2048, 1, 0),
    (2048, 64, 1000, 0, 0),
    (2048, 1000, 64, 0, 1),
    (1760, 128, 1760, 1, 0),
    (1760, 128, 1760, 0, 0),
    (512, 3136, 128, 1, 0),
    (128, 3136, 512, 0, 0),
]


def run(command, text=None):
    done = subprocess.run(command, input=text, env=ENVIRONMENT, stdout=subprocess.PIPE,
                          universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}")
    return done.stdout


def ours(args, *words):
    return json.loads(run([f"{args.build}/cli/ampscale", "bench", *words, "--threads",
                           str(args.threads), "--json"]))


def direct(args, lines, rounds):
    out = run([f"{args.build}/tests/peers/peer_onednn", str(args.threads), str(rounds)],
              "\n".join(lines) + "\n")
    lines = [line.split(" ", 1) for line in out.splitlines()]
    return [(None if seconds == "none" else float(seconds), impl) for seconds, impl in lines]


def add(rows, name, mine, theirs):
    """A round of a row: seconds and implementation of ours, and of each way without ampscale."""
    rows.setdefault(name, []).append((mine, theirs))


def in_turn(turn, first, second):
    """Both, in an order that changes; their results in the order of the arguments."""
    if turn % 2:
        b = second()
        return first(), b
    return first(), second()


def round_gemm(args, turn, rows):
    repeats = 15
    for size in PRODUCTS:
        m, n, k, a_t, b_t = size
        words = ["gemm", "-m", str(m), "-n", str(n), "-k", str(k), "--iters", str(repeats),
                 "--peak", args.peak] + ["--a-t"] * a_t + ["--b-t"] * b_t
        line = " ".join(map(str, size))
        mine, theirs = in_turn(
            turn,
            lambda: ours(args, *words)["rows"][0],
            lambda: [direct(args, [f"{kind} {line}"], repeats)[0] for kind in ("gemm", "product")])
        add(rows, "%dx%dx%d %s%s" % (m, n, k, "NT"[a_t], "NT"[b_t]),
            (mine["seconds"]["median"], mine["impl"]), theirs)


def round_conv(args, turn, rows):
    repeats = 5
    passes = ("fwd", "bwd_data", "bwd_weights")
    words = ["conv", "--net", "resnet18", "-b", "4", "--no-step", "--rounds", str(repeats)]
    if not args.shapes:
        shapes = ours(args, *words[:-1], "1")["shapes"]
        args.shapes = [(s, p) for s in shapes for p in range(3) if passes[p] in s]
    lines = []
    for s, p in args.shapes:
        o, _, kh, kw = s["w"]
        lines.append("conv %d %s %d %d %d %d %d %d" % (p, " ".join(map(str, s["x"])), o, kh, kw,
                                                       s["stride"], s["pad"], s["groups"]))
    mine, theirs = in_turn(turn, lambda: ours(args, *words)["shapes"],
                           lambda: direct(args, lines, repeats))
    mine = {s["layer"]: s for s in mine}
    for (s, p), way in zip(args.shapes, theirs):
        row = mine[s["layer"]][passes[p]]
        add(rows, f"{s['layer']} {passes[p]}", (row["seconds"], row["impl"]), [way])


def round_memory(args, turn, rows):
    repeats, mib = 12, args.mib
    mine, theirs = in_turn(
        turn,
        lambda: ours(args, "memory", "-n", str(repeats), "--max-mib", str(mib))["rows"],
        lambda: run([f"{args.build}/tests/peers/peer_stream", str(mib), str(repeats),
                     str(args.threads)]))
    theirs = {word: float(rate) for word, rate in (line.split() for line in theirs.splitlines())}
    for row in mine:
        add(rows, row["kernel"], (row["seconds"]["min"], ""),
            [(row["bytes"] / theirs[row["kernel"]], "")])


def fastest(rounds):
    """The seconds of both in each round, theirs by the way that was faster over all rounds, and
    what ran."""
    ways = [way for way, (seconds, _) in enumerate(rounds[0][1]) if seconds]
    way = min(ways, key=lambda w: statistics.median(theirs[w][0] for _, theirs in rounds))
    return ([(mine[0], theirs[way][0]) for mine, theirs in rounds],
            (rounds[0][0][1].replace("onednn:", ""), rounds[0][1][way][1]))


def judge(pairs, impls, limit):
    ratios = [a / b for a, b in pairs]
    return {"ours_s": statistics.median(a for a, _ in pairs),
            "theirs_s": statistics.median(b for _, b in pairs),
            "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
            "best": min(a for a, _ in pairs) / min(b for _, b in pairs),
            "ours": impls[0], "theirs": impls[1], "slower": min(ratios) > limit}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(LIMIT))
    parser.add_argument("build")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=128, help="memory: of an array")
    parser.add_argument("--json", help="file for the record")
    args = parser.parse_args()
    args.shapes = None
    measure = {"gemm": round_gemm, "conv": round_conv, "memory": round_memory}[args.what]
    limit = LIMIT[args.what]
    rounds = {}
    with tempfile.TemporaryDirectory() as scratch:
        # a file with made-up peaks, because shares of the peaks are not used
        args.peak = f"{scratch}/peak.json"
        with open(args.peak, "w") as out:
            json.dump({"schema": 1, "bench": "peak", "device": "",
                       "copy": [{"bytes": 1e6, "bytes_per_s": 1e9}], "flops": []}, out)
        for turn in range(args.rounds):
            measure(args, turn, rounds)
    chosen = {name: fastest(list_) for name, list_ in rounds.items()}
    rows = {name: judge(*pairs, limit) for name, pairs in chosen.items()}
    sums = [tuple(map(sum, zip(*turn))) for turn in zip(*(pairs for pairs, _ in chosen.values()))]
    rows["all"] = judge(sums, ("", ""), limit)
    print(f"{args.what}: {args.threads} threads, {args.rounds} rounds, slower is above {limit}")
    print(f"{'row':32} {'ours ms':>10} {'theirs ms':>10} {'ratio':>7} {'least':>7} {'most':>7} "
          f"{'best':>7}  ran")
    for name, r in rows.items():
        print(f"{name:32} {r['ours_s'] * 1e3:10.4f} {r['theirs_s'] * 1e3:10.4f} {r['ratio']:7.3f} "
              f"{r['least']:7.3f} {r['most']:7.3f} {r['best']:7.3f}  "
              f"{r['ours'] if r['ours'] == r['theirs'] else r['ours'] + ' | ' + r['theirs']}"
              f"{'  SLOWER' if r['slower'] else ''}")
    slower = sum(r["slower"] for r in rows.values())
    print(f"{len(rows) - slower} of {len(rows)} rows are not slower: {'FAIL' if slower else 'PASS'}")
    if args.json:
        info = json.loads(run([f"{args.build}/cli/ampscale", "info", "--json"]))
        record = {"kind": "peers", "schema": 1, "bench": args.what,
                  "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                  "device": info["devices"][0]["description"], "commit": info.get("commit", ""),
                  "threads": args.threads, "rounds": args.rounds, "limit": limit,
                  "passed": slower == 0,
                  "rows": [{"row": name, "ours ms": r["ours_s"] * 1e3,
                            "theirs ms": r["theirs_s"] * 1e3, "ratio": r["ratio"],
                            "least": r["least"], "most": r["most"], "ours": r["ours"],
                            "theirs": r["theirs"]} for name, r in rows.items()]}
        with open(args.json, "w") as out:
            json.dump(record, out, indent=1)
            out.write("\n")
    sys.exit(slower > 0)


if __name__ == "__main__":
    main()
