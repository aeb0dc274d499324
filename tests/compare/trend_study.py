#!/usr/bin/env python3
"""Measures the error rates of `ampscale trend` on made series whose changes are known.

    tests/compare/trend_study.py --program build/cli/ampscale [--otava]

Prints a row for each family of series: precision, recall, and the share of series with a change that
is none; and then how many points after a change a growing series first reports it, and whether at its
place. A change counts as found within 3 points. --otava adds the columns of Apache Otava
(`pip install apache-otava`), which finds changes from any size on, or from the same size on as
`trend`. The series have fixed seeds.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

NEAR, THRESHOLD, FIRST_S = 3, 0.03, 1700000000
NOISE, POINTS, SEEDS = (0.005, 0.01, 0.02, 0.03), (30, 60, 100, 200), 18
DELAY_AT, DELAY_MOST, DELAY_SERIES = 40, 20, 36


def gauss(rng, n, sigma):
    return [rng.gauss(0, sigma) for _ in range(n)]


def correlated(rng, n, sigma):
    """AR(1) with the coefficient 0.5 and the standard deviation `sigma`."""
    x = [rng.gauss(0, sigma)]
    while len(x) < n:
        x.append(0.5 * x[-1] + rng.gauss(0, sigma * 0.75 ** 0.5))
    return x


def two_modes(rng, n, sigma):
    return [rng.choice((-sigma, sigma)) + rng.gauss(0, 0.3 * sigma) for _ in range(n)]


def outliers(rng, n, sigma):
    return [rng.gauss(0, sigma) - (rng.uniform(0.1, 0.3) if rng.random() < 0.05 else 0)
            for _ in range(n)]


def nothing(rng, n):
    return [1] * n, []


def step(size):
    def level(rng, n):
        at = rng.randint(5, n - 5)
        return [1] * at + [1 - size] * (n - at), [at]
    return level


def two_steps(size, back):
    def level(rng, n):
        gap = rng.randint(8, 15)
        at = rng.randint(10, n - 10 - gap)
        last = 1 if back else (1 - size) ** 2
        return [1] * at + [1 - size] * gap + [last] * (n - at - gap), [at, at + gap]
    return level


def drift(size):
    return lambda rng, n: ([1 - size * i / (n - 1) for i in range(n)], [])


# Name, noise, level, least number of points.
FAMILIES = [
    ("noise only", gauss, nothing, 30),
    ("noise, AR(1) 0.5", correlated, nothing, 30),
    ("noise, two modes", two_modes, nothing, 30),
    ("noise, 5 % outliers of 10 to 30 %", outliers, nothing, 30),
    *((f"step {p} %", gauss, step(p / 100), 30) for p in (1, 2, 5, 10)),
    *((f"step {p} %, outliers", outliers, step(p / 100), 30) for p in (5, 10)),
    *((f"step {p} %, AR(1)", correlated, step(p / 100), 30) for p in (5, 10)),
    *((f"two steps one way, 8 to 15 points apart, {p} %", gauss, two_steps(p / 100, False), 60)
      for p in (5, 10)),
    *((f"taken back after 8 to 15 points, {p} %", gauss, two_steps(p / 100, True), 60)
      for p in (5, 10)),
    *((f"linear drift, {p} % in all", gauss, drift(p / 100), 30) for p in (3, 6, 10)),
]


def make(rng, n, sigma, noise, level):
    levels, at = level(rng, n)
    return [100 * v * (1 + e) for v, e in zip(levels, noise(rng, n, sigma))], at


def series_of(name, noise, level, least):
    return [make(random.Random(f"{name} {n} {sigma} {seed}"), n, sigma, noise, level)
            for n in POINTS if n >= least for sigma in NOISE for seed in range(SEEDS)]


def find_by_trend(program):
    """Returns a function that finds the changes of several series: of 48 at a time, as
    configurations of one history."""
    def some(series):
        with tempfile.TemporaryDirectory(prefix="ampscale-trend") as folder:
            with open(pathlib.Path(folder) / "history.jsonl", "w", encoding="utf-8") as out:
                for k, x in enumerate(series):
                    for i, value in enumerate(x):
                        at_s = FIRST_S + 86400 * i + k
                        out.write(json.dumps({
                            "record": "history", "schema": 1, "added_s": at_s, "started_s": at_s,
                            "commit": "", "accepted": True,
                            "end": {"by": "steps", "steps": 20, "epochs": 0},
                            "fingerprint": {"config.arch": f"s{k:03}"},
                            "metrics": {"images_per_s": value}}) + "\n")
            done = subprocess.run([program, "trend", folder, "--json"], capture_output=True,
                                  text=True, check=True)
        found = {s["name"]: [t["point"] for t in s["steps"]]
                 for s in json.loads(done.stdout)["series"]}
        return [found[f"s{k:03}"] for k in range(len(series))]

    def all_of(series):
        return [at for i in range(0, len(series), 48) for at in some(series[i:i + 48])]
    return all_of


def find_by_otava(least):
    from otava.series import AnalysisOptions, Metric, Series
    options = AnalysisOptions()
    options.min_magnitude = least

    def one(x):
        series = Series("series", None, list(range(len(x))), {"x": Metric()}, {"x": list(x)}, {})
        return [c.index for c in series.analyze(options).change_points["x"]]
    return lambda series: [one(x) for x in series]


def match(true, found):
    """The number of true changes that are found: each by one found change, and each found change
    for one true change."""
    left = list(found)
    for at in true:
        near = [f for f in left if abs(f - at) <= NEAR]
        if near:
            left.remove(min(near, key=lambda f: abs(f - at)))
    return len(found) - len(left)


def rates(true, found):
    """(precision, recall, share of series with a false change), None where nothing was found or
    nothing is true."""
    hits = [match(t, f) for t, f in zip(true, found)]
    n_true, n_found = sum(map(len, true)), sum(map(len, found))
    return (sum(hits) / n_found if n_found and n_true else None,
            sum(hits) / n_true if n_true else None,
            sum(h < len(f) for h, f in zip(hits, found)) / len(true))


def cell(precision, recall, false):
    if recall is None:
        return f"{100 * false:.1f} %"
    return " / ".join([f"{precision:.2f}" if precision is not None else "-", f"{recall:.2f}",
                       f"{100 * false:.1f} %"])


def first_reports(find, size, sigma):
    """[(points after the change, place - true place)] of the first report of each growing series."""
    def level(_, n):
        return [1] * DELAY_AT + [1 - size] * (n - DELAY_AT), [DELAY_AT]
    waiting = [make(random.Random(f"delay {size} {sigma} {seed}"), DELAY_AT + DELAY_MOST, sigma,
                    gauss, level)[0] for seed in range(DELAY_SERIES)]
    reports = []
    for after in range(1, DELAY_MOST + 1):
        found = find([x[:DELAY_AT + after] for x in waiting])
        reports += [(after, f[-1] - DELAY_AT) for f in found if f]
        waiting = [x for x, f in zip(waiting, found) if not f]
    return sorted(reports)


def delay_cell(reports):
    right = sum(wrong == 0 for _, wrong in reports)
    points = [after for after, _ in reports] + [DELAY_MOST] * (DELAY_SERIES - len(reports))
    return f"{points[len(points) // 2]} / {points[len(points) * 9 // 10]} / {right}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True, help="the ampscale program to run")
    parser.add_argument("--otava", action="store_true", help="also run Apache Otava, which takes minutes")
    args = parser.parse_args()
    finders = {"trend": find_by_trend(os.path.abspath(args.program))}
    if args.otava:
        finders |= {"Otava": find_by_otava(0), "Otava, 3 %": find_by_otava(THRESHOLD)}
    print("precision / recall / series with a false change")
    print("| family | series | " + " | ".join(finders) + " |")
    for name, noise, level, least in FAMILIES:
        made = series_of(name, noise, level, least)
        found = [find([x for x, _ in made]) for find in finders.values()]
        print(f"| {name} | {len(made)} | "
              + " | ".join(cell(*rates([t for _, t in made], f)) for f in found) + " |", flush=True)
    print(f"\npoints to the first report: median / 90 % / right place, of {DELAY_SERIES}")
    for size in (0.05, 0.1):
        for sigma in (0.005, 0.01, 0.02):
            print(f"| {100 * size:g} %, noise {100 * sigma:g} % | "
                  + " | ".join(delay_cell(first_reports(find, size, sigma))
                               for find in finders.values()) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
