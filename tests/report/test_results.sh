#!/usr/bin/env bash
# RESULTS.md is what the records give; the page needs nothing from elsewhere; what is no record is
# refused.
. "$(dirname "$0")/../cli/common.sh" "$@"

cd "$source_dir" || exit 1
expect 0 report --no-figures -o "$scratch/RESULTS.md" --html "$scratch/a.html"
cmp RESULTS.md "$scratch/RESULTS.md" ||
    fail "RESULTS.md is not what the records give: run 'ampscale report -o RESULTS.md' and commit it"
expect 0 report --no-figures --html "$scratch/b.html"
cmp "$scratch/a.html" "$scratch/b.html" || fail "the same records gave two pages"
grep -qE '(src|href)="[^d]|url\(|@import|<script|<link' "$scratch/a.html" &&
    fail "the page asks for something from elsewhere"
figures=$(grep -c '^!\[' RESULTS.md)
((figures > 0)) || fail "RESULTS.md shows no figure"
[[ $(grep -c 'src="data:image/' "$scratch/a.html") == "$figures" ]] ||
    fail "the page does not have the $figures figures of RESULTS.md in it"
while IFS= read -r path; do
    [[ -s $path ]] || fail "RESULTS.md shows '$path', which is not there"
done < <(sed -nE 's/^!\[.*\]\(<(.*)>\)$/\1/p' RESULTS.md)

# Other records, other words.
cd "$scratch" || exit 1
mkdir -p rec/here/precision
cp -r "$source_dir"/results/recorded/cpu-avx512-2-threads/precision/{fp32,O1}-seed[01] rec/here/precision
expect 0 report --no-figures rec -o one.md
sed -i 's/"val_top1":[0-9.]*/"val_top1":50/' rec/here/precision/O1-seed0/epochs.jsonl
expect 0 report --no-figures rec -o two.md
grep -q '^| O1-seed0 .* 50.00 ' two.md || fail "a record's accuracy is not in the report"
cmp -s one.md two.md && fail "other records gave the same report"
sed -i "s|\"data[^\"]*\"|\"my da'ta\"|" rec/here/precision/fp32-seed0/run.json
expect 0 report --no-figures rec -o quoted.md
grep -qE "^ampscale train .* 'my da'\\\\''ta'\$" quoted.md || fail "a folder with a blank is not quoted: $(grep '^ampscale train' quoted.md)"

# The quality of the gate; a number that makes no sense is a dash.
mkdir -p gate/here
cat >gate/here/gate.json <<'END'
{"kind": "gate-quality", "schema": 1, "rounds": 10, "slice_ms": 50, "alpha": 0.01, "threshold": 0.03, "inject": "throttle=5%",
 "false_alarms": 0, "caught": 1, "sides_false_alarms": 7, "sides_caught": 1,
 "outcomes": [{"unchanged": {"images_per_s": {"ratio": 1.01}}, "slowed": {"images_per_s": {"ratio": 0.95}}},
  {"unchanged": {"images_per_s": {"ratio": 0.99}}, "slowed": {"images_per_s": {"ratio": 0.96}}}]}
END
expect 0 report --no-figures gate -o gate.md
for line in '### Quality of the gate: gate' '| false alarms | by pairs, as by default | 0 of 2 | 0.0 % (0.0 to 84.2) |' \
    '| slowdowns caught | by pairs, as by default | 1 of 2 | 50.0 % (1.3 to 98.7) |' \
    '| false alarms | as two sides, --pair never | - | - |' '| images\_per\_s | 1.0000 | 0.9550 |'; do
    grep -qxF -- "$line" gate.md || fail "the report lacks '$line': $(cat gate.md)"
done

# A check of a GPU: its record, peaks, its runs beside, and a record that there are no words for.
mkdir -p gpu/card/runs
cp -r rec/here/precision/fp32-seed0 gpu/card/runs/accuracy-fp32
echo '{"bench": "something"}' >gpu/card/a.json
echo '{"bench": "peak", "device": "a card", "copy": [{"bytes": 4194304, "bytes_per_s": 3e12}], "flops": []}' >gpu/card/peak.json
cat >gpu/card/gpu-check.json <<'END'
{"kind": "gpu-check", "description": "a card", "steps": [{"name": "build", "status": "pass", "note": "a|b"}],
 "roofline": [{"precision": "fp32", "net": "resnet50", "batch": 64, "operations": [{"op": "conv", "ms": 1.5}]}]}
END
expect 0 report --no-figures gpu -o gpu.md
for line in '## card' '| build | pass | a\|b |' '| conv | 1.5000 |' '| 4194304 | 3000000000000 |' \
    'A step of resnet50 in fp32, batch 64, against this device'"'"'s peaks:' '### Runs: runs'; do
    grep -qxF "$line" gpu.md || fail "a check of a GPU is told without '$line': $(cat gpu.md)"
done
[[ $(grep -c '^## ' gpu.md) == 1 ]] || fail "one machine has several headings"

