"""pandas' view of the tables of a run: arguments are the folder of the tables and the run's folder."""

import json
import pathlib
import sys

import pandas

tables, run = map(pathlib.Path, sys.argv[1:])
rows = 0
for name in "steps", "epochs", "ranks", "telemetry":
    table = pandas.read_csv(tables / f"{name}.csv")
    path = run / f"{name}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    records = [r for r in records if "event" not in r]  # such lines are no rows
    assert table.columns[0] == "run" and table.columns.is_unique, (name, table.columns)
    assert len(table) == len(records), (name, len(table), len(records))
    rows += len(table)
    for i, record in enumerate(records):
        assert table.at[i, "run"] == run.name, (name, i)
        for key, value in record.items():
            got = table.at[i, key]
            # The record has null for a value that is not finite. Its cell in the table is empty.
            same = pandas.isna(got) if value is None else abs(float(got) - value) <= 1e-9 * abs(value)
            assert same, (name, i, key, got, value)
assert rows > 0
print("pandas reads", rows, "rows")
