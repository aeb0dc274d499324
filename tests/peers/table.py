"""Prints a record as a table on the terminal."""


def number(value):
    if value is None:
        return "-"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def has_rows(record):
    if record["kind"] == "peer-accuracy":
        return any(side["runs"] for side in record["sides"])
    return any(pair["rows"] for pair in record["pairs"])


def show_pairs(record):
    print(f"\n{'pair':14} {'side':46} {'median':>11} {'min':>11} {'max':>11} {'ours/theirs':>12}"
          "  95 % interval")
    for pair in record["pairs"]:
        for row in pair["rows"]:
            interval = f"{row['low']:.3f} to {row['high']:.3f}" if "low" in row else "-"
            ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
            print(f"{pair['pair']:14} {row['side']:46} {number(row['median']):>11} "
                  f"{number(row['min']):>11} {number(row['max']):>11} {ratio:>12}  "
                  f"{interval if ratio else ''}")
        print(f"{'':14} {pair['unit']}, {pair['better']} is better; {pair['turns']} turns, "
              f"{pair['thrown_away']} thrown away")
    for what, why in record["absent"].items():
        print(f"without {what}: {why}")


def show_accuracy(record):
    print(f"\n{'side':16} {'seeds':>5} {'top-1 %':>8} {'deviation':>9}   minus {record['reference']}")
    for side in record["sides"]:
        apart = side.get("apart")
        words = "" if not apart else (
            f"{apart['difference']:+.2f} ({apart['low']:+.2f} to {apart['high']:+.2f}), "
            f"{'equivalent' if apart['equivalent'] else 'not shown equivalent'}")
        print(f"{side['side']:16} {len(side['runs']):5} {number(side.get('mean')):>8} "
              f"{number(side.get('deviation')):>9}   {words}")


def show(record):
    (show_accuracy if record["kind"] == "peer-accuracy" else show_pairs)(record)