# Throughput beside PyTorch's, with the fastest of its ways, and the share of what the peaks allow;
# a dash where there is nothing to compare with. The machine is told from the check.
mkdir -p turns/card
cat >turns/card/gpu-check.json <<'END'
{"kind": "gpu-check", "command": "scripts/gpu-check --only throughput", "description": "a card, sm_90",
 "facts": "name a card, power.limit 700 W", "peer": "PyTorch 2.11", "net": "resnet50", "image_size": 224,
 "machine": {"version": "0.1.0", "commit": "abc", "host": {"os": "an OS",
  "cpu": {"model": "a processor", "cores": 16, "threads": 16, "usable": 16}}},
 "throughput": [
  {"precision": "amp", "batch": 256, "who": "PyTorch compile", "images_per_s": 4000.0, "lowest": 3900.0, "highest": 4100.0, "rounds": 3},
  {"precision": "amp", "batch": 256, "who": "PyTorch eager", "images_per_s": 3000.0, "lowest": 3000.0, "highest": 3000.0, "rounds": 3},
  {"precision": "amp", "batch": 256, "who": "ampscale", "images_per_s": 8000.0, "lowest": 7900.0, "highest": 8100.0, "rounds": 3},
  {"precision": "amp", "batch": 128, "who": "ampscale", "images_per_s": 6000.0, "lowest": 6000.0, "highest": 6000.0, "rounds": 1}],
 "roofline": [{"precision": "amp", "net": "resnet50", "batch": 256, "operations": [
  {"op": "conv", "count": 53, "ms": 20.0, "bound_ms": 16.0, "share": 0.8},
  {"op": "all", "count": 400, "ms": 30.0, "bound_ms": 24.0, "share": 0.8}]}]}
END
expect 0 report --no-figures turns -o turns.md
for line in '| processor | a processor, 16 cores, 16 threads, 16 usable |' '| program | ampscale 0.1.0, commit abc |' \
    "The driver's tool says: name a card, power.limit 700 W" 'Beside it: PyTorch 2.11' 'scripts/gpu-check --only throughput' \
    '| amp | 256 | PyTorch compile | 4000 | 3900 | 4100 | 3 | – | – |' '| amp | 256 | ampscale | 8000 | 7900 | 8100 | 3 | 2.00 | 75.0 |' \
    '| amp | 128 | ampscale | 6000 | 6000 | 6000 | 1 | – | – |' '| all | 400 | 30 | 24 | 0.8000 |'; do
    grep -qxF -- "$line" turns.md || fail "throughput is told without '$line': $(cat turns.md)"
done

# Runs beside records are of one place.
mkdir -p mixed/card
cp -r gpu/card/peak.json gpu/card/runs/accuracy-fp32 mixed/card
expect 0 report --no-figures mixed -o mixed.md
grep -qx '| accuracy-fp32 .*' mixed.md && grep -qx '### Peaks of a device: peak' mixed.md ||
    fail "runs beside records: $(cat mixed.md)"

# A document beside its records names figures from where it is.
mkdir rec/here/precision/figures
echo '<svg></svg>' >rec/here/precision/figures/loss.svg
expect 0 report --no-figures rec -o rec/here/R.md
grep -qxF '![loss](<precision/figures/loss.svg>)' rec/here/R.md || fail "a link is not from the document's folder"

# What is no record, or damaged.
mkdir empty
expect_error 5 "'empty' holds no record" report empty -o none.md
expect_error 2 "nothing to write" report empty

# Damaged records are named and left out; all else is there.
cp -r rec/here/precision/O1-seed0 rec/here/precision/torn
echo '{' >rec/here/bad.json
echo '{"epoch": 1' | sed 's/$/}/' >>rec/here/precision/torn/epochs.jsonl
mkdir rec/study && echo 'x' >rec/study/analysis.json
expect 5 report --no-figures rec -o rec.md --html rec.html
for bad in "'rec/here/bad.json' is no JSON object" "'rec/here/precision/torn/epochs.jsonl' line " "'rec/study/analysis.json'"; do
    [[ $(grep -cF "ampscale: left out: $bad" err) == 1 ]] || fail "stderr does not name $bad once: $(cat err)"
    grep -qF -- "${bad//\'/}" <(tr -d "'" <rec.html) || fail "the page does not name $bad"
done
grep -qx 'ampscale: 3 damaged records were left out; all else was written' err || fail "how many is not said: $(cat err)"
grep -qx '## Left out' rec.md || fail "the report does not say what it leaves out"
grep -q '^| O1-seed0 .* 50.00 ' rec.md || fail "a damaged run took a whole one with it"
! grep -q '^| torn ' rec.md || fail "a damaged run is told"

# Nothing but damage.
mkdir -p ruin/bad && echo '{' >ruin/bad/run.json
expect 5 report --no-figures ruin -o ruin.md
grep -qx '## Left out' ruin.md || fail "a report of a damaged run alone: $(cat ruin.md err)"
finish

# Steps in turns with a framework's; a bench that there are no words for.
mkdir -p peers/here
cat >peers/here/peers-step.json <<'END'
{"kind": "peers", "schema": 1, "bench": "step", "device": "a processor", "peer": "PyTorch 9", "threads": 2, "rounds": 6,
 "limit": 1.02, "passed": true, "rows": [{"row": "resnet50 fp32", "ours ms": 1.5, "ratio": 0.75, "theirs": "eager"}]}
END
echo '{"kind": "peers", "bench": "else", "rows": []}' >peers/here/peers-else.json
expect 0 report --no-figures peers -o peers.md
for words in '^Training steps of ampscale and those of PyTorch, .* (PyTorch 9), in turns: medians of 6 rounds' \
    '^| resnet50 fp32 | 1.5000 | 0.7500 | eager |$' '^else and its peer, in turns'; do
    grep -q -- "$words" peers.md || fail "the report of peers lacks '$words': $(cat peers.md)"
done
