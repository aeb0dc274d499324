"""Takes turns: each turn measures every side of a pair once, one after the other, on the same work.

The side that goes first changes with each turn. A turn in which other processes or the hypervisor
took more than a limit of the machine's time during a side is thrown away whole, said, and repeated,
until there are enough turns, more than as many were thrown away, or the time is over. Medians,
spreads and ratios are over the turns that remain; a ratio is taken within a turn, since neighbours in
time drift together.
"""
import statistics
import time

import machine
from common import PeerError
from peer_stats import median_interval

LEVEL = 0.95
# Seconds: the longest wait for a quiet machine, and the length of one measurement of its load.
PATIENCE, PROBE = 10, 0.5


def is_quiet(limit):
    """Waits until the load of other processes is at most the limit. False: it stays above."""
    end = time.monotonic() + PATIENCE
    while True:
        with machine.Watch() as watch:
            time.sleep(PROBE)
        if max(watch.others, watch.steal) <= limit:
            return True
        if time.monotonic() >= end:
            return False


def measure_side(side):
    """The value of a side, and the shares of the machine's time that went elsewhere meanwhile."""
    with machine.Watch() as watch:
        value = side.measure()
    return value, watch


def take_turn(sides, first, limit):
    """A value for each side, and the largest shares; None in place of the values of a turn that
    was disturbed, which ends with the side that was."""
    values, others, steal = {}, 0.0, 0.0
    if not is_quiet(limit):
        return None, others, steal
    for side in sides[first:] + sides[:first]:
        values[side.name], watch = measure_side(side)
        others, steal = max(others, watch.others), max(steal, watch.steal)
        if others > limit or steal > limit:
            return None, others, steal
    return values, others, steal


def drop_failed(peers, pair, sides):
    """Warms each side up. A peer that fails here is named and left out; ours must not fail."""
    kept = []
    for side in sides:
        try:
            side.warm()
            kept.append(side)
        except PeerError as problem:
            if side is sides[0]:
                raise
            peers.absent[f"{pair.name}: {side.name}"] = str(problem)
            peers.say(f"{pair.name}: without {side.name}: {problem}")
    return kept


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "values": values}


def row_of(pair, side, ours, turns):
    values = [turn[side.name] for turn in turns]
    row = {"side": side.name, **summary(values)}
    if side is not ours:
        ratios = [turn[ours.name] / turn[side.name] for turn in turns]
        row["ratio"] = statistics.median(ratios)
        interval = median_interval(ratios, LEVEL)
        if interval:
            row["low"], row["high"] = interval
    return row


def measure_pair(peers, pair, wanted):
    """The record of a pair: its rows, and how many turns were kept and thrown away."""
    out = {"pair": pair.name, "work": pair.work, "unit": pair.unit, "better": pair.better,
           "turns": 0, "thrown_away": 0, "others": 0.0, "steal": 0.0, "load": machine.load(),
           "rows": []}
    limit = peers.limit if pair.timed else 1.0
    if not peers.has_time(pair.name):
        return out
    if not is_quiet(limit):  # without a quiet machine, nothing is measured
        peers.say(f"{pair.name}: the machine stayed busy for {PATIENCE} s")
        out["thrown_away"] = 1
        return out
    if not pair.timed:
        wanted = min(wanted, 2)  # such values hardly vary, so two turns suffice
    sides = pair.sides(peers)
    try:
        kept = drop_failed(peers, pair, sides)
        turns = []
        while (len(kept) > 1 and len(turns) < wanted and out["thrown_away"] <= wanted
               and peers.has_time(pair.name)):
            first = (len(turns) + out["thrown_away"]) % len(kept)
            values, others, steal = take_turn(kept, first, limit)
            if values is None:
                out["thrown_away"] += 1
                peers.say(f"{pair.name}: a turn was thrown away: " + (
                    f"other processes took {others:.0%} of the machine, the hypervisor {steal:.0%}"
                    if others + steal else f"the machine stayed busy for {PATIENCE} s"))
                continue
            turns.append(values)
            out["others"], out["steal"] = max(out["others"], others), max(out["steal"], steal)
    finally:
        for side in sides:
            side.end()
    out["turns"] = len(turns)
    if turns:
        out["rows"] = [row_of(pair, side, kept[0], turns) for side in kept]
    return out
