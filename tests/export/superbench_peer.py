"""SuperBench's view of its results-summary.jsonl: the argument is the file.

SuperBench is not on PyPI. Where it is installed, its own reader is used; else its steps, as in
superbench/analyzer/file_handler.py (read_raw_data) and rule_base.py (_get_metrics_by_benchmarks) of
version 0.12: lines by jsonlines, a row of a table for each node, metrics grouped by the part of the
name before the first colon or slash."""

import re
import sys

import jsonlines
import pandas

try:
    from superbench.analyzer.file_handler import read_raw_data
except ImportError:

    def read_raw_data(path):
        table = pandas.DataFrame()
        with open(path, encoding="utf-8") as f:
            for node in jsonlines.Reader(f):
                table = pandas.concat([table, pandas.DataFrame([node])], axis=0, ignore_index=True)
        return table.rename(table["node"]).drop(columns=["node"])


table = read_raw_data(sys.argv[1])
benchmarks = {}
for metric in table.columns:
    assert "/" in metric, metric
    name = metric.split("/")[0]
    name = metric.split(":")[0] if ":" in name else name
    benchmarks.setdefault(name, set()).add(metric)
assert set(benchmarks) == {"model-benchmarks"}, benchmarks
own = [m for m in table.columns if re.search(r"model-benchmarks:.*/ampscale-.*/fp16_train_throughput.*", m)]
theirs = [m for m in table.columns if re.search(r"model-benchmarks:.*/pytorch-.*", m)]
assert own and not theirs, (own, theirs)
assert table.index.tolist() == ["node1"] and (table[own] == 64).all().all(), table
assert all(pandas.api.types.is_numeric_dtype(t) for t in table.dtypes), table.dtypes
codes = [m for m in table.columns if m.endswith("/return_code")]
assert (table[codes] == 0).all().all()
print("SuperBench reads", len(table.columns), "metrics of", len(table), "node")
